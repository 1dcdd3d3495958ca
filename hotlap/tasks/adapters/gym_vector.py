"""Many environments of any task, as a `gymnasium.vector.VectorEnv`."""

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from hotlap.tasks.adapters.arrays import (
    BATCH_SEED,
    Array,
    as_identity,
    check_render_mode,
    single_seat_task,
    to_array,
    to_tensor,
    told,
)
from hotlap.tasks.adapters.picture import draw
from hotlap.tasks.batch import BatchEnv, Step
from hotlap.tasks.task import Task, map_tree

Seeds = int | Sequence[int | None] | None


class GymVectorEnv(gym.vector.VectorEnv[Array, Array, Array]):
    """A batch that begins ended environments anew within the same step (`SAME_STEP`).

    The last observation of an ended episode is in `infos["final_obs"]`, what its last step told in
    `infos["final_info"]`. A seed s stands for s, s + 1, s + 2, ...; each is the environment that
    `GymEnv` gives that seed. Trainings whose seeds are nearer than `num_envs` share environments.

    Args:
        task: A task, or the name of one.
        num_envs: How many.
        render_mode: None, or "rgb_array" for pictures from `render`.
        **settings: Settings of the named task, its `device` and whether it is `compiled`.
    """

    def __init__(
        self,
        task: Task | str,
        num_envs: int = 1,
        render_mode: str | None = None,
        **settings: Any,
    ) -> None:
        self.task = single_seat_task(task, "GymVectorEnv", **settings)
        self.num_envs = num_envs
        self.render_mode = check_render_mode(render_mode)
        self.metadata = {
            "render_modes": ["rgb_array"],
            "render_fps": round(1 / self.task.control_dt),
            "autoreset_mode": AutoresetMode.SAME_STEP,
        }
        self.single_observation_space = self.task.observation_space
        self.single_action_space = self.task.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.batch = BatchEnv(self.task, num_envs, BATCH_SEED)
        self._begun = False

    # --- beginning -----------------------------------------------------------------------------

    def reset(  # type: ignore[override]
        self, *, seed: Seeds = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Begin episodes: the first of a seed where one is given, else the next.

        Args:
            seed: One number, one for each environment (None among them: no seed), or None.
            options: `reset_mask` (num_envs,) bool chooses which environments begin; others go on.
        """
        seeds = self._spread(seed)
        given = [value for value in seeds if value is not None]
        super().reset(seed=given[0] if given else None)
        mask = self._read_mask(options)
        if not self._begun and mask.all():
            drawn = self.np_random.integers(2**62, size=self.num_envs)
            seeds = [int(d) if s is None else s for s, d in zip(seeds, drawn, strict=True)]
        seeded = np.array([value is not None for value in seeds])
        if mask.all() and seeded.all():
            self.batch.who = self._identities(seeds)
            observation = self.batch.reset()
        else:
            observation = self.batch.reset(mask=torch.from_numpy(mask & ~seeded))
            if (mask & seeded).any():
                observation = self._replace(np.flatnonzero(mask & seeded), seeds)
        self._begun = True
        return to_array(observation), {}

    def _spread(self, seed: Seeds) -> list[int | None]:
        """A seed, or None, for each environment."""
        if seed is None:
            return [None] * self.num_envs
        if isinstance(seed, int | np.integer):
            return [int(seed) + place for place in range(self.num_envs)]
        if len(seed) != self.num_envs:
            raise ValueError(f"{self.num_envs} environments need as many seeds, got {len(seed)}")
        return list(seed)

    def _identities(self, seeds: Sequence[int | None]) -> torch.Tensor:
        numbers = [as_identity(seed) for seed in seeds if seed is not None]
        return torch.tensor(numbers, dtype=torch.int64, device=self.task.device)

    def _read_mask(self, options: dict[str, Any] | None) -> Array:
        """Which environments begin."""
        unknown = set(options or {}) - {"reset_mask"}
        if unknown:
            raise ValueError(
                f"unknown option {sorted(unknown)[0]!r}; reset takes only 'reset_mask'"
            )
        mask = (options or {}).get("reset_mask")
        if mask is None:
            return np.ones(self.num_envs, dtype=np.bool_)
        if getattr(mask, "dtype", None) != np.bool_ or mask.shape != (self.num_envs,):
            raise ValueError(
                f"reset_mask must be a bool array of shape ({self.num_envs},), got "
                f"{getattr(mask, 'dtype', type(mask).__name__)} of shape {np.shape(mask)}"
            )
        return np.array(mask)

    def _replace(self, places: Array, seeds: Sequence[int | None]) -> torch.Tensor:
        """Put the first episodes of other seeds in some places; the observation of all."""
        who = self._identities([seeds[place] for place in places])
        newcomers = BatchEnv(self.task, len(places), self.batch.seed, who)
        newcomers.reset()
        index = torch.from_numpy(places).to(self.task.device)
        saved = self.batch.save_state()
        saved["envs"] = map_tree(
            lambda old, new: old.index_copy(0, index, new),
            saved["envs"],
            newcomers.save_state()["envs"],
        )
        return self.batch.load_state(saved)

    # --- stepping ------------------------------------------------------------------------------

    def step(self, actions: Array) -> tuple[Array, Array, Array, Array, dict[str, Any]]:
        """One control step of all."""
        step = self.batch.step(to_tensor(actions))
        terminated, truncated = to_array(step.terminated), to_array(step.truncated)
        return (
            to_array(step.observation),
            to_array(step.reward).astype(np.float64),
            terminated,
            truncated,
            self._infos(step, terminated | truncated),
        )

    def _infos(self, step: Step, done: Array) -> dict[str, Any]:
        """What the step told, each `key` beside `_key`, the mask of those it is told of.

        What ended tells in `final_info`: its place is for the new episode, which has told nothing.
        """
        arrays = {name: to_array(value) for name, value in told(step).items()}
        if not done.any():
            return _with_masks(arrays, np.ones_like(done))
        places = np.flatnonzero(done)
        last = to_array(self.batch.final_observation(torch.from_numpy(places).to(self.task.device)))
        final_obs = np.full(self.num_envs, None, dtype=object)
        for place, seen in zip(places, last, strict=True):
            final_obs[place] = seen.copy()
        ended = {name: np.zeros_like(values) for name, values in arrays.items()}
        for name, values in arrays.items():
            ended[name][places] = values[places]
            values[places] = 0
        return _with_masks(arrays, ~done) | {
            "final_obs": final_obs,
            "_final_obs": done.copy(),
            "final_info": _with_masks(ended, done),
            "_final_info": done.copy(),
        }

    def render(self) -> tuple[Array, ...] | None:
        """A picture of each environment as it is now."""
        if self.render_mode is None:
            return None
        return tuple(draw(self.task, self.batch.world, place) for place in range(self.num_envs))


def _with_masks(arrays: dict[str, Array], mask: Array) -> dict[str, Any]:
    """Arrays by name, each with a mask of its own."""
    return arrays | {f"_{name}": mask.copy() for name in arrays}
