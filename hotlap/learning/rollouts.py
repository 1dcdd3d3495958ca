"""Rollouts that stay tensors, on the device they were made on.

T steps, B environments; a sample is one step of one environment.
"""

import math
from collections.abc import Iterator

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.buffers import BaseBuffer
from stable_baselines3.common.type_aliases import RolloutBufferSamples
from torch import Tensor

from hotlap.learning.advantages import estimate_advantages
from hotlap.tasks.memory import refuse_if_too_large

BOOKS = 6 * 4 + 2 * 1 + 8
"""Bytes of a sample beside what was seen, done and advised: numbers, flags, an episode's length."""


class Rollouts(BaseBuffer):
    """What Stable-Baselines3's rollout buffer holds, without leaving the device.

    Pictures are kept as the world gives them, with their channels last.

    Args:
        buffer_size: T.
        observation_space: Of one environment, as the policy has it: pictures channels first.
        action_space: Of one environment.
        device: Where everything lives.
        gae_lambda: Decay of the advantages.
        gamma: Discount per step.
        n_envs: B.
    """

    def __init__(
        self,
        buffer_size: int,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        device: torch.device | str = "cpu",
        gae_lambda: float = 1.0,
        gamma: float = 0.99,
        n_envs: int = 1,
    ) -> None:
        super().__init__(buffer_size, observation_space, action_space, device, n_envs)
        self.gae_lambda, self.gamma = gae_lambda, gamma

        def make(shape: tuple[int, ...] = (), dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.zeros(buffer_size, n_envs, *shape, dtype=dtype, device=self.device)

        seen: tuple[int, ...] = tuple(self.obs_shape)  # type: ignore[arg-type]
        self.bytes = (
            buffer_size
            * n_envs
            * (
                math.prod(seen) * tensor_kind(observation_space).itemsize
                + 2 * self.action_dim * tensor_kind(action_space).itemsize
                + BOOKS
            )
        )
        what = f"steps of rollouts in each of {n_envs} environments"
        refuse_if_too_large(buffer_size, what, self.bytes, self.device)
        if len(seen) == 3:
            seen = (*seen[1:], seen[0])
        discrete = isinstance(action_space, spaces.Discrete)
        self.observations = make(seen, tensor_kind(observation_space))
        self.actions = make(() if discrete else (self.action_dim,), tensor_kind(action_space))
        self.rewards, self.values, self.log_probs = make(), make(), make()
        self.advantages, self.returns = make(), make()
        self.done, self.truncated = make(dtype=torch.bool), make(dtype=torch.bool)
        self.episode_returns, self.episode_lengths = make(), make(dtype=torch.int64)
        self.advice = torch.zeros_like(self.actions)
        """What a teacher would do, where there is one (T, B, A)."""

    def reset(self) -> None:
        """Begin anew; what was there is overwritten."""
        self.pos, self.full = 0, False

    def show(self, seen: Tensor) -> Tensor:
        """Write down what is seen before a step; returns it as it lies here."""
        return self.observations[self.pos].copy_(seen)

    def advise(self, advice: Tensor) -> None:
        """Write down what a teacher would do in this step (B, A)."""
        self.advice[self.pos].copy_(advice)

    def advice_at(self, chosen: Tensor) -> Tensor:
        """Advice (N, A) of samples by their place among all T * B."""
        return self.advice.flatten(0, 1).index_select(0, chosen)

    def keep(self, **columns: Tensor) -> None:
        """Write down what the step brought, by the names of the columns."""
        for name, value in columns.items():
            getattr(self, name)[self.pos].copy_(value)
        self.pos += 1
        self.full = self.pos == self.buffer_size

    def finish(self, last_values: Tensor) -> None:
        """Work out advantages and returns, from the values (B,) of what was seen last."""
        advantages = estimate_advantages(
            self.rewards, self.values, last_values, self.done, self.gamma, self.gae_lambda
        )
        self.advantages.copy_(advantages)  # captured updates read them where they are
        torch.add(advantages, self.values, out=self.returns)

    def orders(self, batch_size: int | None = None) -> Iterator[Tensor]:
        """The places of all samples once, in random order, in minibatches."""
        if not self.full:
            raise RuntimeError(f"only {self.pos} of {self.buffer_size} steps are there")
        count = self.buffer_size * self.n_envs
        yield from torch.randperm(count, device=self.device).split(batch_size or count)

    def get(self, batch_size: int | None = None) -> Iterator[RolloutBufferSamples]:
        """All samples once, in random order, in minibatches."""
        for chosen in self.orders(batch_size):
            yield self._get_samples(chosen)

    def _get_samples(self, batch_inds: Tensor, env: None = None) -> RolloutBufferSamples:  # type: ignore[override]
        """Samples by their place among all T * B."""
        columns = (
            self.observations, self.actions, self.values, self.log_probs, self.advantages,
            self.returns,
        )  # fmt: skip
        seen, *rest = (column.flatten(0, 1).index_select(0, batch_inds) for column in columns)
        return RolloutBufferSamples(channels_first(seen), *rest)


def channels_first(seen: Tensor) -> Tensor:
    """Pictures (N, H, W, C) as (N, C, H, W), without moving them; numbers as they are."""
    return seen.permute(0, 3, 1, 2) if seen.dim() == 4 else seen


def tensor_kind(space: spaces.Space) -> torch.dtype:
    """The tensor type of a space's values."""
    return torch.from_numpy(np.empty(0, dtype=space.dtype)).dtype
