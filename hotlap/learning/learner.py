"""What all learners share: training in segments that a stop cannot tear apart.

A run is cut into segments. Where one begins, environments begin anew and every generator is keyed
by (seed, segment), so what happens in it follows from the learner's state at its beginning and from
nothing else. A run that is killed goes on from the last whole segment to the same weights, bit for
bit on a CPU, as one that never stopped.
"""

import math
import random
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from torch import Tensor

from hotlap.learning.action_bounds import ActionBounds
from hotlap.learning.roster import Roster
from hotlap.tasks.batch import BatchEnv
from hotlap.tasks.interface import Interface

Numbers = dict[str, Any]
"""Plain JSON values."""


class Learner(BaseAlgorithm):
    """A mixin for Stable-Baselines3's algorithms."""

    RUNTIME: tuple[str, ...] = ()
    """Attributes that are not saved."""
    NUMBERS = ("num_timesteps", "_n_updates", "_episode_num", "horizon", "rate_scale")
    """Attributes that decide the future, beside weights and optimisers."""

    horizon = 0
    """Steps of the whole training, which schedules run over; 0 leaves it to `learn`."""
    roster: Roster | None = None
    """Who drives where, and the books of the tracks; none where there is one track or none."""
    _within: tuple[Any, ActionBounds] | None = None
    rate_scale = 1.0
    """Factor on the learning rate, below 1 after a rollback."""

    def _excluded_save_params(self) -> list[str]:
        # The stock class must be able to open the file, and without a GPU.
        own = ("horizon", "rate_scale", "roster", "_within")
        return [*super()._excluded_save_params(), *self.RUNTIME, *own]

    def _for_the_world(self, action: Tensor) -> Tensor:
        """Actions as environments take them."""
        if self._within is None or self._within[0] is not self.policy:
            self._within = (self.policy, ActionBounds(self.policy))
        return self._within[1](action)

    # --- segments ------------------------------------------------------------------------------

    def learn_segment(
        self, seed: int, segment: int, steps: int, callback: BaseCallback | None = None
    ) -> None:
        """Train for one segment."""
        key_generators(seed, segment)
        assert self.env is not None
        self.env.seed(segment_seed(seed, segment))
        self.action_space.seed(segment_seed(seed, segment))
        self._last_obs = None  # makes `learn` reset the environments
        self.begin_segment()
        if self.roster is not None:
            self.roster.begin_segment(self.num_timesteps)
        self.learn(steps, callback=callback, reset_num_timesteps=False, log_interval=1)
        if self.roster is not None:
            self.roster.end_segment()

    def begin_segment(self) -> None:
        """Environments are about to begin anew."""

    def _send_on(self, batch: BatchEnv | Interface) -> Tensor | None:
        """Send cars where the schedule wants them; what is seen, if all had to begin anew."""
        if self.roster is None or not self.roster.turn(self.num_timesteps):
            return None
        self.begin_segment()
        return batch.reset(mask=torch.ones(batch.num_envs, dtype=torch.bool))

    def _tell_tracks(self) -> None:
        """Log what is known of the tracks."""
        if self.roster is not None:
            for name, value in self.roster.metrics().items():
                self.logger.record(name, value)

    def _update_current_progress_remaining(self, num_timesteps: int, total_timesteps: int) -> None:
        super()._update_current_progress_remaining(num_timesteps, self.horizon or total_timesteps)

    def _update_learning_rate(self, optimizers: Any) -> None:
        super()._update_learning_rate(optimizers)
        for optimizer in optimizers if isinstance(optimizers, list) else [optimizers]:
            for group in optimizer.param_groups:
                group["lr"] *= self.rate_scale
        rate = self.lr_schedule(self._current_progress_remaining) * self.rate_scale
        self.logger.record("train/learning_rate", rate)  # the base class told it unscaled

    def at_its_best(self) -> AbstractContextManager[None]:
        """The policy drives as it is to be judged and kept."""
        return nullcontext()

    # --- state ---------------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, Tensor], Numbers]:
        """A copy of all that decides the future between two segments, but for a replay."""
        tensors: dict[str, Tensor] = {}
        numbers: Numbers = {"extra": self.extra_state()}
        numbers["learner"] = {name: getattr(self, name, 0) for name in self.NUMBERS}
        if self.roster is not None:
            numbers["roster"] = self.roster.state()
        parts, loose = self._get_torch_save_params()
        for part in parts:
            flat, rest = flatten(_find(self, part).state_dict(), part)
            tensors |= flat
            numbers[part] = rest
        for name in loose:
            value = _find(self, name)
            if value is not None:
                tensors[name] = value.detach()
        return {name: value.clone() for name, value in tensors.items()}, numbers

    def load_state(self, tensors: dict[str, Tensor], numbers: Numbers) -> None:
        """Go on from a saved state."""
        parts, loose = self._get_torch_save_params()
        for part in parts:
            _find(self, part).load_state_dict(unflatten(tensors, numbers[part], part))
        for name in loose:
            if name in tensors:
                _find(self, name).data.copy_(tensors[name])
        for name, value in numbers["learner"].items():
            setattr(self, name, value)
        if self.roster is not None and "roster" in numbers:
            self.roster.load(numbers["roster"])
        self.load_extra_state(numbers["extra"])
        self.after_loading()

    def extra_state(self) -> Numbers:
        """Numbers beyond those of Stable-Baselines3 that decide the future."""
        return {}

    def load_extra_state(self, numbers: Numbers) -> None:
        """Take them back."""

    def after_loading(self) -> None:
        """Weights and optimisers were replaced."""


