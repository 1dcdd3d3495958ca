"""Who drives where: a schedule at work in a training, and the books of its tracks.

    T tracks.

Between two rollouts the schedule's shares are written where the task draws tracks from. When one is
over, sums by track are made on the device and read once.
"""

from typing import Any

import numpy as np
import torch
from stable_baselines3.common.vec_env import VecEnv
from torch import Tensor

from hotlap.config.schedules import ScheduleConfig
from hotlap.learning.batches import batch_of
from hotlap.learning.rollouts import Rollouts
from hotlap.learning.schedules import Curriculum, Schedule, make_schedule
from hotlap.learning.track_books import COLUMNS, Array, Told, TrackBooks, tally
from hotlap.learning.track_metrics import few_or_quantiles
from hotlap.tasks.batch import BatchEnv, Step
from hotlap.tasks.interface import Interface
from hotlap.tasks.task import State, clone_tree, map_tree
from hotlap.tasks.track_choice import TrackTask

READ_EVERY = 64
"""Steps between two readings, for learners that drive a step at a time."""
ENDINGS_TOLD = {
    "return": "returns", "crashed": "crashes", "laps": "laps", "success": "successes",
}  # fmt: skip
"""What is told of a track's episodes, from which column of the books."""


class Roster:
    """Sends cars to tracks, and keeps the books.

    Args:
        schedule: Who decides; none leaves every environment on its own track.
        batch: The environments, of a task with several tracks.
        total: Steps of the whole training.
        pace: Metres per second that an episode without a crash must make to count as a success.
    """

    def __init__(self, schedule: Schedule | None, batch: BatchEnv, total: int, pace: float) -> None:
        task = batch.task
        assert isinstance(task, TrackTask)
        self._task = task
        self.schedule, self.total, self.pace = schedule, total, pace
        self.names = task.track_names
        self.books = TrackBooks(len(self.names))
        self._batch = batch
        self._choice = None if schedule is None else task.draw_tracks()
        self._set: Array | None = None
        self._news = True
        """Whether the schedule may have changed its mind since it was asked."""
        self._steps: list[dict[str, Tensor]] = []
        """Steps that were not read yet, of learners that drive a step at a time."""
        self._latest: dict[str, Array] = {}

    # --- sending -------------------------------------------------------------------------------

    def begin_segment(self, steps: int) -> None:
        """Environments are about to begin anew, with so many steps of the training behind them."""
        self._set, self._news = None, True
        self._steps.clear()
        self.turn(steps)

    def turn(self, steps: int) -> bool:
        """Write down where to drive next; True if environments have to begin anew for it."""
        if self.schedule is None or self._choice is None:
            return False
        if not self._news and not self.schedule.abrupt:
            return False
        shares, self._news = self.schedule.shares(steps / self.total), False
        if self._set is not None and np.array_equal(shares, self._set):
            return False
        first, self._set = self._set is None, shares
        self._choice.set(shares.tolist())
        self._batch.forget_beginnings()
        return self.schedule.abrupt and not first

    # --- keeping the books ---------------------------------------------------------------------

    def note_rollout(self, rollouts: Rollouts, worlds: list[State]) -> None:
        """Take in a rollout whose advantages are known, and the worlds after each of its steps."""
        seen = _together([self._task.told_of(world) for world in worlds])
        self._read(
            Told(
                {name: value.to(rollouts.device) for name, value in seen.items()},
                rollouts.done,
                rollouts.truncated,
                rollouts.episode_returns,
                rollouts.advantages,
            )
        )

    def note_step(self, step: Step) -> bool:
        """Take in one step of all environments; True if the books were read."""
        told = self._task.told_of(self._batch.ended_world) | {
            "done": step.done, "truncated": step.truncated, "return": step.episode_return,
        }  # fmt: skip
        self._steps.append(clone_tree(told) if self._batch.overwrites else told)
        if len(self._steps) < READ_EVERY:
            return False
        self._read_steps()
        return True

    def _read_steps(self) -> None:
        told = _together(self._steps)
        self._steps.clear()
        endings = [told.pop(name) for name in ("done", "truncated", "return")]
        self._read(Told(told, *endings))

    def _read(self, told: Told) -> None:
        """Work out sums by track, and tell the schedule."""
        found = tally(told, len(self.names), self.pace)
        sums = found.cpu().numpy()  # here the device is waited for
        self._latest = dict(zip(COLUMNS, sums.T, strict=True))
        self._news = True
        self.books.note(self._latest)
        if self.schedule is not None:
            self.schedule.note(self._latest, self.books)

    def end_segment(self) -> None:
        """Read what is left, so that it goes into the checkpoint."""
        if self._steps:
            self._read_steps()

    def metrics(self) -> dict[str, float]:
        """What is worth telling of the tracks, by name."""
        steps = self._latest["steps"]
        names = list(dict.fromkeys(self.names))
        episodes = self._by_name(self.books.sums["episodes"])
        columns = {
            word: self._by_name(self.books.sums[name]) / np.where(episodes > 0, episodes, 1.0)
            for word, name in ENDINGS_TOLD.items()
        } | {
            "share": self._by_name(steps) / max(steps.sum(), 1),
            "advantage": self._by_name(self._latest["absolute"])
            / np.maximum(self._by_name(steps), 1),
        }
        rows = {
            name: {word: float(column[place]) for word, column in columns.items()}
            for place, name in enumerate(names)
            if episodes[place] > 0
        }
        told = few_or_quantiles("tracks", rows, names)
        if isinstance(self.schedule, Curriculum):
            told["tracks/open"] = float(self.schedule.open)
        return told

    def _by_name(self, sums: Array) -> Array:
        """Sums by track, of one that is there several times together, in the order of names."""
        places = {name: place for place, name in enumerate(dict.fromkeys(self.names))}
        return np.bincount([places[name] for name in self.names], sums, len(places))

    # --- saving --------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """What decides its future, as JSON holds it."""
        schedule = {} if self.schedule is None else self.schedule.state()
        return {"books": self.books.state(), "schedule": schedule}

    def load(self, state: dict[str, Any]) -> None:
        """What `state` told."""
        self.books.load(state["books"])
        if self.schedule is not None:
            self.schedule.load(state["schedule"])


def _together(parts: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    return map_tree(lambda *steps: torch.stack(steps), *parts)


def make_roster(config: ScheduleConfig, env: VecEnv, total: int, advantages: bool) -> Roster | None:
    """The roster of a training; none where there is nothing to choose among.

    Args:
        config: The schedule's settings.
        env: What is trained in.
        total: Steps of the whole training.
        advantages: Whether the learner works out advantages.
    """
    batch = batch_of(env)
    inner = batch.batch if isinstance(batch, Interface) else batch
    task = None if inner is None else inner.task
    if inner is None or not isinstance(task, TrackTask) or len(task.track_names) < 2:
        if config.kind != "parallel":
            raise ValueError(
                f"the schedule {config.kind} chooses among tracks of hotlap's own world, and here "
                "are no two; name several with --track, or leave --schedule out"
            )
        return None
    schedule = make_schedule(config, task.difficulties, advantages)
    return Roster(schedule, inner, total, config.curriculum.pace)
