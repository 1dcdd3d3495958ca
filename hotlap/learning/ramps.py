"""What changes gradually while a policy learns.

First the road is learned and then all that may differ; first to be fast and then to come home.
"""

from hotlap.tasks.batch import BatchEnv
from hotlap.tasks.donkey import DonkeyTask


def share_between(between: tuple[float, float], progress: float) -> float:
    """How far something has come that goes evenly from 0 at the first moment to 1 at the second."""
    first, last = between
    return min(max(0.0, (progress - first) / (last - first)), 1.0)


class Finish:
    """Turns a task's reward into another one.

    Args:
        batch: Environments of a donkey task that have not made a step yet.
        reward: The name of what it turns into.
        between: Shares of the training at which it begins to, and has.
    """

    def __init__(self, batch: BatchEnv, reward: str, between: tuple[float, float]) -> None:
        if not isinstance(batch.task, DonkeyTask):
            raise ValueError(f"ppo.finish is for donkey tasks only, not {batch.task.name}")
        self._between, self._share = between, batch.task.turn_reward(reward)

    def turn(self, progress: float) -> None:
        """Pay as is due when this share of the training is done."""
        self._share.fill_(share_between(self._between, progress))


class Ramp:
    """Writes the share of randomised episodes where a task draws from.

    Args:
        batch: Environments of a road task that have not made a step yet.
        between: Shares of the training at which randomised episodes set in, and are all there.
    """

    def __init__(self, batch: BatchEnv, between: tuple[float, float]) -> None:
        if not isinstance(batch.task, DonkeyTask):
            raise ValueError(f"ppo.ramp is for donkey tasks only, not {batch.task.name}")
        self._batch, self._between = batch, between
        self._full = batch.task.config.randomise.share
        self._share = batch.task.vary_share()
        self._set = self._full

    def share_at(self, progress: float) -> float:
        """Share of randomised episodes when this share of the training is done."""
        return self._full * share_between(self._between, progress)

    def turn(self, progress: float) -> None:
        """Randomise as many as are due of the episodes that begin from now on."""
        due = self.share_at(progress)
        if due != self._set:
            self._set = due
            self._share.fill_(due)
            self._batch.forget_beginnings()
