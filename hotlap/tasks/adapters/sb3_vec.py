"""Many environments of any task, as a Stable-Baselines3 `VecEnv`."""

import time
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env.base_vec_env import VecEnv, VecEnvIndices, VecEnvStepReturn

from hotlap.tasks.adapters.arrays import (
    Array,
    check_render_mode,
    single_seat_task,
    to_array,
    to_tensor,
    told,
)
from hotlap.tasks.adapters.picture import draw
from hotlap.tasks.batch import BatchEnv, Step
from hotlap.tasks.interface import Interface


class SB3VecEnv(VecEnv):
    """A batch for Stable-Baselines3's algorithms and callbacks.

    Where an episode ends, its info holds what SB3 reads there (`terminal_observation`,
    `TimeLimit.truncated`, and `episode` as `Monitor` would write it, so wrapping is not needed) and
    what the last step told. All other infos are empty: `last_step` has the metrics of every
    environment as tensors.

    `seed(s)` gives the batch the seed s from the next reset on. Environments are told apart by
    their identity and not by seeds s, s + 1, ..., so trainings with neighbouring seeds share
    nothing.

    Args:
        batch: The environments, or how a learner meets them.
        render_mode: None, or "rgb_array" for pictures from `render`.
    """

    def __init__(self, batch: BatchEnv | Interface, render_mode: str | None = None) -> None:
        self.task = single_seat_task(batch.task, "SB3VecEnv")
        self.batch = batch
        self.render_mode = check_render_mode(render_mode)
        self.last_step: Step | None = None
        self._began = time.monotonic()
        self._actions: torch.Tensor | None = None
        self._seed: int | None = None
        self._begun = False
        super().__init__(batch.num_envs, batch.observation_space, batch.action_space)
        self.metadata["render_fps"] = round(1 / self.task.control_dt)  # type: ignore[assignment]

    def seed(self, seed: int | None = None) -> Sequence[int | None]:
        """Have the batch begin with this seed at the next reset; a random one if it is None."""
        self._seed = int(np.random.default_rng().integers(2**32)) if seed is None else int(seed)
        return [self._seed] * self.num_envs

    def reset(self) -> Array:
        """Begin all environments: with a seed given since the last reset, else the next episode."""
        if self._seed is not None or not self._begun:
            observation = self.batch.reset(seed=self._seed)
        else:
            everything = torch.ones(self.num_envs, dtype=torch.bool)
            observation = self.batch.reset(mask=everything)
        self._seed, self._begun = None, True
        self._reset_options()
        return to_array(observation)

    def step_async(self, actions: Array) -> None:
        """Take the actions of the next step."""
        self._actions = to_tensor(actions)

    def step_wait(self) -> VecEnvStepReturn:
        """Make the step."""
        if self._actions is None:
            raise RuntimeError("there are no actions to step with; call step_async first")
        step = self.last_step = self.batch.step(self._actions)
        self._actions = None
        done = to_array(step.done)
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        if done.any():
            self._tell_endings(step, np.flatnonzero(done), infos)
        return to_array(step.observation), to_array(step.reward), done, infos

    def _tell_endings(self, step: Step, places: Array, infos: list[dict[str, Any]]) -> None:
        """Fill the infos of the environments that ended."""
        index = torch.from_numpy(places).to(self.task.device)
        last = to_array(self.batch.final_observation(index))
        truncated = step.truncated[index].tolist()
        lengths = step.episode_length[index].tolist()
        returns = step.episode_return[index].tolist()
        values = {name: value[index].tolist() for name, value in told(step).items()}
        names, rows = tuple(values), zip(*values.values(), strict=True)
        now = round(time.monotonic() - self._began, 6)
        for place, seen, late, length, earned, row in zip(
            places.tolist(), last, truncated, lengths, returns, rows, strict=True
        ):
            infos[place] = dict(zip(names, row, strict=True)) | {
                "terminal_observation": seen.copy(),
                "TimeLimit.truncated": late,
                "episode": {"r": round(earned, 6), "l": length, "t": now},
            }

    # --- what SB3 asks of single environments --------------------------------------------------

    def close(self) -> None:
        """Let go of what the task holds outside this process."""
        self.task.close()

    def get_images(self) -> Sequence[Array | None]:
        """A picture of each environment as it is now."""
        if self.render_mode is None:
            return [None] * self.num_envs
        return [draw(self.task, self.batch.world, place) for place in range(self.num_envs)]

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        """An attribute of this object or of the task, which all environments share."""
        owner = self if attr_name in vars(self) else self.task
        return [getattr(owner, attr_name) for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        """Refused: environments of a batch share one task and have no attributes of their own."""
        raise AttributeError(
            f"cannot set {attr_name!r}: the environments of a batch share one task; "
            "make the task with other settings"
        )

    def env_method(
        self,
        method_name: str,
        *method_args: Any,
        indices: VecEnvIndices = None,
        **method_kwargs: Any,
    ) -> list[Any]:
        """A method of the task, called once for each environment asked for."""
        method = getattr(self.task, method_name)
        return [method(*method_args, **method_kwargs) for _ in self._get_indices(indices)]

    def env_is_wrapped(
        self, wrapper_class: type[gym.Wrapper], indices: VecEnvIndices = None
    ) -> list[bool]:
        """True for `Monitor`, whose records are there; nothing else is wrapped around anything."""
        return [issubclass(wrapper_class, Monitor) for _ in self._get_indices(indices)]
