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
    lapping = [_lapped(episode) for episode in episodes if episode.laps is not None]
    laps = [(time, episode.track) for episode in episodes for time in episode.lap_times or ()]
    best, where = min(laps, default=(None, None), key=lambda lap: lap[0])
    limit = None if where is None else limits.get(where)
    return Summary(
        count=len(every),
        mean_return=float(every.mean()),
        std_return=float(every.std()),
        iqm=float(interquartile_mean(every)),
        interval=bootstrap_interval(returns, interquartile_mean, BOOTSTRAP_SEED) if tell else None,
        mean_interval=mean_interval(returns, BOOTSTRAP_SEED) if tell else None,
        lap_rate=sum(lapping) / len(lapping) if lapping else None,
        mean_lap_time=sum(time for time, _ in laps) / len(laps) if laps else None,
        best_lap_time=best,
        lap_time_ratio=None if best is None or limit is None else best / limit,
    )


def _lapped(episode: EpisodeResult) -> bool:
    """Whether it drove a lap that counts; an open road has none, only an end."""
    return bool(episode.laps) or episode.end == "road end"
