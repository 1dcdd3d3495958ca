"""A critic that knows more than the learner sees.

How good a moment is depends on the speed, the road behind the next bend and the car's own grip,
which a picture shows badly or not at all. In a simulator all of it is known. So values are told by
a net of its own that is given the state in numbers; it learns them long before a net does that
looks at pictures, and advantages have less noise. The policy drives without it.

    B environments, T steps, K numbers.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.policies import ActorCriticPolicy
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from hotlap.learning.captured import Glance
from hotlap.learning.encoders import Scaled
from hotlap.learning.gradient_step import GradientStep
from hotlap.learning.learner import flatten, unflatten
from hotlap.learning.rollouts import Rollouts
from hotlap.tasks.task import State

HIDDEN = 256
LOUD = 4.0
"""Spread of an account of the state if every number it is mixed from were 1 or -1."""
MAX_NORM = 0.5
"""Longest gradient."""


class Knowing:
    """The critic, and what it saw of a rollout.

    Args:
        see: From worlds to all that decides how good a moment in them is (B, K).
        size: K.
        rollouts: Where returns are worked out.
        compiled: Whether its updates are compiled.
    """

    def __init__(
        self, see: Callable[[State], Tensor], size: int, rollouts: Rollouts, compiled: bool
    ) -> None:
        self.see, self.rollouts = see, rollouts
        self._glance = Glance(see)
        self.size = size
        self._seen = torch.zeros(*rollouts.values.shape, size, device=rollouts.device)
        self._net = _Net(size).to(rollouts.device)
        self._optimizer = torch.optim.Adam(self._net.parameters(), eps=1e-5)

        def fetch(chosen: Tensor) -> tuple[Tensor, ...]:
            columns = (self._seen, rollouts.returns)
            return tuple(column.flatten(0, 1).index_select(0, chosen) for column in columns)

        self._descend = GradientStep(self._net, self._optimizer, MAX_NORM, compiled, fetch)

    def told_at(self, chosen: Tensor) -> Tensor:
        """The scaled state (N, K) of samples by their place among all T * B."""
        return self._net.scale(self._seen.flatten(0, 1).index_select(0, chosen))

    def note(self, world: State, step: int) -> None:
        """Look at the worlds before a step of a rollout."""
        self._seen[step].copy_(self._glance(world, self.rollouts.device))

    @torch.no_grad()
    def value(self, world: State) -> Tensor:
        """Values (B,) of any worlds."""
        return self._net.values(self.see(world))

    @torch.no_grad()
    def judge(self) -> None:
        """Write the values of all steps of the rollout where advantages are worked out from."""
        seen = self._seen.flatten(0, 1)
        if not bool(self._net.scale.count):  # the first values of all should not be wild
            self._net.scale.learn_from(seen)
        values = self._net.values(seen)
        self.rollouts.values.copy_(values.view_as(self.rollouts.values))

    def improve(self, epochs: int, batch_size: int, rate: float) -> dict[str, float]:
        """Learn the returns of the rollout; tells how far off it was."""
        self._optimizer.param_groups[0]["lr"] = rate
        told = [
            self._descend(chosen).clone()
            for _ in range(epochs)
            for chosen in self.rollouts.orders(batch_size)
        ]
        self._net.scale.learn_from(self._seen.flatten(0, 1))
        named = dict(zip(self._descend.names, torch.stack(told).mean(0).tolist(), strict=True))
        return {"knowing_loss": named["knowing_loss"]}

    # --- saving --------------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, Tensor], Any]:
        """Tensors by name, and everything else, to be saved."""
        parts = {"net": self._net.state_dict(), "optimizer": self._optimizer.state_dict()}
        tensors, rest = flatten(parts, "knowing")
        return {name: value.clone() for name, value in tensors.items()}, rest

    def load(self, tensors: dict[str, Tensor], rest: Any) -> None:
        """Take a saved state back."""
        parts = unflatten(tensors, rest, "knowing")
        known = len(parts["net"]["scale.mean"])
        if known != self._seen.shape[-1]:
            raise ValueError(
                f"its critic knows {known} numbers of the state and here there are "
                f"{self._seen.shape[-1]}: another version of hotlap made it; begin a new run, "
                "with --init-from its model"
            )
        self._net.load_state_dict(parts["net"])
        self._optimizer.load_state_dict(parts["optimizer"])
        self._descend.reload()


class Account(nn.Module):
    """The state (N, K) as a policy's own critic could tell it.

    Whoever learns from rewards alone learns to see late. Where values are told by somebody who
    knows, the policy's own critic has time for another question: what is known of the state. Its
    answer is a fixed mix of what it makes its value of; nothing is added that would have to be
    trained, saved or left out. What that asks of the encoder, driving needs too.

    Args:
        policy: Whose critic it is.
        size: K.
    """

    def __init__(self, policy: ActorCriticPolicy, size: int) -> None:
        super().__init__()
        width = policy.mlp_extractor.latent_dim_vf
        fixed = torch.Generator().manual_seed(0)
        mix = torch.randn(size, width, generator=fixed) * (LOUD / width**0.5)
        self.mix: Tensor
        self.register_buffer("mix", mix.to(policy.device))

    def forward(self, latent: Tensor) -> Tensor:
        """From what the critic makes its value of (N, H)."""
        return latent @ self.mix.T


class _Net(nn.Module):
    """From what is known to a value; its loss is how far that is from the return."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.scale = Scaled(spaces.Box(-np.inf, np.inf, (size,)))
        self.layers = nn.Sequential(
            nn.Linear(size, HIDDEN), nn.ELU(), nn.Linear(HIDDEN, HIDDEN), nn.ELU(),
            nn.Linear(HIDDEN, 1),
        )  # fmt: skip

    def values(self, seen: Tensor) -> Tensor:
        """Values (N,)."""
        return self.layers(self.scale(seen)).squeeze(-1)

    def forward(self, seen: Tensor, target: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss and its metrics, tensors ()."""
        loss = mse_loss(self.values(seen), target)
        return loss, {"knowing_loss": loss.detach()}
