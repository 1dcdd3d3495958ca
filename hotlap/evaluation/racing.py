"""Two drivers in the same episodes, compared pair by pair.

    pair         an episode of either driver with the same track, seed, start and time
    pace         road driven over time, m/s; a car that crashed stands there until time is up
    lap time     mean of an episode's laps; on an open road the time to its end, seconds
    difference   a less b, pair by pair

Pace decides: it is there for every episode, and neither a fast car that crashes nor a slow one that
never does can buy it with the other. Lap times are compared where both have one. In CarRacing the
score says all that, and decides.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from hotlap.evaluation.statistics import mean_interval
from hotlap.evaluation.summary import BOOTSTRAP_SEED, summarise, without_episodes
from hotlap.records import EpisodeResult, Interval, Record, Summary

Winner = Literal["a", "b", "even"]
Episodes = Sequence[EpisodeResult]


@dataclass(frozen=True, kw_only=True)
class Difference(Record):
    """What one driver has more than the other."""

    mean: float
    """Mean over the pairs of a less b."""
    interval: Interval | None
    """Bootstrap interval (95 %) of it, drawn pair by pair; None for a single pair."""
    pairs: int
    """How many pairs could be compared."""


@dataclass(frozen=True, kw_only=True)
class Duel(Record):
    """Two drivers on some tracks."""

    winner: Winner
    """Whose pace is higher; even where the interval of the difference holds 0."""
    a: Summary
    b: Summary
    pace_a: float
    """Mean pace of a, m/s."""
    pace_b: float
    pace: Difference
    """In m/s."""
    lap_time: Difference | None
    """In seconds, over pairs in which both drove a lap; None where there is none."""
    episode_return: Difference


@dataclass(frozen=True, kw_only=True)
class Race(Duel):
    """All tracks together, and each by itself."""

    tracks: dict[str, Duel]


@dataclass(frozen=True, kw_only=True)
class Match(Record):
    """Two drivers of CarRacing, where what counts is the score."""

    winner: Winner
    """Whose score is higher; even where the interval of the difference holds 0."""
    a: Summary
    b: Summary
    episode_return: Difference
    """In points."""
    lap_time: Difference | None
    """In seconds, over pairs in which both touched every tile; None where there is none."""


def match_on(ours: Episodes, theirs: Episodes) -> Match:
    """Compare two drivers by their scores.

    Args:
        ours: Episodes of a.
        theirs: Those of b, in the same order.
    """
    _refuse_unpaired(ours, theirs)
    pairs = list(zip(ours, theirs, strict=True))
    laps = [pair for pair in map(_lap_times, pairs) if None not in pair]
    earned = _difference([np.array([[row.episode_return for row in pair] for pair in pairs])])
    assert earned is not None
    a, b = (without_episodes(summarise(rows)) for rows in (ours, theirs))
    lap_time = _difference([np.array(laps, dtype=np.float64)])
    return Match(winner=_winner(earned), a=a, b=b, episode_return=earned, lap_time=lap_time)


def race_on(
    ours: Mapping[str, Episodes],
    theirs: Mapping[str, Episodes],
    seconds: Mapping[str, float],
    limits: Mapping[str, float],
) -> Race:
    """Compare two drivers.

    Args:
        ours: Episodes of a by track.
        theirs: Those of b, in the same order.
        seconds: Time that an episode had, by track.
        limits: The least possible lap time by track, seconds, where it is known.
    """
    for track in ours:
        _refuse_unpaired(ours[track], theirs[track])
    tracks = {track: _duel([track], ours, theirs, seconds, limits) for track in ours}
    return Race(**vars(_duel(list(ours), ours, theirs, seconds, limits)), tracks=tracks)


def _refuse_unpaired(ours: Episodes, theirs: Episodes) -> None:
    a, b = ([(row.identity, row.seed, row.track) for row in rows] for rows in (ours, theirs))
    if a != b:
        raise ValueError(f"episodes are no pairs: identity, seed and track are {a} and {b}")


def _duel(
    names: list[str],
    ours: Mapping[str, Episodes],
    theirs: Mapping[str, Episodes],
    seconds: Mapping[str, float],
    limits: Mapping[str, float],
) -> Duel:
    pairs = [list(zip(ours[name], theirs[name], strict=True)) for name in names]
    paces = [
        np.array([[pace(row, seconds[name]) for row in pair] for pair in group])
        for name, group in zip(names, pairs, strict=True)
    ]
    laps = [
        np.array([pair for pair in map(_lap_times, group) if None not in pair], dtype=np.float64)
        for group in pairs
    ]
    earned = [np.array([[row.episode_return for row in pair] for pair in group]) for group in pairs]
    a, b = (
        without_episodes(summarise([row for name in names for row in rows[name]], limits))
        for rows in (ours, theirs)
    )
    mean_a, mean_b = np.concatenate(paces).mean(0).tolist()
    lead = _difference(paces)
    assert lead is not None
    returns = _difference(earned)
    assert returns is not None
    return Duel(
        winner=_winner(lead),
        a=a,
        b=b,
        pace_a=mean_a,
        pace_b=mean_b,
        pace=lead,
        lap_time=_difference(laps),
        episode_return=returns,
    )


def pace(row: EpisodeResult, seconds: float) -> float:
    """Road driven per second of `seconds`, or of the time to the end of an open road."""
    assert row.progress is not None and row.seconds is not None
    return row.progress / (row.seconds if row.end == "road end" else seconds)


def _lap_times(pair: tuple[EpisodeResult, EpisodeResult]) -> tuple[float | None, ...]:
    return tuple(_lap_time(row) for row in pair)


def _lap_time(row: EpisodeResult) -> float | None:
    if row.lap_times:
        return float(np.mean(row.lap_times))
    return row.seconds if row.end == "road end" else None


def _difference(groups: Sequence[np.ndarray]) -> Difference | None:
    """From values of both (pairs, 2) by track; None where there are no pairs."""
    apart = [group[:, 0] - group[:, 1] for group in groups if len(group)]
    if not apart:
        return None
    every = np.concatenate(apart)
    interval = mean_interval(apart, BOOTSTRAP_SEED) if len(every) > 1 else None
    return Difference(mean=float(every.mean()), interval=interval, pairs=len(every))


def _winner(lead: Difference) -> Winner:
    if lead.interval is None or lead.interval[0] <= 0 <= lead.interval[1]:
        return "even"
    return "a" if lead.mean > 0 else "b"
