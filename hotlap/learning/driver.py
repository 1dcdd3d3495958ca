"""A trained policy as a function from what is seen to what is done, all tensors."""

import torch
from gymnasium import spaces
from stable_baselines3.common.policies import BasePolicy
from torch import Tensor

from hotlap.learning.rollouts import channels_first

Policy = BasePolicy
"""What any learner trains."""


class Driver:
    """Drives as a policy says.

    Args:
        policy: Of any learner.
        seen: What the environments it learned in gave; pictures with their channels last.
        deterministic: Take the best action instead of drawing one.
    """

    def __init__(self, policy: BasePolicy, seen: spaces.Space, deterministic: bool = True) -> None:
        self.policy, self.deterministic = policy, deterministic
        self.shape = tuple(seen.shape or ())
        space = policy.action_space
        self.bounds: tuple[Tensor, Tensor] | None = None
        if isinstance(space, spaces.Box):
            low, high = (torch.as_tensor(e, device=policy.device) for e in (space.low, space.high))
            self.bounds = (low, high)

    @torch.no_grad()
    def __call__(self, seen: Tensor) -> Tensor:
        """Actions (B, ...) as environments take them."""
        refuse_other_shape(self.shape, tuple(seen.shape[1:]))
        self.policy.set_training_mode(False)
        given = channels_first(seen.to(self.policy.device))
        action = self.policy._predict(given, self.deterministic)
        if self.bounds is None:
            return action
        low, high = self.bounds
        if self.policy.squash_output:
            return low + 0.5 * (action + 1.0) * (high - low)
        return torch.maximum(torch.minimum(action, high), low)


def refuse_other_shape(learned: tuple[int, ...], seen: tuple[int, ...]) -> None:
    """Stop where a policy is shown something else than it learned from."""
    if learned != seen:
        raise ValueError(
            f"the model was trained on observations of shape {learned}, this environment gives "
            f"{seen}; use the task, camera and stack it was trained with"
        )
