"""A recorded landscape: what many configurations really scored, each with many seeds.

Whole studies are replayed on it in seconds, where training would take days. A study may ask only
for configurations of the table; every query reveals the score of one more seed of a configuration.
The seeds are parted: some are for tuning, and what is chosen in the end is judged on the others,
which no study has seen.

    scores    (configurations, seeds); a run that failed is NaN
    quality   mean score on unseen seeds, with 0 for the average configuration and 1 for the best
    optimism  claimed score - score on unseen seeds, on the same scale
"""

import gzip
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotlap.research.space import Params, SearchSpace, make_space

DEFAULT = Path(__file__).parent / "data" / "landscape.json.gz"

Table = Iterable[tuple[Mapping[str, Any], Sequence[float | None]]]
"""Params, each with its score for every seed; None or NaN where a run failed."""


@dataclass(frozen=True)
class Landscape:
    """A table of configurations and what each scored with every seed."""

    space: SearchSpace
    configs: tuple[Params, ...]
    scores: NDArray[np.float64]
    """(configurations, seeds); NaN where a run failed."""
    seconds: NDArray[np.float64]
    """How long each run took, of the same shape."""
    command: str = ""
    """What made it."""
    tuning_share: float = 0.6
    """Share of the seeds that a study may ask for."""
    truth: NDArray[np.float64] | None = None
    """Mean score of each configuration over all seeds there could be, (configurations,); known
    where the landscape was made up, and judged by then."""

    @cached_property
    def points(self) -> NDArray[np.float64]:
        """The configurations as points of the space, (configurations, dimensions)."""
        return np.array([self.space.encode(params) for params in self.configs])

    @cached_property
    def counted(self) -> NDArray[np.float64]:
        """The scores with that of a failed run as low as the lowest there is."""
        return np.where(np.isfinite(self.scores), self.scores, np.nanmin(self.scores))

    @property
    def tuning_seeds(self) -> int:
        """How many seeds a study may ask for."""
        return round(self.tuning_share * self.scores.shape[1])

    def part(
        self, rng: np.random.Generator, tests: int | None = None
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The seeds, parted at random: those to choose by, and those to judge by."""
        seeds = self.scores.shape[1]
        kept = self.tuning_seeds if tests is None else seeds - tests
        parted = [int(seed) for seed in rng.permutation(seeds)]
        return tuple(parted[:kept]), tuple(parted[kept:])

    def scaled(self, score: float) -> float:
        """A score with 0 for the average configuration and 1 for the best one."""
        means = self.counted.mean(axis=1) if self.truth is None else self.truth
        return float((score - means.mean()) / (means.max() - means.mean()))


class Replay:
    """One study on a landscape: which seeds are open to it, and what it has seen."""

    def __init__(self, landscape: Landscape, seed: int) -> None:
        self.landscape = landscape
        rng = np.random.default_rng([seed, 0x7AB1E])
        # Every replay parts the seeds anew: a few unseen seeds alone would judge with luck.
        self.tuning, self._unseen = landscape.part(rng)
        """Seeds that a study may ask for, and the others."""
        self._open = [list(rng.permutation(self.tuning)) for _ in landscape.configs]
        self.runs: list[tuple[int, float | None]] = []
        """Every query: number of the configuration, and its score or None for a failed run."""

    @property
    def open(self) -> NDArray[np.intp]:
        """Numbers of the configurations that have a seed left."""
        return np.flatnonzero([len(seeds) > 0 for seeds in self._open])

    def query(self, config: int, seed: int | None = None) -> float | None:
        """Reveal one unused seed of a configuration, whichever comes next unless one is named."""
        if not self._open[config]:
            raise ValueError(f"configuration {config} has no unused tuning seed left")
        if seed is None:
            seed = self._open[config].pop()
        else:
            self._open[config].remove(seed)
        score = float(self.landscape.scores[config, seed])
        self.runs.append((config, score if math.isfinite(score) else None))
        return self.runs[-1][1]

    def seeds_left(self, config: int) -> list[int]:
        """The tuning seeds of a configuration that were not asked for yet."""
        return [int(seed) for seed in self._open[config]]

    def judged(self, config: int) -> float:
        """Mean score of a configuration on the unseen seeds, or the true one where it is known."""
        if self.landscape.truth is not None:
            return float(self.landscape.truth[config])
        return float(self.landscape.counted[config, list(self._unseen)].mean())

    def mean(self, config: int) -> float:
        """Mean score of a configuration on all seeds, or the true one where it is known."""
        if self.landscape.truth is not None:
            return float(self.landscape.truth[config])
        return float(self.landscape.counted[config].mean())

    def quality(self, config: int) -> float:
        """That score with 0 for the average configuration and 1 for the best."""
        return self.landscape.scaled(self.judged(config))

    def optimism(self, config: int, claimed: float) -> float:
        """How much more was claimed than the unseen seeds say, on the same scale."""
        return self.landscape.scaled(claimed) - self.quality(config)


def make_landscape(space: SearchSpace, table: Table, source: str = "table") -> Landscape:
    """A landscape from pairs of params and scores; `source` is named when something is wrong."""
    pairs = list(table)
    try:
        configs = tuple(dict(params) for params, _ in pairs)
        rows = [list(scores) for _, scores in pairs]
    except (TypeError, ValueError):
        raise ValueError(
            f"{source}: expected pairs of params and scores, such as "
            '({"rate": 0.1}, [0.5, 0.7, None])'
        ) from None
    for number, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise ValueError(
                f"{source}: configuration {number} has {len(row)} scores and configuration 0 has "
                f"{len(rows[0])}; give one for every seed, None where a run failed"
            )
    try:
        scores = _numbers(rows)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{source}: {error}") from None
    if not np.isfinite(scores).any():
        raise ValueError(f"{source}: there is no score in it")
    landscape = Landscape(space, configs, scores, np.full(scores.shape, math.nan))
    _check(landscape, source)
    return landscape


def as_score(value: Any) -> float:
    """A score as a float, whatever kind of number it is; refuses what only looks like one."""
    if value is None or isinstance(value, bool | np.bool_ | str | bytes):
        raise TypeError(f"a score must be a number, got {value!r:.40}; give a float")
    return float(value)


def load_landscape(path: Path = DEFAULT) -> Landscape:
    """Read a recorded landscape, JSON or gzipped JSON."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise FileNotFoundError(
            f"{path}: there is no such landscape; name a file with the keys space, configs, scores"
        ) from None
    try:
        table = json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)
        scores = _numbers(table["scores"])
        landscape = Landscape(
            make_space(table["space"], str(path)),
            tuple(table["configs"]),
            scores,
            _numbers(table["seconds"]) if "seconds" in table else np.full(scores.shape, math.nan),
            str(table.get("command", "")),
            truth=np.array(table["truth"], dtype=np.float64) if "truth" in table else None,
        )
    except (KeyError, TypeError, OSError, EOFError, json.JSONDecodeError) as error:
        raise ValueError(f"{path}: not a landscape: {type(error).__name__}: {error}") from None
    _check(landscape, path)
    if not 0 < landscape.tuning_seeds < scores.shape[1]:
        raise ValueError(
            f"{path}: {scores.shape[1]} seeds cannot be parted in tuning and unseen ones"
        )
    return landscape


