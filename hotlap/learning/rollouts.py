"""Rollouts that stay tensors, on the device they were made on.

T steps, B environments; a sample is one step of one environment.
"""

from collections.abc import Iterator

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.buffers import BaseBuffer
from stable_baselines3.common.type_aliases import RolloutBufferSamples
from torch import Tensor

from hotlap.learning.advantages import estimate_advantages


class Rollouts(BaseBuffer):
    """What Stable-Baselines3's rollout buffer holds, without leaving the device.

    Args:
        buffer_size: T.
        observation_space: Of one environment.
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
        steps = (buffer_size, n_envs)

        def make(shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.zeros(*steps, *shape, dtype=dtype, device=self.device)

        self.observations = make(self.obs_shape, _kind(observation_space))  # type: ignore[arg-type]
        discrete = isinstance(action_space, spaces.Discrete)
        self.actions = make(() if discrete else (self.action_dim,), _kind(action_space))
        self.rewards, self.done, self.values, self.log_probs = (make(()) for _ in range(4))
        self.advantages, self.returns = make(()), make(())

    def reset(self) -> None:
        """Begin anew; what was there is overwritten."""
        self.pos, self.full = 0, False

    def keep(
        self,
        seen: Tensor,
        action: Tensor,
        reward: Tensor,
        done: Tensor,
        value: Tensor,
        log_prob: Tensor,
    ) -> None:
        """Write down one step of all environments."""
        t = self.pos
        self.observations[t], self.actions[t], self.rewards[t] = seen, action, reward
        self.done[t], self.values[t], self.log_probs[t] = done, value, log_prob
        self.pos += 1
        self.full = self.pos == self.buffer_size

    def finish(self, last_values: Tensor) -> None:
        """Work out advantages and returns, from the values (B,) of what was seen last."""
        self.advantages = estimate_advantages(
            self.rewards, self.values, last_values, self.done, self.gamma, self.gae_lambda
        )
        self.returns = self.advantages + self.values

    def get(self, batch_size: int | None = None) -> Iterator[RolloutBufferSamples]:
        """All samples once, in random order, in minibatches."""
        if not self.full:
            raise RuntimeError(f"only {self.pos} of {self.buffer_size} steps are there")
        count = self.buffer_size * self.n_envs
        order = torch.randperm(count, device=self.device)
        for chosen in order.split(batch_size or count):
            yield self._get_samples(chosen)

    def _get_samples(self, batch_inds: Tensor, env: None = None) -> RolloutBufferSamples:  # type: ignore[override]
        """Samples by their place among all T * B."""
        columns = (
            self.observations, self.actions, self.values, self.log_probs, self.advantages,
            self.returns,
        )  # fmt: skip
        chosen = (column.flatten(0, 1).index_select(0, batch_inds) for column in columns)
        return RolloutBufferSamples(*chosen)


def _kind(space: spaces.Space) -> torch.dtype:
    """The tensor type of a space's values."""
    return torch.from_numpy(np.empty(0, dtype=space.dtype)).dtype
