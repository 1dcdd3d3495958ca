"""The search space: which settings a study may choose, named as the settings are.

    dimension   one setting that is free: a range of floats or integers, or a set of choices
    params      a choice of every free setting that counts, by name; plain JSON values
    active      a dimension counts only where its condition holds (`when`): n_steer, say, where the
                agent is dqn
    point       params as the surrogate sees them: one coordinate per dimension
                  floats, integers  0..1 from lowest to highest (on a log scale where asked)
                  choices           their number 0, 1, 2, ...
                  not active        0.5, or choice 0; a fixed place, so that it tells nothing

A file of ranges is TOML; its `[fixed]` table holds settings that differ from their defaults but
are not searched. A range whose ends are both whole (0 and 1) has whole numbers only; one of floats
has a float at one end at least (0.0 and 1.0):

    [agent]
    choices = ["ppo", "dqn"]

    [learning_rate]
    low = 1e-4
    high = 1e-2
    log = true

    [n_steer]
    low = 3
    high = 11
    when = { agent = "dqn" }
"""

import dataclasses
import hashlib
import json
import math
import tomllib
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from hotlap.config.naming import nearest
from hotlap.config.presets import SHIPPED, from_table

Params = dict[str, Any]
Condition = Mapping[str, Sequence[Any]]
"""Values that other dimensions must have, by their names."""

KEYS = {"low", "high", "log", "step", "choices", "when"}
EXAMPLE = '{"rate": {"low": 0.1, "high": 0.9}}'


@dataclass(frozen=True)
class Dimension:
    """One free setting."""

    name: str
    """Its name, with a dot where it lies inside another: ppo.entropy."""
    distribution: BaseDistribution
    """Its range, in Optuna's terms."""
    when: Condition = field(default_factory=dict)
    """Where it counts; empty is everywhere."""

    @property
    def is_choice(self) -> bool:
        """Whether it is one of a set without order."""
        return isinstance(self.distribution, CategoricalDistribution)

    @property
    def levels(self) -> list[Any] | None:
        """Every value it can take; None where there are too many to count."""
        if isinstance(self.distribution, CategoricalDistribution):
            return list(self.distribution.choices)
        low, high, step = self._range
        if step is None or (high - low) / step > 1000:
            return None
        values = [low + i * step for i in range(round((high - low) / step) + 1)]
        return [self._plain(_digits(value)) for value in values]

    def contains(self, value: Any) -> bool:
        """Whether it may have this value."""
        value = plain(value)
        if isinstance(self.distribution, CategoricalDistribution):
            return any(value == c and type(value) is type(c) for c in self.distribution.choices)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        if isinstance(self.distribution, IntDistribution) and value != round(value):
            return False
        low, high, step = self._range
        # A float that went through its coordinate and back may stand a rounding error outside.
        slack = 1e-9 * max(abs(low), abs(high))
        if not low - slack <= value <= high + slack:
            return False
        return step is None or abs((value - low) / step - round((value - low) / step)) < 1e-6

    def encode(self, value: Any) -> float:
        """Its coordinate."""
        if isinstance(self.distribution, CategoricalDistribution):
            return float(self.distribution.choices.index(value))
        low, high = self._scaled(self._range[0]), self._scaled(self._range[1])
        return (self._scaled(value) - low) / (high - low) if high > low else 0.5

    def decode(self, coordinate: float) -> Any:
        """The value nearest to a coordinate, to twelve digits: what was encoded comes back."""
        if isinstance(self.distribution, CategoricalDistribution):
            return self.distribution.choices[round(coordinate)]
        low, high, step = self._range
        share = min(max(float(coordinate), 0.0), 1.0)
        first, last = self._scaled(low), self._scaled(high)
        value = first + share * (last - first)
        if self._log:
            value = math.exp(value)
        if step is not None:
            value = low + round((value - low) / step) * step
        return self._plain(_digits(min(max(value, low), high)))

    @property
    def _range(self) -> tuple[float, float, float | None]:
        d = self.distribution
        assert isinstance(d, FloatDistribution | IntDistribution)
        return d.low, d.high, d.step

    @property
    def _log(self) -> bool:
        d = self.distribution
        assert isinstance(d, FloatDistribution | IntDistribution)
        return bool(d.log)

    def _scaled(self, value: float) -> float:
        return math.log(value) if self._log else float(value)

    def _plain(self, value: float) -> float | int:
        return round(value) if isinstance(self.distribution, IntDistribution) else float(value)


