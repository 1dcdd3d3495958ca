"""Schedules: which of several tracks are driven when, from what is known of each.

    T tracks. A schedule is told what was measured, and says in which shares tracks are to be drawn.

All of it is plain arithmetic on a few numbers per track, on the host and once a rollout. What a
schedule remembers goes into the checkpoint, so a run that goes on decides as it would have done.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from hotlap.config.schedules import CurriculumConfig, PLRConfig, ScheduleConfig
from hotlap.learning.track_books import Array, TrackBooks


class Schedule:
    """Decides about T tracks."""

    abrupt = False
    """Whether a change takes effect at once, in the middle of episodes."""

    def shares(self, done: float) -> Array:
        """Chances (T,) of the tracks, when a share `done` of the training lies behind."""
        raise NotImplementedError

    def note(self, latest: dict[str, Array], books: TrackBooks) -> None:
        """Take in what was just measured (`track_books.COLUMNS`, each (T,)), and the books."""

    def state(self) -> dict[str, Any]:
        """What it remembers, as JSON holds it."""
        return {}

    def load(self, state: dict[str, Any]) -> None:
        """What `state` told."""


class Switch(Schedule):
    """One track after another, each for an equal part of the training."""

    abrupt = True

    def __init__(self, tracks: int) -> None:
        self.tracks = tracks

    def shares(self, done: float) -> Array:
        """All on one track."""
        # Rounded, because a boundary in steps is no boundary in binary fractions.
        which = min(int(round(done * self.tracks, 9)), self.tracks - 1)
        return np.eye(self.tracks)[which]


class Curriculum(Schedule):
    """Easy tracks first; harder ones join them as episodes on the open ones succeed.

    Args:
        config: Its settings.
        difficulty: How hard each track is expected to be (T,).
    """

    def __init__(self, config: CurriculumConfig, difficulty: Sequence[float]) -> None:
        self.config = config
        self.order = np.argsort(np.asarray(difficulty), kind="stable")
        """Tracks from easy to hard."""
        self.open = self._share(config.first)
        self.since = np.zeros(len(self.order))
        """Episodes of each track since the last opening."""

    def _share(self, share: float) -> int:
        return max(1, round(share * len(self.order)))

    @property
    def open_tracks(self) -> Array:
        """Tracks that are driven, from easy to hard."""
        return self.order[: self.open]

    def shares(self, done: float) -> Array:
        """Evenly, of the open ones."""
        shares = np.zeros(len(self.order))
        shares[self.open_tracks] = 1.0 / self.open
        return shares

    def note(self, latest: dict[str, Array], books: TrackBooks) -> None:
        """Open more tracks if those that are open are mastered."""
        self.since += latest["episodes"]
        chosen = self.open_tracks
        enough = self.since[chosen].sum() >= self.config.episodes * self.open
        if not enough or not (self.since[chosen] > 0).all():
            return
        if books.mean("successes")[chosen].mean() < self.config.success:
            return
        if self.open < len(self.order):
            self.open = min(self.open + self._share(self.config.widen), len(self.order))
            self.since[:] = 0.0

    def state(self) -> dict[str, Any]:
        """What it remembers, as JSON holds it."""
        return {"open": self.open, "since": self.since.tolist()}

    def load(self, state: dict[str, Any]) -> None:
        """What `state` told."""
        self.open, self.since = int(state["open"]), np.array(state["since"], dtype=np.float64)


class LevelReplay(Schedule):
    """Prioritised level replay (Jiang, Grefenstette and Rocktaeschel, 2021), for whole batches.

    Tracks that nobody has driven come first. Then tracks are drawn by the rank of their score, and
    a share of the time by how long ago they were driven.

    Args:
        config: Its settings.
        tracks: T.
        advantages: Whether the learner has advantages; without them the score of a track is the
            share of its episodes that crash.
    """

    def __init__(self, config: PLRConfig, tracks: int, advantages: bool) -> None:
        self.config, self.advantages = config, advantages
        self.scores = np.ones(tracks)
        self.driven = np.full(tracks, -1)
        """When each track was driven last, counted in measurements; -1: never."""
        self.now = 0

    def shares(self, done: float) -> Array:
        """By what is not known, by score and by staleness."""
        new = self.driven < 0
        if new.any():
            return new / new.sum()
        by_score = ranks(self.scores) ** (-1.0 / self.config.temperature)
        stale = (self.now - self.driven).astype(np.float64)
        by_age = stale / stale.sum() if stale.any() else np.full(len(stale), 1 / len(stale))
        weight = self.config.staleness
        return (1 - weight) * by_score / by_score.sum() + weight * by_age

    def note(self, latest: dict[str, Array], books: TrackBooks) -> None:
        """Score the tracks that were driven."""
        self.now += 1
        if self.advantages:
            scored, fresh = latest["steps"] > 0, self._advantages(latest)
        else:
            scored, fresh = latest["episodes"] > 0, books.mean("crashes")
        known = scored & (self.driven >= 0)
        blend = np.where(known, self.config.memory, 0.0)
        blended = blend * self.scores + (1 - blend) * fresh
        self.scores = np.where(scored, blended, self.scores)
        self.driven = np.where(latest["steps"] > 0, self.now, self.driven)

    def _advantages(self, latest: dict[str, Array]) -> Array:
        return latest[self.config.score] / np.maximum(latest["steps"], 1)

    def state(self) -> dict[str, Any]:
        """What it remembers, as JSON holds it."""
        return {"now": self.now, "scores": self.scores.tolist(), "driven": self.driven.tolist()}

    def load(self, state: dict[str, Any]) -> None:
        """What `state` told."""
        self.now = int(state["now"])
        self.scores = np.array(state["scores"], dtype=np.float64)
        self.driven = np.array(state["driven"], dtype=np.int64)


def ranks(scores: Array) -> Array:
    """1 for the largest, and so on; equals share the mean of their ranks."""
    above = (scores[None, :] > scores[:, None]).sum(1)
    equal = (scores[None, :] == scores[:, None]).sum(1)
    return above + (equal + 1) / 2


def make_schedule(
    config: ScheduleConfig, difficulties: Sequence[float], advantages: bool
) -> Schedule | None:
    """The schedule that settings describe; none where all tracks are driven at once.

    Args:
        config: The settings.
        difficulties: How hard each track looks (T).
        advantages: Whether the learner works out advantages.
    """
    if config.kind == "switch":
        return Switch(len(difficulties))
    if config.kind == "curriculum":
        return Curriculum(config.curriculum, difficulties)
    if config.kind == "plr":
        return LevelReplay(config.plr, len(difficulties), advantages)
    return None
