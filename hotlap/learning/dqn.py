"""Stable-Baselines3's DQN on a replay that stays on the device, with stabilisers.

N samples, A actions to choose from. What it saves loads with `stable_baselines3.DQN.load`.
"""

from typing import Any

import stable_baselines3
import torch
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.dqn.policies import QNetwork
from torch import Tensor
from torch.nn.functional import smooth_l1_loss
from torch.optim import Optimizer

from hotlap.config.learners import DQNConfig
from hotlap.learning.critics import DQNPolicy, action_values
from hotlap.learning.graphed_update import descend, follow
from hotlap.learning.learner import Numbers
from hotlap.learning.off_policy import OffPolicy, replay_settings
from hotlap.learning.policy_choice import policy_of, precision_of
from hotlap.learning.replay import Samples


class DQN(OffPolicy, stable_baselines3.DQN):
    """See the module's first lines.

    Args:
        args: As for `OffPolicy`.
        double: Let the net choose the next action and its slow copy judge it.
        target_every: Environment steps between copies of the net into its slow copy; 0 lets that
            take over `tau` of the net at every update.
        huber: Error beyond which a sample pulls no harder.
        settings: As for `OffPolicy`.
    """

    def __init__(
        self,
        *args: Any,
        double: bool = True,
        target_every: int = 0,
        huber: float = 1.0,
        **settings: Any,
    ) -> None:
        self.double, self.target_every, self.huber = double, target_every, huber
        if target_every:
            settings["tau"] = 1.0
        super().__init__(*args, **settings)

    def _setup_model(self) -> None:
        # What the stock class would do at every step of the environments, and so does not warn of.
        self.target_update_interval = max(self.target_every, self.n_envs)
        super()._setup_model()

    def _explore(self, seen: Tensor) -> Tensor:
        """The best action, or with a chance that falls as training goes on any other."""
        anything = torch.randint(int(self.action_space.n), (len(seen),), device=self.device)  # type: ignore[attr-defined]
        if self._warming_up:
            return anything
        with torch.no_grad():
            best = action_values(self.q_net, seen).argmax(1)
        at_random = torch.rand(len(seen), device=self.device) < self.exploration_rate
        return torch.where(at_random, anything, best)

    def _on_step(self) -> None:
        """Copy the net if it is time to."""
        self._n_calls += 1
        interval = max(self.target_every // self.n_envs, 1)
        if self.target_every and self._n_calls % interval == 0:
            self._follow(1.0)
        self._set_exploration()
        self.logger.record("rollout/exploration_rate", self.exploration_rate)

    def _set_exploration(self) -> None:
        self.exploration_rate = self.exploration_schedule(self._current_progress_remaining)

    def _setup_learn(self, *args: Any, **kwargs: Any) -> Any:
        told = super()._setup_learn(*args, **kwargs)
        self._update_current_progress_remaining(self.num_timesteps, self._total_timesteps)
        self._set_exploration()
        return told

    def _optimisers(self) -> list[Optimizer]:
        return [self.policy.optimizer]

    def _update(self, samples: Samples) -> dict[str, Tensor]:
        with torch.no_grad():
            after = self._values(self.q_net_target, samples.next_observations)
            judged = after
            if self.double:
                judged = self._values(self.q_net, samples.next_observations)
            after = after.gather(1, judged.argmax(1, keepdim=True))
            alive = (1.0 - samples.dones) * samples.discounts
            backup, beyond = self._clip_backup(samples.rewards + alive * after)
        values = self._values(self.q_net, samples.observations)
        taken = values.gather(1, samples.actions)
        loss = smooth_l1_loss(taken, backup, beta=self.huber)
        norm, binds = descend(self.policy.optimizer, loss, self.critic_grad_norm)
        if not self.target_every:
            self._follow(self.tau)
        with torch.no_grad():
            return {
                "losses/critic": loss.detach(),
                "debug/critic_grad_norm": norm,
                "train/critic_clipped": binds,
                "train/backup_clipped": beyond,
                "debug/q_a1": values.amax(1).mean(),
                "debug/q1": taken.mean(),
                "debug/backup": backup.mean(),
                "debug/backup_std": backup.std(),
                "debug/r": samples.rewards.mean(),
            }

    def _values(self, net: QNetwork, seen: Tensor) -> Tensor:
        """The value of every action (N, A), to learn from."""
        return self._fast(action_values)(net, seen, self.precision)

    def _follow(self, share: float) -> None:
        """Let the slow copy of the net follow."""
        follow(list(self.q_net_target.parameters()), list(self.q_net.parameters()), share)
        if self.batch_norm_stats:
            follow(self.batch_norm_stats_target, self.batch_norm_stats, 1.0)

    def extra_state(self) -> Numbers:
        """Numbers beyond those of Stable-Baselines3 that decide the future."""
        return super().extra_state() | {"n_calls": self._n_calls}

    def load_extra_state(self, numbers: Numbers) -> None:
        """Take them back."""
        super().load_extra_state(numbers)
        self._n_calls = int(numbers["n_calls"])


def make_dqn(
    config: DQNConfig,
    env: VecEnv,
    device: torch.device | str,
    seed: int,
    total_steps: int,
    compiled: bool = False,
) -> DQN:
    """The learner that a config describes."""
    model = DQN(
        DQNPolicy,
        env,
        policy_kwargs=policy_of(config, env.observation_space)[1],
        exploration_fraction=max(config.exploration_fraction, 1e-9),  # it is divided by
        exploration_final_eps=config.exploration_final,
        double=config.double,
        target_every=config.target_every,
        huber=config.huber,
        compiled=compiled,
        precision=precision_of(config, env.observation_space, device),
        device=device,
        seed=seed,
        **replay_settings(config),
    )
    model.horizon = total_steps
    return model