@dataclass(frozen=True)
class SearchSpace:
    """Every free setting, parents before those that hang on them, and what is set for all."""

    dimensions: tuple[Dimension, ...]
    fixed: Params = field(default_factory=dict)
    """Settings that are the same in every trial and are no part of the params."""

    def __post_init__(self) -> None:
        """Refuse what cannot be searched."""
        if not any(self._is_free(d) for d in self.dimensions):
            raise ValueError(
                "a search space needs at least one free parameter: a range with low < high, or "
                "two choices"
            )
        seen: dict[str, Dimension] = {}
        for dimension in self.dimensions:
            for parent, values in dimension.when.items():
                if parent not in seen:
                    raise ValueError(
                        f"{dimension.name} counts when {parent} has some value, so {parent} must "
                        "stand before it in the space"
                    )
                for value in values:
                    if not seen[parent].contains(value):
                        raise ValueError(f"{dimension.name}: {parent} is never {value!r}")
            if dimension.name in seen or dimension.name in self.fixed:
                raise ValueError(f"{dimension.name} stands in the space twice")
            seen[dimension.name] = dimension

    def __len__(self) -> int:
        return len(self.dimensions)

    def __iter__(self) -> Iterator[Dimension]:
        return iter(self.dimensions)

    def __getitem__(self, name: str) -> Dimension:
        for dimension in self.dimensions:
            if dimension.name == name:
                return dimension
        raise KeyError(nearest(name, [d.name for d in self.dimensions], "parameter"))

    def active(self, params: Mapping[str, Any]) -> list[Dimension]:
        """The dimensions that count beside these values."""
        chosen: list[Dimension] = []
        names: set[str] = set()
        for dimension in self.dimensions:
            held = (p in names and params.get(p) in v for p, v in dimension.when.items())
            if all(held):
                chosen.append(dimension)
                names.add(dimension.name)
        return chosen

    def encode(self, params: Mapping[str, Any]) -> NDArray[np.float64]:
        """Params as a point, (dimensions,); refuses what is outside the space."""
        if problem := self.problem(params):
            raise ValueError(problem)
        active = {d.name for d in self.active(params)}
        return np.array(
            [
                d.encode(params[d.name]) if d.name in active else (0.0 if d.is_choice else 0.5)
                for d in self.dimensions
            ]
        )

    def decode(self, point: Sequence[float] | NDArray[np.float64]) -> Params:
        """The params nearest to a point; only those that count are in it."""
        values = {d.name: d.decode(x) for d, x in zip(self.dimensions, point, strict=True)}
        return {d.name: values[d.name] for d in self.active(values)}

    def problem(self, params: Mapping[str, Any]) -> str | None:
        """What keeps these params out of the space, in a sentence; None if they are in it."""
        active = self.active(params)
        for dimension in active:
            if dimension.name not in params:
                return f"{dimension.name} is missing"
            if not dimension.contains(params[dimension.name]):
                return f"{dimension.name} = {params[dimension.name]!r} lies outside its range"
        extra = set(params) - {d.name for d in active}
        return f"{min(extra)} is no free parameter here" if extra else None

    def sample(self, rng: np.random.Generator, count: int = 1) -> NDArray[np.float64]:
        """Points drawn evenly, (count, dimensions), each on its grid and with inactive ones put."""
        return self.settle(rng.random((count, len(self.dimensions))))

    def settle(self, unit: NDArray[np.float64]) -> NDArray[np.float64]:
        """Points of the space from evenly spread numbers in 0..1, (count, dimensions)."""
        points = np.empty_like(unit, dtype=np.float64)
        for column, dimension in enumerate(self.dimensions):
            points[:, column] = _spread(dimension, unit[:, column])
        return self.park(points)

    def park(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """The points with every coordinate that does not count in its fixed place."""
        points = points.copy()
        active = np.ones(points.shape, dtype=bool)
        columns = {d.name: i for i, d in enumerate(self.dimensions)}
        for column, dimension in enumerate(self.dimensions):
            for parent, values in dimension.when.items():
                at = columns[parent]
                allowed = [self.dimensions[at].encode(value) for value in values]
                near = np.abs(points[:, [at]] - np.array(allowed)[None]) < 1e-9
                active[:, column] &= active[:, at] & near.any(axis=1)
            points[~active[:, column], column] = 0.0 if dimension.is_choice else 0.5
        return points

    def restrict(
        self, name: str, low: float | None = None, high: float | None = None
    ) -> "SearchSpace":
        """The same space with a narrower range of one dimension."""
        changed = []
        for d in self.dimensions:
            if d.name == name:
                old = d.distribution
                assert isinstance(old, FloatDistribution | IntDistribution)
                first, last = old.low if low is None else low, old.high if high is None else high
                if first > last:
                    raise ValueError(
                        f"{name} would go from {first:g} to {last:g}; set its other end as well "
                        f"(the space has {old.low:g} to {old.high:g})"
                    )
                new = type(old)(first, last, log=old.log, step=old.step)  # type: ignore[arg-type]
                d = dataclasses.replace(d, distribution=new)
            changed.append(d)
        return SearchSpace(tuple(changed), self.fixed)

    def to_table(self) -> dict[str, Any]:
        """As a TOML file holds it; `make_space` gives back an equal space."""
        table: dict[str, Any] = {"fixed": dict(self.fixed)} if self.fixed else {}
        for d in self.dimensions:
            entry: dict[str, Any] = {}
            if isinstance(d.distribution, CategoricalDistribution):
                entry["choices"] = list(d.distribution.choices)
            else:
                low, high, step = d._range
                entry |= {"low": low, "high": high}
                if d._log:
                    entry["log"] = True
                elif step is not None and (
                    step != 1 or isinstance(d.distribution, FloatDistribution)
                ):
                    entry["step"] = step
            if d.when:
                entry["when"] = {parent: list(values) for parent, values in d.when.items()}
            table[d.name] = entry
        return table

    @staticmethod
    def _is_free(dimension: Dimension) -> bool:
        return not dimension.distribution.single()


def identity(params: Mapping[str, Any]) -> str:
    """A short name for a configuration, the same for equal params, whatever their order."""
    values = {name: plain(value) for name, value in params.items()}
    text = json.dumps(values, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def plain(value: Any) -> Any:
    """A number or word of NumPy's as Python's own; anything else as it is."""
    return value.item() if isinstance(value, np.generic) else value


def make_space(table: Mapping[str, Any], source: str = "search space") -> SearchSpace:
    """A space from plain tables, as in a TOML file; `source` is named when something is wrong.

    {"low": 0, "high": 1} has the integers 0 and 1; {"low": 0.0, "high": 1.0} all between them.
    """
    if not isinstance(table, Mapping):
        raise ValueError(f"{source}: expected ranges by name, such as {EXAMPLE}, got {table!r:.80}")
    fixed = table.get("fixed", {})
    if not isinstance(fixed, Mapping):
        raise ValueError(f"{source}: fixed must be a table of settings, got {fixed!r}")
    dimensions = [
        _dimension(name, entry, source) for name, entry in table.items() if name != "fixed"
    ]
    try:
        return SearchSpace(tuple(dimensions), dict(fixed))
    except ValueError as error:
        raise ValueError(f"{source}: {error}") from None


def as_space(space: SearchSpace | Mapping[str, Any]) -> SearchSpace:
    """A space, made from its tables where it is not yet one."""
    return space if isinstance(space, SearchSpace) else make_space(space)


def load_space(
    name: str | Path, settings: type | None = None, folder: Path = SHIPPED / "research"
) -> SearchSpace:
    """Read a shipped space by its name, or a TOML file.

    With `settings`, a dataclass, it may only name their fields and values that they take.
    """
    path = Path(name)
    if path.suffix != ".toml":
        names = [p.stem for p in folder.glob("*.toml")]
        if str(name) not in names:
            raise KeyError(nearest(str(name), names, "search space"))
        path = folder / f"{name}.toml"
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"{path}: no file of ranges can be read: {error.strerror}") from None
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path}: not valid TOML: {error}") from None
    space = make_space(table, str(path))
    if settings is None:
        return space
    for key in (*(d.name for d in space), *space.fixed):
        _refuse_unknown_field(key, settings, path)
    _refuse_impossible(space, settings, str(path))
    return space


