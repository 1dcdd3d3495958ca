"""Stable-Baselines3's PPO, whose data stay on the device where the simulator is ours.

Between the simulator and the loss everything is a tensor; nothing is copied to NumPy, and the
device is waited for twice a rollout. On any other environment it is the ordinary PPO. What it saves
loads with `stable_baselines3.PPO.load`.
"""

import time
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, cast

import stable_baselines3
import torch
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecEnv
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from hotlap.config.augmentation import AugmentationConfig
from hotlap.learning.augmentation_loss import Agreement, make_agreement
from hotlap.learning.averages import Average
from hotlap.learning.batches import batch_of
from hotlap.learning.captured import Captured
from hotlap.learning.encoders import Scaled, arithmetic
from hotlap.learning.gradient_step import GradientStep
from hotlap.learning.knowing import Account, Knowing
from hotlap.learning.learner import Learner, Numbers, refuse_unfinite
from hotlap.learning.policies import ActorCritic
from hotlap.learning.ramps import Finish, Ramp
from hotlap.learning.reward_scale import RewardScale
from hotlap.learning.rollouts import Rollouts, channels_first
from hotlap.learning.teaching import Teacher
from hotlap.tasks.batch import BatchEnv
from hotlap.tasks.interface import Interface
from hotlap.tasks.task import State, clone_tree, map_tree


