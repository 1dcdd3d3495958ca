"""Randomised worlds that set in gradually: first the road is learned, then all that may differ."""

from hotlap.tasks.batch import BatchEnv
from hotlap.tasks.donkey import DonkeyTask


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
        first, last = self._between
        if progress >= last:
            return self._full
        return self._full * max(0.0, progress - first) / (last - first)

    def turn(self, progress: float) -> None:
        """Randomise as many as are due of the episodes that begin from now on."""
        due = self.share_at(progress)
        if due != self._set:
            self._set = due
            self._share.fill_(due)
            self._batch.forget_beginnings()