def write_landscape(path: Path, table: dict[str, Any]) -> None:
    """Write a landscape's table: space, configs, scores and perhaps command, seconds, truth.

    A score of None is a run that failed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(table, allow_nan=False, separators=(",", ":"))
    # No time stamp, so that the same table is the same file.
    path.write_bytes(
        gzip.compress(text.encode(), mtime=0) if path.suffix == ".gz" else text.encode()
    )


def _numbers(rows: list[list[float | None]]) -> NDArray[np.float64]:
    return np.array([[math.nan if v is None else as_score(v) for v in row] for row in rows])


def _check(landscape: Landscape, source: str | Path) -> None:
    shape = landscape.scores.shape
    if len(shape) != 2 or shape[0] != len(landscape.configs) or landscape.seconds.shape != shape:
        raise ValueError(
            f"{source}: expected a score and seconds for each of {len(landscape.configs)} "
            f"configurations and every seed, found shapes {shape} and {landscape.seconds.shape}"
        )
    if landscape.truth is not None and landscape.truth.shape != shape[:1]:
        raise ValueError(f"{source}: truth must be one number for each configuration")
    for number, params in enumerate(landscape.configs):
        if problem := landscape.space.problem(params):
            raise ValueError(f"{source}: configuration {number}: {problem}")
