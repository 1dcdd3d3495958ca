"""Settings of what stands between a task and a learner."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class InterfaceConfig:
    """How a learner acts and sees."""

    actions: Literal["continuous", "discrete"] = "continuous"
    """Actions as the task has them, or `n_steer` x `n_throttle` of them to choose from."""
    n_steer: int = 5
    """Steering commands to choose from."""
    n_throttle: int = 3
    """Throttle commands to choose from."""
    stack: int = 1
    """How many of the latest observations are seen together."""
    stack_every: int = 1
    """Control steps between two of them."""

    def __post_init__(self) -> None:
        """Refuse what cannot be driven with."""
        for name in ("n_steer", "n_throttle", "stack", "stack_every"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.actions not in ("continuous", "discrete"):
            raise ValueError(f"actions must be continuous or discrete, got {self.actions!r}")
