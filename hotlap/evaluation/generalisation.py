"""How a policy does on roads it knows and on roads it never saw.

set       one evaluation of every track; sets differ in their seeds
trained   whether a policy was trained on a track; None where nobody knows, or nobody trained
gap       what trained tracks say less what the others say
"""

import math
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from hotlap.evaluation.crashes import Crashes, find_crashes
from hotlap.evaluation.lap_books import SLOWEST
from hotlap.evaluation.statistics import gap_interval
from hotlap.evaluation.summary import (
    BOOTSTRAP_SEED,
    mean_known,
    summarise,
    without_episodes,
)
from hotlap.records import EpisodeResult, EvalResult, Interval, Record, Summary
from hotlap.sim.tracks.track import Track

Verdict = Literal["drives", "sometimes", "fails"]
DRIVES = 0.9
"""Least lap rate of a policy that drives a track."""
FAILS = 0.1
"""Lap rate below which it fails there; what lies between works sometimes."""
Episodes = list[EpisodeResult]


@dataclass(frozen=True, kw_only=True)
class TrackReport(Summary):
    """All sets of one track together, and each by itself."""

    trained: bool | None
    """Whether the policy was trained on it."""
    verdict: Verdict | None
    """Whether the policy drives it, by its lap rate; None where no episode tells."""
    crashes: Crashes
    """Where it crashed."""
    sets: tuple[Summary, ...]
    """Set by set."""


@dataclass(frozen=True, kw_only=True)
class Gap(Record):
    """What trained tracks say less what the others say; every track counts the same."""

    mean_return: float
    """Difference of the mean returns."""
    interval: Interval | None
    """Bootstrap interval (95 %) over episodes; the choice of tracks is not part of it.

    None where a side has no track with two episodes, which says nothing about chance.
    """
    return_per_step: float
    """The same of returns per step of the time allowed, which longer episodes do not raise."""
    lap_rate: float | None
    """Difference of the lap rates; None where the episodes of a side tell of none."""
    trained: int
    """How many tracks were trained on."""
    zero_shot: int
    """How many were not."""


@dataclass(frozen=True, kw_only=True)
class Report(Summary):
    """A policy on many tracks."""

    verdict: Verdict | None
    """Drives or fails where it does so on every track."""
    gap: Gap | None
    """Trained less zero-shot; None where there are not both."""
    sets: tuple[Summary, ...]
    """All tracks together, set by set."""
    crashes: dict[str, Crashes]
    """By track, where there were any."""
    tracks: dict[str, TrackReport]
    """Track by track."""
    episodes: tuple[EpisodeResult, ...]
    """Every episode, set by set."""


def report_on(
    sets: Sequence[Sequence[EpisodeResult]],
    roads: Mapping[str, Track],
    trained: AbstractSet[str] | None,
    limits: Mapping[str, float],
    allowed: Mapping[str, int],
) -> Report:
    """What some sets of episodes say.

    Args:
        sets: The episodes of each set; every one has driven all roads.
        roads: The tracks by name.
        trained: Names that the policy was trained on; none for one that nobody trained.
        limits: The least possible lap time by track, seconds, where it is known.
        allowed: Most steps of an episode by track.
    """
    every = [episode for own in sets for episode in own]
    together = summarise(every, limits)
    each = [summarise(own, limits) for own in sets]
    tracks = {
        name: _track_report(name, road, every, together, each, trained)
        for name, road in roads.items()
    }
    # The fastest lap of all tracks is one of the shortest road, and says nothing of the others.
    ratio = mean_known([row.lap_time_ratio for row in tracks.values()])
    return Report(
        **vars(replace(without_episodes(together), lap_time_ratio=ratio)),
        verdict=overall_verdict([row.verdict for row in tracks.values()]),
        gap=find_gap(every, trained, allowed),
        sets=tuple(without_episodes(result) for result in each),
        crashes={name: row.crashes for name, row in tracks.items() if row.crashes.count},
        tracks=tracks,
        episodes=tuple(every),
    )


def _track_report(
    name: str,
    road: Track,
    every: Episodes,
    together: EvalResult,
    each: list[EvalResult],
    trained: AbstractSet[str] | None,
) -> TrackReport:
    own = [episode for episode in every if episode.track == name]
    summary = together.tracks[name]
    return TrackReport(
        **vars(summary),
        trained=None if trained is None else name in trained,
        verdict=None if summary.lap_rate is None else verdict_of(summary.lap_rate),
        crashes=find_crashes(own, road),
        sets=tuple(result.tracks[name] for result in each),
    )


def verdict_of(lap_rate: float) -> Verdict:
    """Whether a policy drives a track of which it laps this share of its episodes."""
    if lap_rate >= DRIVES:
        return "drives"
    return "fails" if lap_rate < FAILS else "sometimes"


def overall_verdict(verdicts: Sequence[Verdict | None]) -> Verdict | None:
    """What all tracks that tell agree on; where they do not, it works sometimes."""
    told = [verdict for verdict in verdicts if verdict is not None]
    if not told:
        return None
    return told[0] if len(set(told)) == 1 else "sometimes"


def find_gap(
    episodes: Sequence[EpisodeResult],
    trained: AbstractSet[str] | None,
    allowed: Mapping[str, int],
) -> Gap | None:
    """The gap between tracks in `trained` and the others; None where there are not both."""
    sides: tuple[dict[str, Episodes], dict[str, Episodes]] = {}, {}
    for episode in episodes:
        if episode.track is not None and trained is not None:
            side = sides[episode.track not in trained]
            side.setdefault(episode.track, []).append(episode)
    if not all(sides):
        return None
    returns = [[[row.episode_return for row in own] for own in side.values()] for side in sides]
    tell = all(any(len(own) > 1 for own in side) for side in returns)
    rates = [
        [[_per_step(row, allowed[name]) for row in own] for name, own in side.items()]
        for side in sides
    ]
    told = [[summarise(own).lap_rate for own in side.values()] for side in sides]
    laps = [[[rate] for rate in side if rate is not None] for side in told]
    return Gap(
        mean_return=_apart(returns),
        interval=gap_interval(returns[0], returns[1], BOOTSTRAP_SEED) if tell else None,
        return_per_step=_apart(rates),
        lap_rate=_apart(laps) if all(laps) else None,
        trained=len(sides[0]),
        zero_shot=len(sides[1]),
    )


def _apart(sides: list[list[list[float]]]) -> float:
    """Mean over the tracks of one side less that of the other."""
    known, unseen = (float(np.mean([np.mean(own) for own in side])) for side in sides)
    return known - unseen


def _per_step(row: EpisodeResult, allowed: int) -> float:
    return row.episode_return / (row.length if row.end == "road end" else allowed)


def steps_for_a_lap(track: Track, control_dt: float, least: int) -> int:
    """Control steps that an episode needs so that a slow car can finish a lap.

    In multiples of `least`, so that tracks of about one length are driven together.
    """
    return least * max(1, math.ceil(track.length / SLOWEST / control_dt / least))
