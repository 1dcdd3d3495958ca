"""sb3-contrib's TQC on a replay that stays on the device, with stabilisers.

    N samples, C critics, Q quantiles of each, Q' that are believed of all of them together.

What it saves loads with `sb3_contrib.TQC.load`.
"""

from typing import Any

import sb3_contrib
import torch
from stable_baselines3.common.vec_env import VecEnv
from torch import Tensor

from hotlap.config.learners import TQCConfig
from hotlap.learning.critics import TQCPolicy
from hotlap.learning.policy_choice import policy_of, precision_of
from hotlap.learning.sac import SoftActorCritic, soft_settings


class TQC(SoftActorCritic, sb3_contrib.TQC):
    """See the module's first lines; arguments are those of `SoftActorCritic` and of TQC."""

    def _believed(self, values: Tensor) -> Tensor:
        return without_rosiest(values, self.top_quantiles_to_drop_per_net)

    def _value(self, values: Tensor) -> Tensor:
        return values.mean((1, 2)).unsqueeze(1)

    def _critic_loss(self, values: Tensor, backup: Tensor) -> Tensor:
        loss: Tensor = QuantileHuber.apply(values, backup)  # type: ignore[no-untyped-call]
        return loss


def without_rosiest(values: Tensor, drop: int) -> Tensor:
    """Quantiles (N, C, Q) of all critics together, rising, without the `drop * C` highest."""
    critics = values.shape[1]
    pooled = values.flatten(1).sort(1).values
    return pooled[:, : pooled.shape[1] - drop * critics]


class QuantileHuber(torch.autograd.Function):
    """The mean quantile Huber loss of quantiles (N, C, Q) against a backup (N, Q').

    Quantile i of Q stands for the share (i + 0.5) / Q of returns that lie below it. Every quantile
    is compared with every number of the backup; being too low costs that share of the Huber loss
    (bent at 1), being too high the rest.

    Its gradient comes almost for free with the loss, in a third of the passes over all pairs.
    """

    @staticmethod
    def forward(ctx: Any, values: Tensor, backup: Tensor) -> Tensor:
        """The loss ()."""
        quantiles = values.shape[2]
        share = (torch.arange(quantiles, device=values.device) + 0.5).view(-1, 1) / quantiles
        error = backup.unsqueeze(1).unsqueeze(1) - values.unsqueeze(3)  # (N, C, Q, Q')
        bent = error.clamp(-1.0, 1.0)
        slope = torch.where(error < 0, 1.0 - share, share).mul_(bent)
        loss = error.sub_(bent, alpha=0.5).mul_(slope).mean()
        ctx.save_for_backward(slope.sum(3).div_(-slope.numel()))
        return loss

    @staticmethod
    def backward(ctx: Any, *along: Tensor) -> tuple[Tensor, None]:
        """How the loss changes with the quantiles; the backup is taken as given."""
        (slope,) = ctx.saved_tensors
        return slope * along[0], None


def make_tqc(
    config: TQCConfig,
    env: VecEnv,
    device: torch.device | str,
    seed: int,
    total_steps: int,
    compiled: bool = False,
) -> TQC:
    """The learner that a config describes."""
    model = TQC(
        TQCPolicy,
        env,
        policy_kwargs=policy_of(config, env.observation_space)[1],
        top_quantiles_to_drop_per_net=config.drop,
        compiled=compiled,
        precision=precision_of(config, env.observation_space, device),
        device=device,
        seed=seed,
        **soft_settings(config),
    )
    model.horizon = total_steps
    return model
