"""Stable-Baselines3's SAC on a replay that stays on the device, with stabilisers.

    N samples, A actions, C critics, Q numbers that each critic gives (1, or its quantiles).
    backup   what critics are taught: rewards, and the value of what was seen after them

What it saves loads with `stable_baselines3.SAC.load`.
"""

import math
from typing import Any

import stable_baselines3
import torch
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.sac.policies import LOG_STD_MAX, LOG_STD_MIN, Actor
from torch import Tensor
from torch.optim import Optimizer

from hotlap.config.learners import SACConfig
from hotlap.learning.critics import SACPolicy, encode, values_of, values_to_climb
from hotlap.learning.graphed_update import descend, follow, set_rate
from hotlap.learning.off_policy import OffPolicy, replay_settings
from hotlap.learning.policy_choice import policy_of, precision_of
from hotlap.learning.replay import Samples

NEAR_ONE = 1e-6
"""Keeps the logarithm finite where an action is at its bound; Stable-Baselines3's number."""


class SoftActorCritic(OffPolicy):
    """What SAC and TQC share; they differ in how critics are believed and taught.

    Args:
        args: As for `OffPolicy`.
        actor_grad_norm: Longest gradient of the actor; 0 is no limit.
        entropy_bounds: Least and greatest weight of the entropy, where it is learned.
        entropy_rate: Step size of that weight; 0 takes the learning rate.
        settings: As for `OffPolicy`.
    """

    # Made by the algorithm that this goes before.
    actor: Any
    critic: Any
    critic_target: Any
    ent_coef_optimizer: torch.optim.Adam | None
    log_ent_coef: Any
    target_entropy: Any
    ent_coef_tensor: Tensor
    batch_norm_stats: list[Tensor]
    batch_norm_stats_target: list[Tensor]

    def __init__(
        self,
        *args: Any,
        actor_grad_norm: float = 0.0,
        entropy_bounds: tuple[float, float] = (0.0, math.inf),
        entropy_rate: float = 0.0,
        **settings: Any,
    ) -> None:
        self.actor_grad_norm, self.entropy_rate = actor_grad_norm, entropy_rate
        self.entropy_bounds = entropy_bounds
        super().__init__(*args, **settings)

    def _explore(self, seen: Tensor) -> Tensor:
        if self._warming_up:
            size = (len(seen), *(self.action_space.shape or ()))
            return 2.0 * torch.rand(size, device=self.device) - 1.0
        with torch.no_grad():
            return draw_actions(self.actor, seen)[0]

    def _optimisers(self) -> list[Optimizer]:
        learned = [] if self.ent_coef_optimizer is None else [self.ent_coef_optimizer]
        return [self.actor.optimizer, self.critic.optimizer, *learned]

    def _update_learning_rate(self, optimizers: list[Optimizer] | Optimizer) -> None:
        super()._update_learning_rate(optimizers)
        if self.entropy_rate and self.ent_coef_optimizer is not None:
            share = self.lr_schedule(self._current_progress_remaining) / self.lr_schedule(1.0)
            set_rate(self.ent_coef_optimizer, self.entropy_rate * share * self.rate_scale)

    # --- one update ----------------------------------------------------------------------------

    def _update(self, samples: Samples) -> dict[str, Tensor]:
        seen = samples.observations
        actions, log_prob = self._draw(seen)
        weight = self._weigh_entropy(log_prob)
        backup, beyond = self._back_up(samples, weight)

        values = self._fast(values_of)(self.critic, seen, samples.actions, self.precision)
        critic_loss = self._critic_loss(values, backup)
        critic_norm, critic_binds = descend(
            self.critic.optimizer, critic_loss, self.critic_grad_norm
        )
        climb = self._fast(values_to_climb)
        climbed = self._value(climb(self.critic, seen, actions, self.precision))
        actor_loss = (weight * log_prob - climbed).mean()
        actor_norm, actor_binds = descend(self.actor.optimizer, actor_loss, self.actor_grad_norm)
        self._follow()

        with torch.no_grad():
            by_critic = values.mean(2)  # (N, C)
            told = {
                "losses/actor": actor_loss.detach(),
                "losses/critic": critic_loss.detach(),
                "train/entropy_coef": weight.view(()),
                "train/entropy": -log_prob.mean(),
                "debug/actor_grad_norm": actor_norm,
                "train/actor_clipped": actor_binds,
                "debug/critic_grad_norm": critic_norm,
                "train/critic_clipped": critic_binds,
                "train/backup_clipped": beyond,
                "debug/q_a1": climbed.mean(),
                "debug/backup": backup.mean(),
                "debug/backup_std": backup.std(),
                "debug/r": samples.rewards.mean(),
            }
            told |= {f"debug/q{i}": q for i, q in enumerate(by_critic.mean(0).unbind(), 1)}
            if by_critic.shape[1] > 1:
                told["debug/q_difference"] = (by_critic[:, 0] - by_critic[:, 1]).abs().mean()
        return told

    def _draw(self, seen: Tensor) -> tuple[Tensor, Tensor]:
        """Actions to learn from, and their log-density."""
        return squash(*self._fast(aims)(self.actor, seen, self.precision))

    def _weigh_entropy(self, log_prob: Tensor) -> Tensor:
        """The weight of the entropy, as it is before it learns from these log-probabilities."""
        if self.ent_coef_optimizer is None:
            return self.ent_coef_tensor
        weight = self.log_ent_coef.detach().exp()
        loss = -(self.log_ent_coef * (log_prob.detach() + self.target_entropy)).mean()
        descend(self.ent_coef_optimizer, loss, 0.0)
        low, high = self.entropy_bounds
        with torch.no_grad():
            self.log_ent_coef.clamp_(math.log(low) if low else -math.inf, math.log(high))
        return weight

    @torch.no_grad()
    def _back_up(self, samples: Samples, weight: Tensor) -> tuple[Tensor, Tensor]:
        """What critics are taught (N, Q'), and the share of it that was clipped."""
        seen = samples.next_observations
        actions, log_prob = self._draw(seen)
        after = self._fast(values_of)(self.critic_target, seen, actions, self.precision)
        after = self._believed(after) - weight * log_prob
        alive = (1.0 - samples.dones) * samples.discounts
        return self._clip_backup(samples.rewards + alive * after)

    def _follow(self) -> None:
        """Let the slow copy of the critics follow."""
        follow(list(self.critic_target.parameters()), list(self.critic.parameters()), self.tau)
        if self.batch_norm_stats:
            follow(self.batch_norm_stats_target, self.batch_norm_stats, 1.0)

    def _believed(self, values: Tensor) -> Tensor:
        """What is believed (N, Q') of values (N, C, Q) that critics give for what comes next."""
        raise NotImplementedError

    def _value(self, values: Tensor) -> Tensor:
        """What the actor climbs (N, 1), of values (N, C, Q) that critics give for its actions."""
        raise NotImplementedError

    def _critic_loss(self, values: Tensor, backup: Tensor) -> Tensor:
        """How far values (N, C, Q) are from the backup (N, Q')."""
        raise NotImplementedError


