"""Stable-Baselines3's PPO, whose data stay on the device where the simulator is ours.

Between the simulator and the loss everything is a tensor; nothing is copied to NumPy, and nothing
waits for the device but the look for ended episodes. On any other environment it is the ordinary
PPO. What it saves loads with `stable_baselines3.PPO.load`.
"""

import time
from typing import Any

import stable_baselines3
import torch
from gymnasium import spaces
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.type_aliases import RolloutBufferSamples
from stable_baselines3.common.vec_env import VecEnv, VecTransposeImage
from torch import Tensor
from torch.nn.functional import mse_loss

from hotlap.learning.rollouts import Rollouts
from hotlap.tasks.adapters.sb3_vec import SB3VecEnv
from hotlap.tasks.batch import BatchEnv, Step


class PPO(stable_baselines3.PPO):
    """See the module's first lines; arguments are those of Stable-Baselines3's PPO."""

    def _setup_model(self) -> None:
        if _batch_of(self.env) is not None:
            self.rollout_buffer_class = Rollouts  # type: ignore[assignment]
        super()._setup_model()

    def _excluded_save_params(self) -> list[str]:
        # The stock class must be able to open the file without us, and without a GPU.
        return [*super()._excluded_save_params(), "rollout_buffer_class", "_last_obs"]

    # --- collecting ----------------------------------------------------------------------------

    def collect_rollouts(
        self,
        env: VecEnv,
        callback: BaseCallback,
        rollout_buffer: RolloutBuffer,
        n_rollout_steps: int,
    ) -> bool:
        """Drive for `n_rollout_steps`; False if the callback stopped it."""
        batch = _batch_of(env)
        if batch is None or not isinstance(rollout_buffer, Rollouts):
            return super().collect_rollouts(env, callback, rollout_buffer, n_rollout_steps)
        self.policy.set_training_mode(False)
        rollout_buffer.reset()
        callback.on_rollout_start()
        seen = torch.as_tensor(self._last_obs, device=self.device)
        for count in range(n_rollout_steps):
            if self.use_sde and (
                count == 0 or (self.sde_sample_freq > 0 and count % self.sde_sample_freq == 0)
            ):
                self.policy.reset_noise(batch.num_envs)
            with torch.no_grad():
                action, value, log_prob = self.policy(seen)
            step = batch.step(self._for_the_world(action))
            self.num_timesteps += batch.num_envs
            reward = self._book_endings(batch, step)
            rollout_buffer.keep(seen, action, reward, step.done, value.flatten(), log_prob)
            seen = self._as_seen(step.observation)
            callback.update_locals(locals())
            if not callback.on_step():
                return False
        # The base class calls it an array; nothing but this method and its twin there reads it.
        self._last_obs = seen  # type: ignore[assignment]
        with torch.no_grad():
            rollout_buffer.finish(self.policy.predict_values(seen).flatten())
        callback.update_locals(locals())
        callback.on_rollout_end()
        return True

    def _for_the_world(self, action: Tensor) -> Tensor:
        """Actions as the environments take them: within their bounds."""
        space = self.action_space
        if not isinstance(space, spaces.Box):
            return action
        low, high = (torch.as_tensor(end, device=action.device) for end in (space.low, space.high))
        if self.policy.squash_output:
            return low + 0.5 * (action + 1.0) * (high - low)
        return torch.maximum(torch.minimum(action, high), low)

    def _as_seen(self, observation: Tensor) -> Tensor:
        """An observation as the policy takes it: pictures with their channels first."""
        return observation.permute(0, 3, 1, 2) if observation.dim() == 4 else observation

    def _book_endings(self, batch: BatchEnv, step: Step) -> Tensor:
        """Keep the books of ended episodes; rewards with the value of what was cut off (B,)."""
        over = step.done.nonzero().squeeze(-1)
        if not len(over):
            return step.reward
        told = (step.episode_return[over].tolist(), step.episode_length[over].tolist())
        now = time.time() - self.start_time / 1e9
        for earned, length in zip(*told, strict=True):
            self.ep_info_buffer.append({"r": earned, "l": length, "t": now})  # type: ignore[union-attr]
        late = step.truncated.nonzero().squeeze(-1)
        if not len(late):
            return step.reward
        with torch.no_grad():
            last = self.policy.predict_values(self._as_seen(batch.final_observation(late)))
        return step.reward.index_add(0, late, last.flatten(), alpha=self.gamma)

    # --- learning ------------------------------------------------------------------------------

    def train(self) -> None:
        """Improve the policy on the rollouts."""
        rollouts: Any = self.rollout_buffer
        if not isinstance(rollouts, Rollouts):
            super().train()
            return
        self.policy.set_training_mode(True)
        self._update_learning_rate(self.policy.optimizer)
        clip = self.clip_range(self._current_progress_remaining)  # type: ignore[operator]
        told: list[dict[str, Tensor]] = []
        for _ in range(self.n_epochs):
            stopped = False
            for samples in rollouts.get(self.batch_size):
                loss, metrics = self._loss(samples, clip)
                told.append(metrics)
                if self.target_kl is not None and metrics["approx_kl"] > 1.5 * self.target_kl:
                    stopped = True
                    break
                self.policy.optimizer.zero_grad()
                loss.backward()
                norm = torch.nn.utils.clip_grad_norm_(self.policy.parameters(), self.max_grad_norm)
                metrics["gradient_norm"] = norm
                self.policy.optimizer.step()
            self._n_updates += 1
            if stopped:
                break
        self._tell(told, rollouts, clip)

    def _loss(self, samples: RolloutBufferSamples, clip: float) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss of a minibatch, and what is worth knowing about it."""
        value, log_prob, entropy = self.policy.evaluate_actions(
            samples.observations, samples.actions
        )
        value = value.flatten()
        advantages = samples.advantages
        if self.normalize_advantage and len(advantages) > 1:
            advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        log_ratio = log_prob - samples.old_log_prob
        ratio = torch.exp(log_ratio)
        clipped = advantages * ratio.clamp(1 - clip, 1 + clip)
        policy_loss = -torch.minimum(advantages * ratio, clipped).mean()
        if self.clip_range_vf is not None:
            reach = self.clip_range_vf(self._current_progress_remaining)  # type: ignore[operator]
            value = samples.old_values + (value - samples.old_values).clamp(-reach, reach)
        value_loss = mse_loss(value, samples.returns)
        entropy_loss = (log_prob if entropy is None else -entropy).mean()
        loss = policy_loss + self.ent_coef * entropy_loss + self.vf_coef * value_loss
        with torch.no_grad():
            return loss, {
                "policy_gradient_loss": policy_loss.detach(),
                "value_loss": value_loss.detach(),
                "entropy_loss": entropy_loss.detach(),
                "loss": loss.detach(),
                "approx_kl": (ratio - 1 - log_ratio).mean(),
                "clip_fraction": ((ratio - 1).abs() > clip).float().mean(),
            }

    def _tell(self, told: list[dict[str, Tensor]], rollouts: Rollouts, clip: float) -> None:
        """Log the means of what each minibatch told; the only time the device is waited for."""
        for name in told[0]:
            values = [metrics[name] for metrics in told if name in metrics]
            self.logger.record(f"train/{name}", float(torch.stack(values).mean()))
        spread = rollouts.returns.var()
        unexplained = (rollouts.returns - rollouts.values).var() / spread.clamp(min=1e-12)
        self.logger.record("train/explained_variance", float(1 - unexplained))
        if hasattr(self.policy, "log_std"):
            self.logger.record("train/std", float(self.policy.log_std.detach().exp().mean()))
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")
        self.logger.record("train/clip_range", clip)


def _batch_of(env: VecEnv | None) -> BatchEnv | None:
    """The batch behind an environment, if nothing stands between that changes what it gives."""
    inner = env.venv if isinstance(env, VecTransposeImage) else env
    return inner.batch if isinstance(inner, SB3VecEnv) else None
