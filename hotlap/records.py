"""What is written down of a judged policy: plain data, as it goes to files and comes back.

A table is a record as JSON holds it: dicts, lists, strings, finite numbers, and None for what is
not known.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self

End = Literal["crashed", "spun", "stopped", "time", "road end", "ended"]
Interval = tuple[float, float]


class Record:
    """What all records can: go to a table and come back."""

    def __post_init__(self) -> None:
        """Refuse what JSON cannot hold."""
        for name, value in vars(self).items():
            numbers = value if isinstance(value, tuple) else (value,)
            if any(isinstance(number, float) and not math.isfinite(number) for number in numbers):
                raise ValueError(
                    f"{name} of {type(self).__name__} must be finite, got {value}; "
                    "look for a diverged policy or reward"
                )

    def to_table(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {name: _plain(value) for name, value in vars(self).items()}

    @classmethod
    def from_table(cls, table: Mapping[str, Any]) -> Self:
        """What `to_table` wrote."""
        return cls(**{name: _tupled(value) for name, value in table.items()})


@dataclass(frozen=True, kw_only=True)
class EpisodeResult(Record):
    """One episode; None stands for what its task does not tell."""

    identity: int
    """Which environment of the batch it was; with the seed, it decides the whole episode."""
    seed: int
    """Seed that the batch, or a Gymnasium environment, was given."""
    episode_return: float
    """Sum of its rewards."""
    length: int
    """Control steps it took."""
    end: End
    """Left the road or hit a wall; slid sideways on it until it did not go forwards any more; stood
    still or reversed; out of time; an open road driven to its end; ended otherwise."""
    track: str | None = None
    """Road it was driven on."""
    seconds: float | None = None
    """Simulated time it took."""
    laps: int | None = None
    """Laps that count: driven from end to end without leaving the road. An open road is one lap."""
    laps_begun: int | None = None
    """Laps that it began and had time for; a crash loses one, the clock's end does not."""
    lap_times: tuple[float, ...] | None = None
    """Times of those that count in seconds, in the order driven."""
    flying_lap_times: tuple[float, ...] | None = None
    """The same for laps that began in motion: the second and later ones."""
    over_edge: float | None = None
    """Share of the steps on which some part of the car's width was beyond the road's edge."""
    tiles: float | None = None
    """Share of its track's tiles that it drove over, where there are tiles (CarRacing)."""
    mean_abs_cte: float | None = None
    """Mean distance from the line, in DonkeyCar units of 0.125 m."""
    mean_speed: float | None = None
    """Mean speed in m/s."""
    progress: float | None = None
    """Net distance along the road, metres."""
    crash_s: float | None = None
    """Arc length along the road where it crashed or spun, metres; None where it did not."""


@dataclass(frozen=True, kw_only=True)
class Summary(Record):
    """What some episodes say together."""

    count: int
    """Number of episodes."""
    mean_return: float
    """Mean of the episodes' returns."""
    interval: Interval | None
    """Bootstrap interval (95 %) of `mean_return`; None for a single episode."""
    std_return: float
    """Standard deviation of the returns as Stable-Baselines3 has it (divided by their number)."""
    iqm: float
    """Mean of the middle half of the returns, which a few strange episodes cannot move."""
    iqm_interval: Interval | None
    """Bootstrap interval (95 %) of `iqm`; None for a single episode."""
    lap_rate: float | None = None
    """Share of the episodes with a lap that counts."""
    laps_finished: float | None = None
    """Laps that count over laps that were begun and had time to finish."""
    mean_lap_time: float | None = None
    """Mean time of all laps that count, seconds."""
    best_lap_time: float | None = None
    """Time of the fastest of them, seconds."""
    lap_time_ratio: float | None = None
    """That time over the least possible on its track; None where no one solved for the latter."""
    mean_lap_ratio: float | None = None
    """Mean time of all laps that count over the least possible; of several tracks, their mean."""
    flying_lap_ratio: float | None = None
    """The same for laps that began in motion, as the least possible does."""
    over_edge: float | None = None
    """Share of the steps on which some part of the car's width was beyond the road's edge."""
    tiles: float | None = None
    """Mean share of a track's tiles that an episode drove over, where there are tiles."""

    @classmethod
    def from_table(cls, table: Mapping[str, Any]) -> Self:
        """What `to_table` wrote, today or earlier."""
        return super().from_table(rename_intervals(table))


@dataclass(frozen=True, kw_only=True)
class EvalResult(Summary):
    """A judged policy: every episode, what they say together, and the same for each track."""

    episodes: tuple[EpisodeResult, ...]
    """Every episode played, by identity."""
    tracks: dict[str, Summary] = field(default_factory=dict)
    """Summaries by track; empty where a task has none."""

    @classmethod
    def from_table(cls, table: Mapping[str, Any]) -> Self:
        """What `to_table` wrote, today or earlier."""
        table = rename_intervals(table)
        values = {name: _tupled(value) for name, value in table.items()}
        values["episodes"] = tuple(EpisodeResult.from_table(row) for row in table["episodes"])
        values["tracks"] = {
            name: Summary.from_table(row) for name, row in table.get("tracks", {}).items()
        }
        return cls(**values)


def rename_intervals(table: Mapping[str, Any]) -> dict[str, Any]:
    """An evaluation in today's words, from one of any age; those of its tracks and sets as well.

    Once `interval` was that of the IQM, with the mean's in `mean_interval`.
    """
    told = {name: _renamed(value) for name, value in table.items()}
    if "mean_interval" in told:
        told["iqm_interval"] = told.get("interval")
        told["interval"] = told.pop("mean_interval")
    return told


def brief(reason: str) -> str:
    """Why something failed, in one line: the first, and the last of what was printed."""
    lines = [line.strip() for line in reason.splitlines() if line.strip()]
    first = lines[0].removesuffix("; it printed last:") if lines else ""
    return first if len(lines) < 2 else f"{first}: {lines[-1]}"


def claim_in_words(mean: float, interval: Interval, runs: int) -> str:
    """What is claimed of a champion."""
    low, high = interval
    if low == high:  # by the naive rule one run decides, and nothing is known of its luck
        return f"{mean:.2f} in one run"
    seeds = "one fresh seed" if runs == 1 else f"{runs} fresh seeds"
    return f"{mean:.2f} [{low:.2f}, {high:.2f}] over {seeds}"


def _plain(value: Any) -> Any:
    """Records as dicts and tuples as lists, all the way down."""
    if isinstance(value, Record):
        return value.to_table()
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, tuple):
        return [_plain(inner) for inner in value]
    return value


def _renamed(value: Any) -> Any:
    """The same with every table inside renamed."""
    if isinstance(value, Mapping):
        return rename_intervals(value)
    if isinstance(value, list):
        return [_renamed(inner) for inner in value]
    return value


def _tupled(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
