"""What PPO pays for judging a changed picture otherwise than the one that was really seen.

    N samples, of which the first M are changed and judged again.

The clipped loss compares how likely an action is with how likely it was when it was taken, which is
only honest for the picture that was seen then. So changed pictures are kept out of it. Instead the
policy and the value of a changed picture are pulled towards those of the real one, which stay where
they are. Follows DrAC (https://arxiv.org/abs/2006.12862). Of a flipped picture the mirrored policy
is expected.
"""

import torch
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.vec_env import VecEnv
from torch import Tensor

from hotlap.config.augmentation import AugmentationConfig
from hotlap.learning.augmentation import Augmentation, make_augmentation
from hotlap.learning.augmentation_mirror import mirror_of
from hotlap.learning.batches import batch_of
from hotlap.learning.policies import ActorCritic


class Agreement:
    """Pulls what is told of changed pictures towards what is told of real ones.

    Args:
        augmentation: How pictures are changed.
        share: Part of a minibatch that is changed and judged again.
        mirror: Of the actions, where pictures are flipped.
    """

    def __init__(self, augmentation: Augmentation, share: float, mirror: Tensor | None) -> None:
        self.augmentation, self.share, self.mirror = augmentation, share, mirror

    def draw(self, chosen: Tensor) -> Tensor:
        """Draws (D, M) for a minibatch of N samples."""
        return self.augmentation.draw(max(1, round(self.share * len(chosen))), chosen.device)

    def __call__(
        self, policy: ActorCritic, seen: Tensor, told: Tensor, value: Tensor, draws: Tensor
    ) -> tuple[Tensor, Tensor]:
        """How far policies and values are apart: tensors ().

        Args:
            policy: Who judges.
            seen: Real pictures (N, C, H, W).
            told: What the policy tells of actions there (N, P).
            value: What it tells of their value (N,).
            draws: What decides the changes (D, M).
        """
        count = draws.shape[1]
        told, value = told[:count].detach(), value[:count].detach()
        if self.mirror is not None:
            flipped = self.augmentation.flipped(draws).unsqueeze(1)
            told = torch.where(flipped, policy.spread.mirrored(told, self.mirror), told)
        changed = self.augmentation(seen[:count], draws)
        changed = changed.contiguous(memory_format=torch.channels_last)  # as real pictures are
        told_again, value_again = policy.read(changed)
        apart = policy.spread.divergence(told, told_again).mean()
        return apart, (value_again - value).square().mean()


def make_agreement(
    config: AugmentationConfig, share: float, policy: BasePolicy, env: VecEnv | None
) -> Agreement | None:
    """What settings ask for; None where they ask for nothing."""
    augmentation = make_augmentation(config, policy.observation_space)
    if augmentation is None:
        return None
    if batch_of(env) is None or not isinstance(policy, ActorCritic):
        raise ValueError(
            "ppo changes pictures of hotlap's own tasks only, for hotlap's own policies; leave "
            "augment out, or use --agent sac, tqc or dqn"
        )
    return Agreement(augmentation, share, mirror_of(env, policy.device) if config.flip else None)