def segment_seed(seed: int, segment: int) -> int:
    """One number for a segment of a training, far from those of others; evaluations' are larger."""
    return int(np.random.SeedSequence([seed, segment]).generate_state(1, np.uint32)[0]) >> 2


def key_generators(seed: int, segment: int) -> None:
    """Key every generator that a learner or an environment may draw from."""
    key = segment_seed(seed, segment)
    random.seed(key)
    np.random.seed(key)
    torch.manual_seed(key)


def refuse_unfinite(metrics: dict[str, float]) -> None:
    """Stop at the first metric that is not a number any more."""
    for name, value in metrics.items():
        if not math.isfinite(value):
            raise FloatingPointError(
                f"{name} became {value}: the training has diverged. The last good weights are "
                "kept; try a lower learning rate or a shorter gradient"
            )


def flatten(tree: Any, name: str) -> tuple[dict[str, Tensor], Any]:
    """Tensors of nested dicts and lists by their path, and the tree with paths in their place."""
    if isinstance(tree, Tensor):
        return {name: tree.detach()}, {"tensor": name}
    if isinstance(tree, dict):
        pairs = {key: flatten(value, f"{name}/{key}") for key, value in tree.items()}
        found = {k: v for flat, _ in pairs.values() for k, v in flat.items()}
        items = [[key, rest] for key, (_, rest) in pairs.items()]  # JSON would turn 0 into "0"
        return found, {"dict": items}
    if isinstance(tree, (list, tuple)):
        parts = [flatten(value, f"{name}/{place}") for place, value in enumerate(tree)]
        found = {k: v for flat, _ in parts for k, v in flat.items()}
        return found, {"list": [rest for _, rest in parts]}
    return {}, {"value": tree}


def unflatten(tensors: dict[str, Tensor], rest: Any, name: str) -> Any:
    """Undo `flatten`."""
    if "tensor" in rest:
        if rest["tensor"] not in tensors:
            raise ValueError(f"the saved state lacks {rest['tensor']}")
        return tensors[rest["tensor"]].clone()  # whoever loads it may keep and change it
    if "dict" in rest:
        return {key: unflatten(tensors, value, name) for key, value in rest["dict"]}
    if "list" in rest:
        return [unflatten(tensors, value, name) for value in rest["list"]]
    return rest["value"]


def _find(owner: Any, path: str) -> Any:
    """An attribute of an attribute, by its dotted path."""
    for name in path.split("."):
        owner = getattr(owner, name)
    return owner
