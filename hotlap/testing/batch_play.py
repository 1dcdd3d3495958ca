"""Playing a batch, again and again in the same way, and comparing what came back.

log   observation, reward, endings and books of every step, steps first   (T, B, ...)
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from hotlap.sim.random import make_key, uniform
from hotlap.tasks.batch import BatchEnv, Step
from hotlap.tasks.task import Task

Log = dict[str, Tensor]
PIXELS = 0.01
"""Share of a picture's pixels that may differ between batches: a rounding moves an edge by one."""


def actions_at(task: Task, who: Tensor, t: int) -> Tensor:
    """Random actions (B, A) or (B, S, A), the same for an identity in any batch."""
    shape = task.action_space.shape
    count = task.seats * int(np.prod(shape))
    draws = uniform(make_key(who, 0xAC7, t), count).view(len(who), task.seats, *shape)
    low, high = (
        torch.as_tensor(np.clip(bound, -1e3, 1e3), device=who.device)
        for bound in (task.action_space.low, task.action_space.high)
    )
    actions = low + (high - low) * draws
    return actions.squeeze(1) if task.seats == 1 else actions


def play(batch: BatchEnv, steps: int, first: int = 0) -> Log:
    """What came back at every step, numbered from `first`; begins the batch if that is 0."""
    if first == 0:
        batch.reset()
    rows = [_row(batch.step(actions_at(batch.task, batch.who, first + t))) for t in range(steps)]
    return {name: torch.stack([row[name] for row in rows]) for name in rows[0]} if rows else {}


def _row(step: Step) -> Log:
    row = {
        "observation": step.observation,
        "reward": step.reward,
        "sum of terms": torch.stack(list(step.terms.values())).sum(0),
        "terminated": step.terminated,
        "truncated": step.truncated,
        "episode_return": step.episode_return,
        "episode_length": step.episode_length,
    }
    return {name: value.cpu() for name, value in row.items()}


def flat(tree: Any, path: str = "") -> dict[str, Tensor]:
    """Every tensor of nested dicts with the way to it."""
    if not isinstance(tree, dict):
        return {path: tree.cpu()}
    return {
        name: leaf
        for key, branch in tree.items()
        for name, leaf in flat(branch, f"{path}/{key}" if path else key).items()
    }


def apart(one: dict[str, Tensor], other: dict[str, Tensor], tolerance: float) -> str | None:
    """The first tensor that differs by more than the tolerance (0: at all), and by how much."""
    for name, a in one.items():
        b = other[name]
        if tolerance == 0 or a.dtype == torch.bool:
            if not torch.equal(a, b):
                return f"{name}: {int((a != b).sum())} of {a.numel()} entries differ"
        elif a.dtype.is_floating_point:
            if not torch.allclose(a, b, rtol=tolerance, atol=tolerance):
                return f"{name}: up to {float((a - b).abs().max()):.3g} apart"
        elif name == "observation":
            worst = float((a != b).float().flatten(2).mean(2).max())  # of all steps' pictures
            if worst > PIXELS:
                return f"{name}: {worst:.1%} of the entries of one differ"
        elif not torch.equal(a, b):
            return f"{name}: {int((a != b).sum())} of {a.numel()} entries differ"
    return None