def apply(settings: type, params: Mapping[str, Any], source: str = "params") -> Any:
    """Settings with these values, dotted names going into the settings inside."""
    table: dict[str, Any] = {}
    for key, value in params.items():
        *outer, last = key.split(".")
        inner = table
        for part in outer:
            inner = inner.setdefault(part, {})
        inner[last] = value
    return from_table(settings, table, source)


def _dimension(name: str, entry: Any, source: str) -> Dimension:
    where = f"{source}: {name}"
    if not isinstance(entry, Mapping):
        raise ValueError(f"{where} must be a table with low and high, or choices, got {entry!r}")
    for key in entry:
        if key not in KEYS:
            raise ValueError(f"{where}: {nearest(key, KEYS, 'word of a range')}")
    condition = entry.get("when", {})
    if not isinstance(condition, Mapping):
        raise ValueError(f'{where}: when must be a table such as {{ agent = "dqn" }}')
    when = {
        parent: tuple(map(plain, value if isinstance(value, list | tuple) else (value,)))
        for parent, value in condition.items()
    }
    try:
        return Dimension(name, _distribution(entry), when)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{where}: {error}") from None


def _distribution(entry: Mapping[str, Any]) -> BaseDistribution:
    if "choices" in entry:
        if set(entry) & {"low", "high", "log", "step"}:
            raise ValueError("choices have no low, high, log or step")
        return CategoricalDistribution(tuple(map(plain, entry["choices"])))
    if not {"low", "high"} <= set(entry):
        raise ValueError("expected low and high, or choices")
    low, high, step = (plain(entry.get(name)) for name in ("low", "high", "step"))
    log = bool(entry.get("log", False))
    for value in (low, high):
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not math.isfinite(value)
        ):
            raise ValueError(f"low and high must be finite numbers, got {value!r}")
    if isinstance(low, int) and isinstance(high, int):
        if step is not None and step != round(step):
            raise ValueError(
                f"{low} to {high} has whole numbers only, and no step of {step}; write "
                f"{float(low)} and {float(high)} for floats"
            )
        return IntDistribution(low, high, log=log, step=1 if step is None else round(step))
    return FloatDistribution(low, high, log=log, step=step)


