"""What the learners share that learn from a replay: its size, their updates, what is saved."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.preprocessing import is_image_space
from stable_baselines3.common.utils import LinearSchedule
from torch import Tensor
from torch.optim import Optimizer

from hotlap.config.augmentation import AugmentationConfig
from hotlap.config.learners import ReplayConfig
from hotlap.learning.augmentation import Augmentation, make_augmentation
from hotlap.learning.augmentation_mirror import mirror_of, mirrored
from hotlap.learning.driving import Driving
from hotlap.learning.graphed_update import GraphedUpdate, plain, prepare, set_rate
from hotlap.learning.learner import Numbers, refuse_unfinite
from hotlap.learning.replay import Replay, Samples

STOCK_REPLAY = 10_000
"""Steps for which the stock class makes room when it opens a saved model.

It keeps pictures stacked and twice; room for as many as ours held might not be there at all.
"""


class OffPolicy(Driving):
    """Goes before one of Stable-Baselines3's algorithms, whose other arguments it takes too.

    Args:
        args: As for the algorithm.
        replay_size: Steps that the replay holds, all environments together.
        stack: Frames that an observation is made of.
        updates_per_step: Gradient steps per environment step.
        max_updates_per_step: Cap on that.
        critic_grad_norm: Longest gradient of the critics; 0 is no limit.
        backup_clip: Largest size of what a critic is taught; 0 is no limit.
        reward_scale: What rewards are multiplied by before they are learned from.
        augment: How pictures are changed at random when they are learned from.
        graphed: On a GPU, capture updates and replay them.
        compiled: On a GPU, compile what nets tell of pictures while they learn.
        precision: Type in which pictures are looked at while nets learn: float32 or bfloat16.
        settings: As for the algorithm.
    """

    RUNTIME = (
        # The stock class must be able to open the file: no tensors, and no replay of ours.
        "replay_buffer_class", "replay_buffer_kwargs", "_last_obs", "_last_original_obs",
        "_graph", "_graph_rests_on", "_metrics", "_augmentation", "_mirror",
        "_compiled",
    )  # fmt: skip

    def __init__(
        self,
        *args: Any,
        replay_size: int = 100_000,
        stack: int = 1,
        updates_per_step: float = 1.0,
        max_updates_per_step: float = math.inf,
        critic_grad_norm: float = 0.0,
        backup_clip: float = 0.0,
        reward_scale: float = 1.0,
        augment: AugmentationConfig | None = None,
        graphed: bool = True,
        compiled: bool = False,
        precision: str = "float32",
        _init_setup_model: bool = True,
        **settings: Any,
    ) -> None:
        for name, ours in (("buffer_size", "replay_size"), ("gradient_steps", "updates_per_step")):
            if name in settings:
                raise TypeError(f"{name} is not taken here; use {ours}")
        super().__init__(*args, _init_setup_model=False, **settings)  # type: ignore[call-arg]
        self.replay_size, self.stack = replay_size, stack
        self.buffer_size = min(replay_size, STOCK_REPLAY)
        self.gradient_steps = -1  # as many as a rollout says, which is `_updates_due`
        self.updates_per_step = updates_per_step
        self.max_updates_per_step = max_updates_per_step
        self.critic_grad_norm, self.backup_clip = critic_grad_norm, backup_clip
        self.reward_scale = reward_scale
        self.augment, self.graphed = augment or AugmentationConfig(), graphed
        self.compiled, self.precision = compiled, precision
        self._compiled: dict[Callable[..., Any], Callable[..., Any]] = {}
        self._augmentation: Augmentation | None = None
        self._mirror: Tensor | None = None
        self._updates_owed = 0.0
        self._metrics: tuple[str, ...] = ()
        self._graph: GraphedUpdate | None = None
        self._graph_rests_on: list[Any] = []
        if _init_setup_model:
            self._setup_model()

    def _setup_model(self) -> None:
        if self._vec_normalize_env is not None:
            raise ValueError("VecNormalize is not supported here; let the policy normalise instead")
        if self.use_sde:
            raise ValueError("use_sde is not supported here; leave it out")
        if self.device.type == "cuda":  # the same shapes again and again: trying out ways pays
            torch.backends.cudnn.benchmark = True
        self._augmentation = make_augmentation(self.augment, self.observation_space)
        if self.env is not None:  # without one, nothing is driven and nothing learned
            self.replay_buffer = self._make_replay()
            self._find_mirror()
        super()._setup_model()

    def _make_replay(self) -> Replay:
        return Replay(
            self.replay_size,
            self.observation_space,
            self.action_space,
            self.device,
            self.n_envs,
            stack=self.stack,
            channels_first=is_image_space(self.observation_space),
            n_step=self.n_steps,
            gamma=self.gamma,
            reward_scale=self.reward_scale,
        )

    def _setup_learn(self, *args: Any, **kwargs: Any) -> tuple[int, BaseCallback]:
        if not isinstance(self.replay_buffer, Replay):  # opened without an environment
            self.replay_buffer = self._make_replay()
            self._find_mirror()
        return super()._setup_learn(*args, **kwargs)

    def _find_mirror(self) -> None:
        """Find out what steering the other way is, where pictures are flipped."""
        if self.augment.flip:
            self._mirror = mirror_of(self.env, self.device)

    # --- saving --------------------------------------------------------------------------------

    def get_parameters(self) -> dict[str, dict]:
        """States of nets and optimisers, such that the stock class can take them over."""
        states = super().get_parameters()
        return {k: plain(v) if "param_groups" in v else v for k, v in states.items()}

    def extra_state(self) -> Numbers:
        """Numbers beyond those of Stable-Baselines3 that decide the future."""
        return {"updates_owed": self._updates_owed}

    def load_extra_state(self, numbers: Numbers) -> None:
        """Take them back."""
        self._updates_owed = float(numbers["updates_owed"])

    # --- updates -------------------------------------------------------------------------------

    def _updates_due(self, steps: int) -> int:
        """Updates to make after so many more environment steps; fractions are kept for later."""
        if self.num_timesteps <= self.learning_starts:
            return 0
        if not self.replay_buffer.ready:
            if self.replay_buffer.full:
                raise RuntimeError(
                    "every step of the replay was cut off by the clock, so none can be learned "
                    "from; let episodes last longer than a step, or terminate them"
                )
            return 0
        self._updates_owed += min(self.updates_per_step, self.max_updates_per_step) * steps
        due = int(self._updates_owed)
        self._updates_owed -= due
        return due

    def train(self, gradient_steps: int, batch_size: int = 64) -> None:
        """Make updates, and log the means of what each told."""
        self.policy.set_training_mode(True)
        optimisers = self._optimisers()
        for optimiser in optimisers:
            prepare(optimiser)  # new, or its state was loaded
        self._update_learning_rate(optimisers)
        update = self._updater(batch_size)
        total = update().clone()
        for _ in range(gradient_steps - 1):
            total += update()
        self._n_updates += gradient_steps
        means = (total / gradient_steps).tolist()  # here the device is waited for
        self._tell(dict(zip(self._metrics, means, strict=True)))

    def _updater(self, batch_size: int) -> Callable[[], Tensor]:
        """What makes one update."""
        update = partial(self._learn_once, batch_size)
        if not self.graphed or self.device.type != "cuda":
            return update
        # A graph knows its tensors by their place; these are replaced when a state is loaded.
        rests_on = [batch_size, self.replay_buffer, *(o.state for o in self._optimisers())]
        held = self._graph_rests_on
        if len(held) != len(rests_on) or any(map(lambda a, b: a is not b, held, rests_on)):
            self._graph, self._graph_rests_on = GraphedUpdate(update), rests_on
        assert self._graph is not None
        return self._graph

    def _learn_once(self, batch_size: int) -> Tensor:
        """Sample, change, update; what is worth knowing, in the order of `_metrics`."""
        samples = self.replay_buffer.sample(batch_size)
        if self._augmentation is not None:
            samples = self._changed(samples, self._augmentation)
        told = self._update(samples)
        self._metrics = tuple(told)
        return torch.stack(list(told.values()))

    def _fast(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, compiled where pictures go through it on a GPU."""
        on_pictures = self.device.type == "cuda" and is_image_space(self.observation_space)
        if not (self.compiled and on_pictures):
            return function
        if function not in self._compiled:
            self._compiled[function] = torch.compile(function, dynamic=False)
        return self._compiled[function]

    def _changed(self, samples: Samples, change: Augmentation) -> Samples:
        """Samples with their pictures changed, before a step and after it each in its own way.

        Only left and right are exchanged in both or in neither, and in the action with them.
        """
        draws = change.draw(len(samples.observations), self.device)
        samples = samples._replace(
            observations=change(samples.observations, draws),
            next_observations=change(samples.next_observations, change.draw_again(draws)),
        )
        if self._mirror is None:
            return samples
        shown = mirrored(samples.actions, self._mirror)
        flipped = change.flipped(draws).unsqueeze(1)
        return samples._replace(actions=torch.where(flipped, shown, samples.actions))

    def _update(self, samples: Samples) -> dict[str, Tensor]:
        """One gradient step of every net; nothing in it may wait for the device."""
        raise NotImplementedError

    def _optimisers(self) -> list[Optimizer]:
        raise NotImplementedError

    def _update_learning_rate(self, optimizers: list[Optimizer] | Optimizer) -> None:
        rate = self.lr_schedule(self._current_progress_remaining) * self.rate_scale
        self.logger.record("train/learning_rate", rate)
        for optimiser in optimizers if isinstance(optimizers, list) else [optimizers]:
            set_rate(optimiser, rate)

    def _clip_backup(self, backup: Tensor) -> tuple[Tensor, Tensor]:
        """What critics are taught, within its limit, and the share that was not."""
        if not self.backup_clip:
            return backup, backup.new_zeros(())
        beyond = (backup.abs() > self.backup_clip).to(backup.dtype).mean()
        return backup.clamp(-self.backup_clip, self.backup_clip), beyond

    def _tell(self, metrics: dict[str, float]) -> None:
        """Log the means of updates, and stop at the first that is not a number."""
        refuse_unfinite(metrics)
        for name, value in metrics.items():
            self.logger.record(name, value)
        driven = max(self.num_timesteps - self.learning_starts, 1)
        self.logger.record("train/updates_per_step", self._n_updates / driven)
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")


def replay_settings(config: ReplayConfig) -> dict[str, Any]:
    """Arguments of a learner that all configs with a replay give."""
    rate = config.learning_rate
    return {
        "learning_rate": LinearSchedule(rate, 0.0, 1.0) if config.schedule == "linear" else rate,
        "gamma": config.gamma,
        "batch_size": config.batch_size,
        "learning_starts": config.warm_up,
        "tau": config.tau,
        "n_steps": config.n_step,
        "train_freq": 1,
        "replay_size": config.replay_size,
        "stack": config.stack,
        "updates_per_step": config.updates_per_step,
        "max_updates_per_step": config.max_updates_per_step,
        "critic_grad_norm": config.critic_grad_norm,
        "backup_clip": config.backup_clip,
        "reward_scale": config.reward_scale,
        "augment": config.augmentation,
    }
