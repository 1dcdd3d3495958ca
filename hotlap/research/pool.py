"""A pool: configurations to choose among, where not all of a space is to be had.

A study knows a configuration by its point, which it reads back to twelve digits. Whoever recorded
one may have written more of them, or numbers of NumPy's; what was given is handed back as it was.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hotlap.research.kernel import Array
from hotlap.research.space import Params, SearchSpace, identity


@dataclass(frozen=True)
class Pool:
    """Some configurations of a space; `make_pool` makes one."""

    points: Array
    """(configurations, dimensions)"""
    given: tuple[Params, ...]
    """Each as it was given."""
    numbers: dict[str, int]
    """Their numbers, by the names under which a study knows them."""

    def number(self, params: Mapping[str, Any]) -> int:
        """The number of a configuration that a study has chosen."""
        name = identity(params)
        if name not in self.numbers:
            raise ValueError(
                f"configuration {name}, {dict(params)!r:.100}, is not in the pool; go on with the "
                "pool that the study was begun with, or choose another folder"
            )
        return self.numbers[name]

    def as_given(self, params: Mapping[str, Any]) -> Params:
        """A configuration that a study has chosen, as it was given."""
        return dict(self.given[self.number(params)])


def make_pool(space: SearchSpace, members: Array | Sequence[Mapping[str, Any]]) -> Pool:
    """A pool of params, or of points of the space (m, d)."""
    members = members if isinstance(members, np.ndarray) else list(members)
    if not len(members):
        raise ValueError("a pool needs at least one configuration")
    if isinstance(members, np.ndarray):
        return _of_points(space, members)
    for number, params in enumerate(members):
        if not isinstance(params, Mapping):
            raise ValueError(f"pool: configuration {number} must be params, got {params!r:.80}")
        if problem := space.problem(params):
            raise ValueError(f"pool: configuration {number}: {problem}")
    points = np.stack([space.encode(params) for params in members])
    numbers: dict[str, int] = {}
    for number, point in enumerate(points):
        first = numbers.setdefault(identity(space.decode(point)), number)
        if first != number:
            raise ValueError(
                f"pool: configurations {first} and {number} are the same, to twelve digits; join "
                "them, or leave one out"
            )
    return Pool(points, tuple(dict(params) for params in members), numbers)


def _of_points(space: SearchSpace, points: Array) -> Pool:
    if points.ndim != 2 or points.shape[1] != len(space) or not np.isfinite(points).all():
        raise ValueError(
            f"a pool of points must be finite and of shape (m, {len(space)}), as space.encode "
            f"makes them, got shape {points.shape}; a list of params will do as well"
        )
    given = tuple(space.decode(point) for point in points)
    numbers: dict[str, int] = {}
    for number, params in enumerate(given):
        numbers.setdefault(identity(params), number)
    return Pool(points, given, numbers)
