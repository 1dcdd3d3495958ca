"""Between tensors and NumPy, and what all adapters ask of a task."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hotlap.tasks.batch import Step
from hotlap.tasks.registry import make_task
from hotlap.tasks.task import Task

Array = NDArray[Any]
BATCH_SEED = 0
"""Seed of a Gymnasium adapter's batch: Gymnasium's own seeds are the identities in it."""
LARGEST_SEED = 2**63 - 1


def to_array(tensor: Tensor) -> Array:
    """A contiguous array of its own: writing into it changes nothing in the simulator."""
    return np.array(tensor.detach().cpu().numpy(), order="C")


def to_tensor(actions: Any) -> Tensor:
    """Actions as a tensor of its own, which a caller who reuses an array cannot change later."""
    return torch.tensor(np.asarray(actions), dtype=torch.float32)


def told(step: Step) -> dict[str, Tensor]:
    """What a step tells beside its reward: metrics, and the reward by name as `reward/<name>`."""
    return step.metrics | {f"reward/{name}": term for name, term in step.terms.items()}


def single_seat_task(task: Task | str, adapter: str, **settings: Any) -> Task:
    """The task itself, made if it is named; refused if others than one driver sit in it."""
    if isinstance(task, str):
        task = make_task(task, **settings)
    elif settings:
        raise ValueError(
            f"{adapter} got a task that is already made and settings for it "
            f"({', '.join(settings)}); pass the task's name, or set them where it is made"
        )
    if task.seats != 1:
        raise ValueError(
            f"{adapter} has one driver, but task {task.name!r} was made with seats={task.seats}; "
            "make it with seats=1, or use hotlap.tasks.batch.BatchEnv, which has an axis for seats"
        )
    return task


def check_render_mode(render_mode: str | None) -> str | None:
    """The mode itself, if it is one we have."""
    if render_mode not in (None, "rgb_array"):
        raise ValueError(f"render_mode must be None or 'rgb_array', got {render_mode!r}")
    return render_mode


def as_identity(seed: int) -> int:
    """A Gymnasium seed as an environment's identity."""
    if not 0 <= int(seed) <= LARGEST_SEED:
        raise ValueError(f"a seed lies between 0 and {LARGEST_SEED}, got {seed}")
    return int(seed)
