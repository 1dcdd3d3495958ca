"""What a critic may know of a task's worlds that its driver does not see."""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from hotlap.research.teachers import make_eyes
from hotlap.tasks.carracing import CarRacingTask
from hotlap.tasks.donkey import DonkeyTask
from hotlap.tasks.task import State, Task


def make_insight(task: Task) -> tuple[Callable[[State], Tensor], int]:
    """From worlds (B) to all that is known of them (B, K), and K.

    Raises:
        ValueError: Nobody has said what there is to know of the task's worlds.
    """
    if isinstance(task, CarRacingTask):
        see: Callable[[State], Tensor] = task.know
    elif isinstance(task, DonkeyTask):
        see = _donkey_insight(task)
    else:
        raise ValueError(f"ppo.knowing is for donkey and carracing only, not {task.name}")
    nobody = torch.zeros(1, dtype=torch.int64, device=task.device)
    return see, see(task.begin(0, nobody, nobody)).shape[-1]


def _donkey_insight(task: DonkeyTask) -> Callable[[State], Tensor]:
    """The state, how each car differs from others, and whether its world does, if that counts."""
    eyes = make_eyes(task, replace(task.config, sensor="state"))

    def see(world: State) -> Tensor:
        state = eyes.present(eyes.observe(world)).flatten(1)
        own = [world["params"][name].flatten(1) for name in sorted(world["params"])]
        strange = [world["strange"]] if "strange" in world else []
        return torch.cat([state, *own, *strange], -1)

    return see
