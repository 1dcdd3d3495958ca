"""From what a policy gives to what environments take."""

import torch
from gymnasium import spaces
from stable_baselines3.common.policies import BasePolicy
from torch import Tensor


class ActionBounds:
    """Brings a policy's actions within the bounds of its environments.

    A policy that squashes gives -1 to 1 for low to high; the others give actions as they are, which
    are cut off at the bounds. Discrete actions pass.
    """

    def __init__(self, policy: BasePolicy) -> None:
        self.squashed = policy.squash_output
        self.ends: tuple[Tensor, Tensor] | None = None
        space = policy.action_space
        if isinstance(space, spaces.Box):
            low, high = (torch.as_tensor(e, device=policy.device) for e in (space.low, space.high))
            self.ends = (low, high)

    def __call__(self, action: Tensor) -> Tensor:
        """Actions as environments take them."""
        if self.ends is None:
            return action
        low, high = self.ends
        if self.squashed:
            action = low + 0.5 * (action + 1.0) * (high - low)
        return torch.maximum(torch.minimum(action, high), low)