def _digits(value: float) -> float:
    """To twelve digits: what a float loses on its way through a logarithm comes back."""
    return float(f"{value:.12g}")


def _spread(dimension: Dimension, unit: NDArray[np.float64]) -> NDArray[np.float64]:
    """Evenly spread numbers as coordinates of one dimension, every level equally likely."""
    levels = dimension.levels
    if dimension.is_choice:
        assert levels is not None
        return np.minimum((unit * len(levels)).astype(int), len(levels) - 1).astype(float)
    if levels is not None and len(levels) <= 64 and not dimension._log:
        chosen = np.minimum((unit * len(levels)).astype(int), len(levels) - 1)
        return np.array([dimension.encode(level) for level in levels])[chosen]
    if isinstance(dimension.distribution, IntDistribution) or dimension._range[2] is not None:
        return np.array([dimension.encode(dimension.decode(u)) for u in unit])
    return unit


def _refuse_unknown_field(key: str, settings: type, path: Path) -> None:
    """Stop at a range for a setting that there is not."""
    cls: Any = settings
    parts = key.split(".")
    for place, part in enumerate(parts):
        names = [f.name for f in dataclasses.fields(cls)] if dataclasses.is_dataclass(cls) else []
        if part not in names:
            known = [".".join((*parts[:place], name)) for name in names]
            raise ValueError(f"{path}: {nearest('.'.join(parts[: place + 1]), known, 'setting')}")
        cls = typing.get_type_hints(cls)[part]


def _refuse_impossible(space: SearchSpace, settings: type, source: str) -> None:
    """Stop where an end of a range is refused by the settings themselves."""
    corners = [np.zeros(len(space)), np.ones(len(space))]
    for corner in corners:
        for column, dimension in enumerate(space):
            for choice in range(len(dimension.levels or ()) if dimension.is_choice else 1):
                point = corner.copy()
                for other, each in enumerate(space):
                    if each.is_choice:
                        point[other] = min(point[other], len(each.levels or ()) - 1)
                if dimension.is_choice:
                    point[column] = choice
                apply(settings, space.fixed | space.decode(point), source)
