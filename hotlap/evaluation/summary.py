"""From episodes to the numbers that are reported of them."""

from collections.abc import Mapping, Sequence

import numpy as np

from hotlap.evaluation.statistics import bootstrap_interval, interquartile_mean, mean_interval
from hotlap.records import EpisodeResult, EvalResult, Summary

BOOTSTRAP_SEED = 0
"""The same episodes always have the same interval."""


def summarise(
    episodes: Sequence[EpisodeResult], limits: Mapping[str, float] | None = None
) -> EvalResult:
    """All episodes together, and track by track.

    Args:
        episodes: At least one.
        limits: The least possible lap time by track, seconds, where it is known.
    """
    if not episodes:
        raise ValueError("there are no episodes to summarise")
    limits = limits or {}
    by_track: dict[str | None, list[EpisodeResult]] = {}
    for episode in episodes:
        by_track.setdefault(episode.track, []).append(episode)
    together = _summary(list(by_track.values()), limits)
    return EvalResult(
        **vars(together),
        episodes=tuple(episodes),
        tracks={
            track: _summary([group], limits)
            for track, group in by_track.items()
            if track is not None
        },
    )


def without_episodes(result: EvalResult) -> Summary:
    """What all episodes say together, and nothing else."""
    return Summary(**{name: getattr(result, name) for name in Summary.__dataclass_fields__})


def _summary(groups: list[list[EpisodeResult]], limits: Mapping[str, float]) -> Summary:
    """What the episodes of some tracks, one group each, say together."""
    episodes = [episode for group in groups for episode in group]
    returns = [np.array([episode.episode_return for episode in group]) for group in groups]
    every = np.concatenate(returns)
    tell = len(every) > 1  # one episode says nothing about chance
    lapping = [_lapped(episode) for episode in episodes if _says_something(episode)]
    laps = [(time, episode.track) for episode in episodes for time in episode.lap_times or ()]
    best, where = min(laps, default=(None, None), key=lambda lap: lap[0])
    limit = None if where is None else limits.get(where)
    return Summary(
        count=len(every),
        mean_return=float(every.mean()),
        interval=mean_interval(returns, BOOTSTRAP_SEED) if tell else None,
        std_return=float(every.std()),
        iqm=float(interquartile_mean(every)),
        iqm_interval=(
            bootstrap_interval(returns, interquartile_mean, BOOTSTRAP_SEED) if tell else None
        ),
        lap_rate=sum(lapping) / len(lapping) if lapping else None,
        mean_lap_time=sum(time for time, _ in laps) / len(laps) if laps else None,
        best_lap_time=best,
        lap_time_ratio=None if best is None or limit is None else best / limit,
        laps_finished=_finished(episodes),
        mean_lap_ratio=_mean_ratio(groups, limits, "lap_times"),
        flying_lap_ratio=_mean_ratio(groups, limits, "flying_lap_times"),
        over_edge=_share_over_edge(episodes),
        tiles=mean_known([row.tiles for row in episodes]),
    )


def _says_something(episode: EpisodeResult) -> bool:
    """Whether it tells anything of laps; the last bit of an open road does not."""
    return episode.laps is not None and not (episode.end == "road end" and episode.laps_begun == 0)


def _lapped(episode: EpisodeResult) -> bool:
    """Whether it drove a lap that counts; old records of an open road have only its end."""
    return bool(episode.laps) or (episode.end == "road end" and episode.laps_begun is None)


def _finished(episodes: Sequence[EpisodeResult]) -> float | None:
    """Laps that count over laps begun."""
    known = [(row.laps or 0, row.laps_begun) for row in episodes if row.laps_begun]
    begun = sum(count for _, count in known)
    return sum(laps for laps, _ in known) / begun if begun else None


def _mean_ratio(
    groups: list[list[EpisodeResult]], limits: Mapping[str, float], which: str
) -> float | None:
    """Mean time of some laps over the least possible; every track with a limit weighs the same."""
    ratios = []
    for group in groups:
        limit = limits.get(group[0].track or "")
        times = [time for row in group for time in getattr(row, which) or ()]
        if limit is not None and times:
            ratios.append(float(np.mean(times)) / limit)
    return mean_known(ratios)


def mean_known(values: Sequence[float | None]) -> float | None:
    """Mean of those that are known; None where none is."""
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def _share_over_edge(episodes: Sequence[EpisodeResult]) -> float | None:
    known = [(row.over_edge, row.length) for row in episodes if row.over_edge is not None]
    steps = sum(length for _, length in known)
    return sum(share * length for share, length in known) / steps if steps else None
