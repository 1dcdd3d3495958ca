"""Spaces as plain JSON, to be saved beside a model and made again without its environment."""

from typing import Any

import numpy as np
from gymnasium import spaces

Table = dict[str, Any]


def describe_space(space: spaces.Space) -> Table:
    """A space as a table."""
    if isinstance(space, spaces.Discrete):
        return {"kind": "discrete", "count": int(space.n), "first": int(space.start)}
    if not isinstance(space, spaces.Box):
        raise ValueError(f"only discrete and box spaces can be saved, got {space}")
    ends = {"low": _plain(space.low), "high": _plain(space.high)}
    return {"kind": "box", "shape": list(space.shape), "dtype": space.dtype.name, **ends}


def read_space(table: Table) -> spaces.Space:
    """Undo `describe_space`."""
    if table["kind"] == "discrete":
        return spaces.Discrete(table["count"], start=table["first"])
    shape, kind = tuple(table["shape"]), np.dtype(table["dtype"])
    low, high = (_full(table[end], shape, kind) for end in ("low", "high"))
    return spaces.Box(low, high, shape, kind.type)  # type: ignore[arg-type]


def _plain(values: np.ndarray) -> Any:
    """One number where all are alike; infinities as words, which JSON does not have."""
    if values.size and (values == values.flat[0]).all():
        return _word(values.flat[0].item())
    return [_word(value) for value in values.ravel().tolist()]


def _word(value: float) -> Any:
    return str(value) if np.isinf(value) else value


def _full(value: Any, shape: tuple[int, ...], kind: np.dtype) -> np.ndarray:
    if isinstance(value, list):
        return np.array([float(v) for v in value], dtype=kind).reshape(shape)
    return np.full(shape, float(value), dtype=kind)
