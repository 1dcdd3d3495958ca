"""How a learner meets a batch: discrete actions in place of continuous ones, and stacked frames.

    B environments, K frames seen together, oldest first along the last axis.

Training and evaluation build the same `Interface` from the same settings, which lie beside every
saved model: a policy can only be judged through the wrapper it learned with.
"""

from dataclasses import replace

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from hotlap.config.interface import InterfaceConfig
from hotlap.tasks.batch import BatchEnv, Step
from hotlap.tasks.task import State, Task, map_tree


class Interface:
    """A batch as a learner drives it; offers what `BatchEnv` does.

    Args:
        batch: The environments; one seat each.
        config: What stands between them and the learner.
    """

    def __init__(self, batch: BatchEnv, config: InterfaceConfig) -> None:
        if batch.task.seats != 1:
            raise ValueError(f"task {batch.task.name} has {batch.task.seats} seats, a learner one")
        self.batch = batch
        self.config = config
        self.task: Task = batch.task
        self.num_envs = batch.num_envs
        self.device = batch.task.device
        self.table: Tensor | None = None
        self.action_space: spaces.Space = self.task.action_space
        if config.actions == "discrete":
            self.table = action_table(self.task.action_space, config).to(self.device)
            self.action_space = spaces.Discrete(len(self.table))
        self.observation_space = stacked_space(self.task.observation_space, config.stack)
        self._seen: Tensor | None = None
        self._seen_before: Tensor | None = None

    def reset(self, seed: int | None = None, mask: Tensor | None = None) -> Tensor:
        """Begin anew: everything, or with a mask (B,) only those, at their next episode."""
        first = self.batch.reset(seed, mask)
        fresh = torch.cat([first] * self.config.stack, -1)
        if mask is not None and self._seen is not None and self.config.stack > 1:
            mask = mask.to(self.device).view(-1, *[1] * (fresh.dim() - 1))
            fresh = torch.where(mask, fresh, self._seen)
        self._seen, self._seen_before = fresh, None
        return fresh

    def step(self, action: Tensor) -> Step:
        """Advance every environment by one control step."""
        if self.table is not None:
            action = self.table[action.flatten().to(self.device, torch.int64)]
        step = self.batch.step(action)
        if self.config.stack == 1:
            return step
        if self._seen is None:
            raise RuntimeError("the batch has not begun; call reset first")
        self._seen_before = self._seen
        frame = step.observation
        done = step.done.view(-1, *[1] * (frame.dim() - 1))
        older = self._seen[..., frame.shape[-1] :]
        fresh = torch.cat([frame] * (self.config.stack - 1), -1)
        self._seen = torch.cat([torch.where(done, fresh, older), frame], -1)
        return replace(step, observation=self._seen)

    def final_observation(self, index: Tensor) -> Tensor:
        """What environments `index` (K,) saw last before the latest step began them anew."""
        if self.config.stack == 1:
            return self.batch.final_observation(index)
        if self._seen_before is None:
            raise RuntimeError("there is no step to look back on; call step first")
        ended = map_tree(lambda leaf: leaf[index], self.batch.ended_world)
        return self.look(ended, self._seen_before[index])

    def look(self, world: State, seen_before: Tensor) -> Tensor:
        """What is seen in any number of worlds, the step before which `seen_before` was seen."""
        frame = self.batch.look(world)
        if self.config.stack == 1:
            return frame
        return torch.cat([seen_before[..., frame.shape[-1] :], frame], -1)

    @property
    def world(self) -> State:
        """The task's own state, as it is now."""
        return self.batch.world

    def save_state(self) -> State:
        """A copy of everything that decides the future."""
        saved = self.batch.save_state()
        if self._seen is not None:
            saved["seen"] = self._seen.clone()
        return saved

    def load_state(self, saved: State) -> Tensor:
        """Go on from a saved state; returns what is seen there."""
        frame = self.batch.load_state(saved)
        self._seen, self._seen_before = saved["seen"].to(self.device).clone(), None
        return frame if self.config.stack == 1 else self._seen


def action_table(space: spaces.Box, config: InterfaceConfig) -> Tensor:
    """Continuous actions (n_steer * n_throttle, 2), steering slowest, both evenly from low to high.

    Index 7 of 5 x 3 is the middle steering with half the throttle's range.
    """
    if space.shape != (2,):
        raise ValueError(
            f"only actions of two numbers (steering, throttle) can be made discrete, "
            f"got shape {space.shape}; use a learner for continuous actions, such as ppo or sac"
        )
    counts = (config.n_steer, config.n_throttle)
    axes = [
        np.linspace(low, high, count) if count > 1 else np.array([(low + high) / 2])
        for low, high, count in zip(space.low, space.high, counts, strict=True)
    ]
    steer, throttle = np.meshgrid(*axes, indexing="ij")
    return torch.tensor(np.stack([steer.ravel(), throttle.ravel()], -1), dtype=torch.float32)


def encode_action(table: Tensor, action: Tensor) -> Tensor:
    """Index (B,) of the discrete action nearest to each continuous one (B, 2)."""
    return torch.cdist(action, table).argmin(-1)


def stacked_space(space: spaces.Box, stack: int) -> spaces.Box:
    """The space of `stack` observations side by side along the last axis."""
    low, high = (np.concatenate([end] * stack, -1) for end in (space.low, space.high))
    return spaces.Box(low, high, dtype=space.dtype.type)  # type: ignore[arg-type]