class SAC(SoftActorCritic, stable_baselines3.SAC):
    """See the module's first lines; arguments are those of `SoftActorCritic`."""

    def _believed(self, values: Tensor) -> Tensor:
        return values.amin(1)

    def _value(self, values: Tensor) -> Tensor:
        return values.amin(1)

    def _critic_loss(self, values: Tensor, backup: Tensor) -> Tensor:
        return 0.5 * (values - backup.unsqueeze(1)).square().mean((0, 2)).sum()


def draw_actions(actor: Actor, seen: Tensor) -> tuple[Tensor, Tensor]:
    """Actions (N, A) within -1..1 drawn from a squashed Gaussian, and their log-density (N, 1).

    As Stable-Baselines3 has it, without the checks that would wait for the device.
    """
    return squash(*aims(actor, seen))


def aims(actor: Actor, seen: Tensor, precision: str = "float32") -> tuple[Tensor, Tensor]:
    """Means of actions (N, A) before they are squashed, and logarithms of their spreads."""
    latent = actor.latent_pi(encode(actor, seen, precision))
    return actor.mu(latent), actor.log_std(latent).clamp(LOG_STD_MIN, LOG_STD_MAX)  # type: ignore[operator]


def squash(mean: Tensor, log_std: Tensor) -> tuple[Tensor, Tensor]:
    """What `draw_actions` tells, of means and spreads."""
    noise = torch.randn_like(mean)
    actions = torch.tanh(mean + log_std.exp() * noise)
    density = -0.5 * noise.square() - log_std - 0.5 * math.log(2 * math.pi)
    density = density - torch.log(1.0 - actions.square() + NEAR_ONE)
    return actions, density.sum(1, keepdim=True)


def soft_settings(config: SACConfig) -> dict[str, Any]:
    """Arguments of `SoftActorCritic` that a config gives."""
    learned = f"auto_{config.entropy}"
    return replay_settings(config) | {
        "ent_coef": learned if config.learn_entropy else config.entropy,
        "target_entropy": "auto" if config.target_entropy is None else config.target_entropy,
        "entropy_bounds": config.entropy_bounds,
        "entropy_rate": config.entropy_rate,
        "actor_grad_norm": config.actor_grad_norm,
    }


def make_sac(
    config: SACConfig,
    env: VecEnv,
    device: torch.device | str,
    seed: int,
    total_steps: int,
    compiled: bool = False,
) -> SAC:
    """The learner that a config describes."""
    model = SAC(
        SACPolicy,
        env,
        policy_kwargs=policy_of(config, env.observation_space)[1],
        compiled=compiled,
        precision=precision_of(config, env.observation_space, device),
        device=device,
        seed=seed,
        **soft_settings(config),
    )
    model.horizon = total_steps
    return model
