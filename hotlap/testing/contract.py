"""What a check raises, and how returned data are compared.

data   an array, or a dict, tuple or list of data, as spaces and infos have them
leaf   one array of the data
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class ContractError(AssertionError):
    """An environment broke its contract."""


def expect(holds: bool, expected: str, found: object, advice: str) -> None:
    """Raise unless something holds.

    Args:
        holds: Whether it does.
        expected: What should have been.
        found: What was.
        advice: What to try.
    """
    if not holds:
        raise ContractError(f"expected {expected}; found {found}. {advice}".rstrip())


def leaves(data: Any, path: str = "") -> Iterator[tuple[str, Array]]:
    """Every array of the data with the way to it; an array of objects is a list of data."""
    if isinstance(data, dict):
        for key, value in data.items():
            yield from leaves(value, f"{path}[{key!r}]")
    elif isinstance(data, tuple | list) or (isinstance(data, np.ndarray) and data.dtype == object):
        for index, value in enumerate(data):
            yield from leaves(value, f"{path}[{index}]")
    else:
        yield path, np.asarray(data)


def difference(one: Any, other: Any) -> str | None:
    """Where two pieces of data first differ, or None if they are equal in every bit."""
    first, second = dict(leaves(one)), dict(leaves(other))
    if first.keys() != second.keys():
        return f"entries {sorted(first.keys() ^ second.keys())[:3]} on one side only"
    for path, a in first.items():
        b = second[path]
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"{a.dtype}{a.shape} against {b.dtype}{b.shape} at {path or 'the top'}"
        floating = np.issubdtype(a.dtype, np.floating)
        if not np.array_equal(a, b, equal_nan=floating):
            where = tuple(int(i) for i in np.argwhere(np.atleast_1d(a != b))[0])
            values = f"{np.atleast_1d(a)[where]} against {np.atleast_1d(b)[where]}"
            return f"{values} at {path}{list(where)}"
    return None


def map_leaves(function: Callable[..., Array], *data: Any) -> Any:
    """Apply `function` to corresponding arrays of observations or actions."""
    first = data[0]
    if isinstance(first, dict):
        return {key: map_leaves(function, *(d[key] for d in data)) for key in first}
    if isinstance(first, tuple):
        return tuple(map_leaves(function, *parts) for parts in zip(*data, strict=True))
    return function(*data)


def row(batch: Any, place: int) -> Any:
    """One environment's part of batched data."""
    return map_leaves(lambda leaf: leaf[place], batch)


def with_row(batch: Any, other: Any, place: int) -> Any:
    """Batched data with one environment's part taken from another batch."""

    def swap(leaf: Array, source: Array) -> Array:
        leaf = np.array(leaf)
        leaf[place] = source[place]
        return leaf

    return map_leaves(swap, batch, other)
