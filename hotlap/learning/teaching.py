"""Advice from a policy that sees more than the learner.

A driver that knows its speed and the road ahead in numbers learns in seconds what takes pictures
minutes. So it can go first, and then tell the one with the camera, wherever that has driven itself,
what it would do there. The learner is pulled towards the advice by an added loss whose weight falls
to nothing, and ends on its own rewards alone.

    B environments, A numbers in an action.
"""

from dataclasses import dataclass

from torch import Tensor

from hotlap.learning.captured import Glance
from hotlap.learning.driver import Driver
from hotlap.tasks.task import State, Task


@dataclass
class Teacher:
    """Who advises, and how much it weighs."""

    driver: Driver
    """The teacher's policy."""
    eyes: Task
    """A task of the learner's worlds that observes them as the teacher does."""
    weight: float
    """Weight of the advice at first."""
    until: float
    """Share of the training after which it weighs nothing."""
    fade: float = 1.0
    """Power by which the weight falls until then: 1 is evenly, 4 soon."""

    def __post_init__(self) -> None:
        """Look at worlds the quick way."""
        self._glance = Glance(self._look)

    def advise(self, world: State) -> Tensor:
        """What the teacher would do in each world (B, A); overwritten by the next call."""
        return self._glance(world, self.eyes.device)

    def _look(self, world: State) -> Tensor:
        return self.driver(self.eyes.present(self.eyes.observe(world)).squeeze(1))

    def weight_at(self, progress: float) -> float:
        """Weight of the advice when this share of the training is done."""
        return self.weight * max(0.0, 1 - progress / self.until) ** self.fade