class PPO(Learner, stable_baselines3.PPO):
    """See the module's first lines.

    Args:
        args: As for Stable-Baselines3's PPO.
        compiled: Compile the nets and the updates. On a GPU they are captured either way.
        precision: Type that the nets compute in: float32 or bfloat16.
        scale_rewards: Scale rewards so that returns have spread 1.
        augment: How pictures are changed at random.
        augment_weight: Weight of the pull of changed pictures towards real ones.
        augment_share: Part of a minibatch that is changed and judged again.
        average_over: Rollouts whose weights are averaged for judging; 1 takes the latest.
        describing: Weight of how badly the encoder tells the state that `knowing` knows.
        settings: As for Stable-Baselines3's PPO.
    """

    RUNTIME = (
        "average",
        "knowing",
        "ramps",
        "teacher",
        "_descend",
        "_act",
        "_read",
        "rollout_buffer_class",
        "_last_obs",
    )

    def __init__(
        self,
        *args: Any,
        compiled: bool = False,
        precision: str = "float32",
        scale_rewards: bool = False,
        augment: AugmentationConfig | None = None,
        augment_weight: float = 0.1,
        augment_share: float = 0.25,
        average_over: int = 1,
        describing: float = 0.0,
        **settings: Any,
    ) -> None:
        self.compiled, self.precision = compiled, precision
        self.reward_scale = RewardScale() if scale_rewards else None
        self.augment = augment or AugmentationConfig()
        self.augment_weight, self.augment_share = augment_weight, augment_share
        self.average_over, self.describing = average_over, describing
        self.average: Average | None = None
        self._descend: GradientStep | None = None
        self._act: Any = None
        self.teacher: Teacher | None = None
        """Who advises, where anybody does; set before the first rollout."""
        self.knowing: Knowing | None = None
        """Who tells values, where that is not the policy; set before the first rollout."""
        self.ramps: tuple[Ramp | Finish, ...] = ()
        """Who changes the environments gradually."""
        self._read: Any = None
        """The policy's nets, compiled for all environments together and for no other number."""
        super().__init__(*args, **settings)

    def _setup_model(self) -> None:
        if batch_of(self.env) is not None:
            self.rollout_buffer_class = Rollouts  # type: ignore[assignment]
        if self.device.type == "cuda":  # the same shapes again and again: trying out ways pays
            torch.backends.cudnn.benchmark = True
        super()._setup_model()
        if self.average_over > 1:
            self.average = Average(self.policy, self.average_over)
        if self.env is not None:
            self._make_agreement()  # refuses what cannot be learned

    def _make_agreement(self) -> Agreement | None:
        """What is expected of changed pictures; None where there are none."""
        return make_agreement(self.augment, self.augment_share, self.policy, self.env)

    # --- collecting ----------------------------------------------------------------------------

    def collect_rollouts(
        self,
        env: VecEnv,
        callback: BaseCallback,
        rollout_buffer: RolloutBuffer,
        n_rollout_steps: int,
    ) -> bool:
        """Drive for `n_rollout_steps`; False if the callback stopped it."""
        batch = batch_of(env)
        if batch is None or not isinstance(rollout_buffer, Rollouts):
            return super().collect_rollouts(env, callback, rollout_buffer, n_rollout_steps)
        self.policy.set_training_mode(False)
        rollout_buffer.reset()
        callback.on_rollout_start()
        seen = torch.as_tensor(self._last_obs, device=self.device)
        if seen.dim() == 4 and seen.shape[1:] == self.observation_space.shape:
            seen = seen.permute(0, 2, 3, 1)  # from a reset, which goes through the wrapper
        self._ramp_up()
        begun = self._send_on(batch)
        seen = seen if begun is None else begun.to(self.device)
        worlds: list[State] = []
        for count in range(n_rollout_steps):
            if self.use_sde and (
                count == 0 or (self.sde_sample_freq > 0 and count % self.sde_sample_freq == 0)
            ):
                self.policy.reset_noise(batch.num_envs)
            # Before the step, which may overwrite it; and what is read always lies alike, so that
            # the nets are compiled once.
            shown = rollout_buffer.show(seen)
            if self.teacher is not None and self._advice_weight() > 0:
                rollout_buffer.advise(self.teacher.advise(batch.world))
            if self.knowing is not None:
                self.knowing.note(batch.world, count)
            action, value, log_prob = self._decide(shown)
            step = batch.step(self._for_the_world(action))
            self.num_timesteps += batch.num_envs
            rollout_buffer.keep(
                actions=action, rewards=step.reward, done=step.done,
                truncated=step.truncated, values=value, log_probs=log_prob,
                episode_returns=step.episode_return, episode_lengths=step.episode_length,
            )  # fmt: skip
            worlds.append(_ended_world(batch))
            seen = step.observation
            callback.update_locals(locals())
            if not callback.on_step():
                return False
        # The base class calls it an array; nothing but this method and its twin there reads it.
        self._last_obs = seen  # type: ignore[assignment]
        self._book_endings(rollout_buffer)
        if self.reward_scale is not None:  # before values are added, which are scaled already
            self.reward_scale.apply(rollout_buffer.rewards, rollout_buffer.done, self.gamma)
        if self.knowing is not None:
            self.knowing.judge()
        self._add_what_was_cut_off(rollout_buffer, batch, worlds)
        last = self._value(seen) if self.knowing is None else self.knowing.value(batch.world)
        rollout_buffer.finish(last)
        if self.roster is not None:
            self.roster.note_rollout(rollout_buffer, worlds)
            self._tell_tracks()
        callback.update_locals(locals())
        callback.on_rollout_end()
        return True

    def _decide(self, seen: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Actions, values (B,) and log-probabilities (B,) of what is seen."""
        if self._act is None:
            # First, because it moves the weights to where they stay.
            self._gradient_step(self.rollout_buffer)  # type: ignore[arg-type]
            self._act = self._policy_step
            # Stable-Baselines3's own policies look at their numbers, which a capture forbids.
            if isinstance(self.policy, ActorCritic):
                if self.compiled:
                    self._read = torch.compile(self.policy.read, dynamic=False)
                if self.device.type == "cuda":
                    self._act = Captured(self._policy_step)
        return self._act(seen)

    @torch.no_grad()
    def _policy_step(self, seen: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        with arithmetic(self.device, self.precision):
            if self._read is None:
                action, value, log_prob = self.policy(channels_first(seen))
                return action, value.flatten(), log_prob
            told, value = self._read(channels_first(seen))
        spread = cast(ActorCritic, self.policy).spread
        action = spread.sample(told)
        return action, value, spread.log_prob(told, action)

    @torch.no_grad()
    def _value(self, seen: Tensor) -> Tensor:
        """Values (N,) of anything seen."""
        with arithmetic(self.device, self.precision):
            if self._read is not None and len(seen) == self.n_envs:
                return self._read(channels_first(seen))[1]
            return self.policy.predict_values(channels_first(seen)).flatten()

    def _book_endings(self, rollouts: Rollouts) -> None:
        """Keep the books of the episodes that ended."""
        now = time.time() - self.start_time / 1e9
        earned = rollouts.episode_returns[rollouts.done].tolist()
        lengths = rollouts.episode_lengths[rollouts.done].tolist()
        for total, length in zip(earned, lengths, strict=True):
            self.ep_info_buffer.append({"r": total, "l": length, "t": now})  # type: ignore[union-attr]

    def _add_what_was_cut_off(
        self, rollouts: Rollouts, batch: BatchEnv | Interface, worlds: list[State]
    ) -> None:
        """Add to the rewards the value of what the clock cut off, discounted once.

        Looked at after the rollout and all together: the policy is still the one that drove.
        """
        late = rollouts.truncated.nonzero()
        if not len(late):
            return
        everything = map_tree(lambda *steps: torch.stack(steps), *worlds)
        for part in late.split(batch.num_envs):
            t, who = part.unbind(-1)
            count = len(t)
            fixed = self.compiled and self.device.type == "cuda" and self.knowing is None
            if fixed:  # the one size that is compiled
                t, who = (torch.cat([x, x.new_zeros(batch.num_envs - count)]) for x in (t, who))
            ended = map_tree(lambda leaf, at=(t, who): leaf[at], everything)
            if self.knowing is not None:
                rollouts.rewards[t, who] += self.gamma * self.knowing.value(ended)
                continue
            if isinstance(batch, Interface):
                seen = batch.look(ended, rollouts.observations[t, who])
            else:
                seen = batch.look(ended)
            t, who = part.unbind(-1)
            rollouts.rewards[t, who] += self.gamma * self._value(seen)[:count]

    # --- learning ------------------------------------------------------------------------------

    def train(self) -> None:
        """Improve the policy on the rollouts."""
        self._improve()
        if self.average is not None:
            self.average.note()

    def _improve(self) -> None:
        rollouts: Any = self.rollout_buffer
        if not isinstance(rollouts, Rollouts):
            super().train()
            heard = self.logger.name_to_value
            refuse_unfinite({name: heard[name] for name in ("train/loss", "train/value_loss")})
            return
        self.policy.set_training_mode(True)
        self._update_learning_rate(self.policy.optimizer)
        clip = self.clip_range(self._current_progress_remaining)  # type: ignore[operator]
        reach = torch.tensor(clip, device=self.device)
        given = [reach]
        if self.teacher is not None:
            given.append(torch.tensor(self._advice_weight(), device=self.device))
        descend = self._gradient_step(rollouts)
        told: list[Tensor] = []
        for _ in range(self.n_epochs):
            for chosen in rollouts.orders(self.batch_size):
                told.append(descend(chosen, *given).clone())
                if self.target_kl is not None and self._moved_far(descend, told[-1]):
                    break
            self._n_updates += 1
            if self.target_kl is not None and self._moved_far(descend, told[-1]):
                break
        self._learn_scale(rollouts)
        if self.knowing is not None:
            rate = self.policy.optimizer.param_groups[0]["lr"]
            self._tell(self.knowing.improve(self.n_epochs, self.batch_size, rate))
        self._tell(dict(zip(descend.names, torch.stack(told).mean(0).tolist(), strict=True)))
        self._tell_fit(rollouts, clip)

    def _advice_weight(self) -> float:
        """How much a teacher's advice weighs in this rollout."""
        assert self.teacher is not None
        return self.teacher.weight_at(1 - self._current_progress_remaining)

    def _gradient_step(self, rollouts: Rollouts) -> GradientStep:
        if self._descend is None:
            # Stable-Baselines3's own policies keep what they computed, which a compiler cannot.
            ours = isinstance(self.policy, ActorCritic)
            agreement = self._make_agreement()
            self._descend = GradientStep(
                _Loss(self, agreement),
                cast(torch.optim.Adam, self.policy.optimizer),
                self.max_grad_norm,
                self.compiled and ours,
                partial(_fetch, rollouts, agreement, self.knowing if self.describing else None),
                captured=ours,
            )
        return self._descend

    def _moved_far(self, descend: GradientStep, told: Tensor) -> bool:
        return float(told[descend.names.index("approx_kl")]) > 1.5 * (self.target_kl or 0)

    def _learn_scale(self, rollouts: Rollouts) -> None:
        """Let the encoder see what was driven through; only now, so that an update fits itself."""
        encoder = self.policy.features_extractor
        if isinstance(encoder, Scaled):
            encoder.learn_from(rollouts.observations.flatten(0, 1))

    def _tell(self, metrics: dict[str, float]) -> None:
        refuse_unfinite(metrics)
        for name, value in metrics.items():
            self.logger.record(f"train/{name}", value)

    def _tell_fit(self, rollouts: Rollouts, clip: float) -> None:
        """How well values fit returns, and what was set."""
        spread = rollouts.returns.var()
        unexplained = (rollouts.returns - rollouts.values).var() / spread.clamp(min=1e-12)
        self.logger.record("train/explained_variance", float(1 - unexplained))
        log_std = getattr(self.policy, "log_std", None)
        if log_std is not None:
            self.logger.record("train/std", float(log_std.detach().exp().mean()))
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")
        self.logger.record("train/clip_range", clip)

    # --- saving --------------------------------------------------------------------------------

    def at_its_best(self) -> AbstractContextManager[None]:
        """The policy drives as it is to be judged and kept."""
        return nullcontext() if self.average is None else self.average.lent()

    def state(self) -> tuple[dict[str, Tensor], Numbers]:
        """A copy of all that decides the future between two segments."""
        tensors, numbers = super().state()
        if self.average is not None:
            tensors |= self.average.tensors()
            numbers["averaged"] = self.average.count
        if self.knowing is not None:
            known, numbers["knowing"] = self.knowing.state()
            tensors |= known
        return tensors, numbers

    def load_state(self, tensors: dict[str, Tensor], numbers: Numbers) -> None:
        """Go on from a saved state."""
        super().load_state(tensors, numbers)
        if self.average is not None:
            self.average.load(tensors, numbers["averaged"])
        if self.knowing is not None:
            self.knowing.load(tensors, numbers["knowing"])

    def extra_state(self) -> dict[str, float]:
        """Numbers beyond those of Stable-Baselines3 that decide the future."""
        return {} if self.reward_scale is None else self.reward_scale.numbers()

    def load_extra_state(self, numbers: dict[str, float]) -> None:
        """Take them back."""
        if self.reward_scale is not None:
            self.reward_scale.load(numbers)

    def after_loading(self) -> None:
        """Bind what was made from the optimiser's old state to its new one."""
        if self._descend is not None:
            self._descend.reload()

    def begin_segment(self) -> None:
        """Environments are about to begin anew."""
        if self.reward_scale is not None:
            self.reward_scale.forget_running()
        self._ramp_up()

    def _ramp_up(self) -> None:
        for ramp in self.ramps:
            ramp.turn(self.num_timesteps / self.horizon)


class _Loss(nn.Module):
    """PPO's loss of a minibatch, and what is worth knowing about it."""

    def __init__(self, learner: PPO, agreement: Agreement | None) -> None:
        super().__init__()
        self.policy = learner.policy
        self.device, self.precision = learner.device, learner.precision
        self.entropy_weight, self.value_weight = learner.ent_coef, learner.vf_coef
        self.normalise = learner.normalize_advantage
        self.agreement, self.agreement_weight = agreement, learner.augment_weight
        self.describing = learner.describing
        self.account: Account | None = None
        if self.describing:
            assert learner.knowing is not None
            self.account = Account(self.policy, learner.knowing.size)
        self.value_reach: float | None = None
        if learner.clip_range_vf is not None:
            self.value_reach = learner.clip_range_vf(1.0)  # type: ignore[operator]

    def forward(
        self,
        seen: Tensor,
        action: Tensor,
        old_value: Tensor,
        old_log_prob: Tensor,
        advantage: Tensor,
        target: Tensor,
        reach: Tensor,
        draws: Tensor | None = None,
        advice: Tensor | None = None,
        advice_weight: Tensor | None = None,
        known: Tensor | None = None,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss and its metrics, tensors ()."""
        apart: dict[str, Tensor] = {}
        with arithmetic(self.device, self.precision):
            if draws is None and advice is None and known is None:
                value, log_prob, entropy = self.policy.evaluate_actions(seen, action)
            else:
                value, log_prob, entropy, apart = self._compare(seen, action, draws, advice, known)
        value = value.flatten()
        if self.normalise and len(advantage) > 1:  # a single one has no spread
            advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        log_ratio = log_prob - old_log_prob
        ratio = torch.exp(log_ratio)
        clipped = advantage * torch.minimum(torch.maximum(ratio, 1 - reach), 1 + reach)
        policy_loss = -torch.minimum(advantage * ratio, clipped).mean()
        if self.value_reach is not None:
            value = old_value + (value - old_value).clamp(-self.value_reach, self.value_reach)
        value_loss = mse_loss(value, target)
        entropy_loss = (log_prob if entropy is None else -entropy).mean()
        loss = policy_loss + self.entropy_weight * entropy_loss + self.value_weight * value_loss
        if draws is not None:
            pull = apart["augmented_kl"] + self.value_weight * apart["augmented_value_loss"]
            loss = loss + self.agreement_weight * pull
        if advice_weight is not None:
            loss = loss + advice_weight * apart["astray"]
        if known is not None:
            loss = loss + self.describing * apart["undescribed"]
        metrics = {
            "policy_gradient_loss": policy_loss,
            "value_loss": value_loss,
            "entropy_loss": entropy_loss,
            "loss": loss,
            "approx_kl": (ratio - 1 - log_ratio).mean(),
            "clip_fraction": ((ratio - 1).abs() > reach).float().mean(),
        }
        return loss, {name: metric.detach() for name, metric in (metrics | apart).items()}

    def _compare(
        self,
        seen: Tensor,
        action: Tensor,
        draws: Tensor | None,
        advice: Tensor | None,
        known: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor | None, dict[str, Tensor]]:
        """What `evaluate_actions` says, and how far it is from other opinions by name.

        Those are its own of changed pictures (`draws` change them), a teacher's, and the state that
        is known.
        """
        policy = cast(ActorCritic, self.policy)
        told, value, latent = policy.read_closely(seen)
        apart: dict[str, Tensor] = {}
        if draws is not None:
            assert self.agreement is not None
            names = ("augmented_kl", "augmented_value_loss")
            pulls = self.agreement(policy, seen, told, value, draws)
            apart = dict(zip(names, pulls, strict=True))
        if advice is not None:
            apart["astray"] = mse_loss(policy.spread.mode(told), advice)
        if known is not None:
            assert self.account is not None
            apart["undescribed"] = mse_loss(self.account(latent), known)
        log_prob, entropy = policy.spread.log_prob(told, action), policy.spread.entropy(told)
        return value, log_prob, entropy, apart


def _fetch(
    rollouts: Rollouts,
    agreement: Agreement | None,
    knowing: Knowing | None,
    chosen: Tensor,
    reach: Tensor,
    advice_weight: Tensor | None = None,
) -> tuple[Any, ...]:
    """What the loss is worked out from, of the samples in these places."""
    draws = None if agreement is None else agreement.draw(chosen)
    advice = None if advice_weight is None else rollouts.advice_at(chosen)
    known = None if knowing is None else knowing.told_at(chosen)
    return (*rollouts._get_samples(chosen), reach, draws, advice, advice_weight, known)


def _ended_world(batch: BatchEnv | Interface) -> State:
    """The worlds after a step before anything began anew, safe from the next step."""
    inner = batch.batch if isinstance(batch, Interface) else batch
    return clone_tree(inner.ended_world) if inner.overwrites else inner.ended_world
