"""A trained policy as a function from what is seen to what is done, all tensors."""

import torch
from gymnasium import spaces
from stable_baselines3.common.policies import BasePolicy
from torch import Tensor

from hotlap.learning.action_bounds import ActionBounds
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
        self.within = ActionBounds(policy)

    @torch.no_grad()
    def __call__(self, seen: Tensor) -> Tensor:
        """Actions (B, ...) as environments take them."""
        refuse_other_shape(self.shape, tuple(seen.shape[1:]))
        self.policy.set_training_mode(False)
        given = channels_first(seen.to(self.policy.device))
        return self.within(self.policy._predict(given, self.deterministic))


def refuse_other_shape(learned: tuple[int, ...], seen: tuple[int, ...]) -> None:
    """Stop where a policy is shown something else than it learned from."""
    if learned != seen:
        raise ValueError(
            f"the model was trained on observations of shape {learned}, this environment gives "
            f"{seen}; use the task, camera and stack it was trained with"
        )
