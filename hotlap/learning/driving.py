"""How learners with a replay drive.

B environments. Where the simulator is ours, everything between it and the replay is a tensor. On
any other environment steps are those of Stable-Baselines3, into the same replay. Random numbers are
torch's alone, so a run can be keyed anew at any moment.
"""

import time
from typing import Any

import numpy as np
import torch
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.noise import ActionNoise
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.type_aliases import RolloutReturn, TrainFreq, TrainFrequencyUnit
from stable_baselines3.common.vec_env import VecEnv, VecTransposeImage
from torch import Tensor

from hotlap.learning.batches import batch_of
from hotlap.learning.encoders import Scaled
from hotlap.learning.learner import Learner
from hotlap.learning.replay import Replay
from hotlap.tasks.batch import BatchEnv, Step
from hotlap.tasks.interface import Interface


class Driving(Learner, OffPolicyAlgorithm):
    """The half of `OffPolicy` that fills the replay."""

    replay_buffer: Replay  # type: ignore[assignment]

    def _setup_learn(self, *args: Any, **kwargs: Any) -> tuple[int, BaseCallback]:
        before = self._last_obs
        told = super()._setup_learn(*args, **kwargs)
        if self._last_obs is not before:  # environments were begun anew
            self.replay_buffer.cut()
        return told

    def begin_segment(self) -> None:
        """Environments are about to begin anew."""
        self.replay_buffer.cut()

    def collect_rollouts(
        self,
        env: VecEnv,
        callback: BaseCallback,
        train_freq: TrainFreq,
        replay_buffer: Replay,  # type: ignore[override]
        action_noise: ActionNoise | None = None,
        learning_starts: int = 0,
        log_interval: int | None = None,
    ) -> RolloutReturn:
        """Drive for `train_freq` steps; in place of their number, says how many updates are due."""
        batch = batch_of(env)
        if batch is None:
            rollout = super().collect_rollouts(
                env, callback, train_freq, replay_buffer, action_noise, learning_starts,  # type: ignore[arg-type]
                log_interval,
            )  # fmt: skip
        else:
            if train_freq.unit is not TrainFrequencyUnit.STEP or action_noise is not None:
                raise ValueError("a batch is driven by steps and without action noise")
            rollout = self._drive(env, batch, callback, train_freq.frequency, log_interval)
        return rollout._replace(episode_timesteps=self._updates_due(rollout.episode_timesteps))

    def _drive(
        self,
        env: VecEnv,
        batch: BatchEnv | Interface,
        callback: BaseCallback,
        steps: int,
        log_interval: int | None,
    ) -> RolloutReturn:
        """The same without leaving the device."""
        self.policy.set_training_mode(False)
        callback.on_rollout_start()
        count = ended = 0
        seen = torch.as_tensor(self._last_obs, device=self.device)
        while count < steps:
            begun = self._send_on(batch)
            seen = seen if begun is None else self._as_policy_sees(begun, env)
            self._look(seen)  # now: a step may overwrite what the one before it returned
            action = self._explore(seen)
            step = batch.step(self._for_the_world(action))
            self.replay_buffer.tell(action, step.reward, step.terminated, step.truncated)
            if self.roster is not None and self.roster.note_step(step):
                self._tell_tracks()
            seen = self._as_policy_sees(step.observation, env)
            # The base class calls it an array; nothing but these methods reads it.
            self._last_obs = seen  # type: ignore[assignment]
            count += 1
            self.num_timesteps += batch.num_envs
            self._update_current_progress_remaining(self.num_timesteps, self._total_timesteps)
            self._on_step()
            ended += self._book_endings(step, log_interval)
            callback.update_locals(locals())
            if not callback.on_step():
                return RolloutReturn(count * batch.num_envs, ended, continue_training=False)
        callback.on_rollout_end()
        return RolloutReturn(count * batch.num_envs, ended, continue_training=True)

    def _as_policy_sees(self, seen: Tensor, env: VecEnv) -> Tensor:
        """Pictures with their channels where the policy has them."""
        seen = seen.to(self.device)
        return seen.permute(0, 3, 1, 2) if isinstance(env, VecTransposeImage) else seen

    def _book_endings(self, step: Step, log_interval: int | None) -> int:
        """Keep the books of ended episodes; says how many."""
        over = step.done.nonzero().squeeze(-1)
        if not len(over):
            return 0
        told = (step.episode_return[over].tolist(), step.episode_length[over].tolist())
        now = time.time() - self.start_time / 1e9
        for earned, length in zip(*told, strict=True):
            self.ep_info_buffer.append({"r": earned, "l": length, "t": now})  # type: ignore[union-attr]
        before = self._episode_num
        self._episode_num += len(over)
        if log_interval is not None and before // log_interval < self._episode_num // log_interval:
            self.dump_logs()
        return len(over)

    # --- on other environments than ours -------------------------------------------------------

    def _sample_action(
        self, learning_starts: int, action_noise: ActionNoise | None = None, n_envs: int = 1
    ) -> tuple[np.ndarray, np.ndarray]:
        """Actions as environments take them, and as they are replayed."""
        action = self._explore(torch.as_tensor(self._last_obs, device=self.device))
        if action_noise is not None:
            noise = torch.as_tensor(action_noise(), dtype=action.dtype, device=action.device)
            action = (action + noise).clamp(-1.0, 1.0)
        return self._for_the_world(action).cpu().numpy(), action.cpu().numpy()

    def _store_transition(
        self,
        replay_buffer: Replay,  # type: ignore[override]
        buffer_action: np.ndarray,
        new_obs: np.ndarray | dict[str, np.ndarray],
        reward: np.ndarray,
        dones: np.ndarray,
        infos: list[dict[str, Any]],
    ) -> None:
        late = np.array([info.get("TimeLimit.truncated", False) for info in infos], dtype=bool)
        self._look(torch.as_tensor(self._last_obs, device=self.device))
        row = (buffer_action, reward, dones & ~late, dones & late)
        replay_buffer.tell(*(torch.as_tensor(value, device=self.device) for value in row))
        self._last_obs = new_obs

    # --- what both ways share ------------------------------------------------------------------

    def _look(self, seen: Tensor) -> None:
        """Write down what is seen before a step, and let scales learn from it."""
        self.replay_buffer.show(seen)
        for part in self.policy.modules():
            if isinstance(part, Scaled):
                part.learn_from(seen)

    @property
    def _warming_up(self) -> bool:
        return self.num_timesteps < self.learning_starts

    def _explore(self, seen: Tensor) -> Tensor:
        """Actions (B, ...) to learn from, as they are replayed."""
        raise NotImplementedError

    def _updates_due(self, steps: int) -> int:
        """Updates to make after so many more environment steps."""
        raise NotImplementedError
