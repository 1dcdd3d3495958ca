"""One environment of any task, as a `gymnasium.Env`."""

from typing import Any

import gymnasium as gym
import torch

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
from hotlap.tasks.batch import BatchEnv
from hotlap.tasks.task import State, Task, map_tree


class GymEnv(gym.Env[Array, Array]):
    """One environment.

    `reset(seed=s)` decides everything that follows, in this object or any other: it is the same
    environment as the one `GymVectorEnv` gives the seed s, and where there are several tracks, s
    modulo their number says which. `reset()` goes on to that environment's next episode; where no
    seed was ever given, one is drawn.

    Args:
        task: A task, or the name of one.
        render_mode: None, or "rgb_array" for pictures from `render`.
        **settings: Settings of the named task, its `device` and whether it is `compiled`.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 20}  # noqa: RUF012

    def __init__(self, task: Task | str, render_mode: str | None = None, **settings: Any) -> None:
        self.task = single_seat_task(task, "GymEnv", **settings)
        self.render_mode = check_render_mode(render_mode)
        self.metadata = {
            "render_modes": ["rgb_array"],
            "render_fps": round(1 / self.task.control_dt),
        }
        self.observation_space = self.task.observation_space
        self.action_space = self.task.action_space
        self.batch = BatchEnv(self.task, 1, BATCH_SEED)
        self._seeded = False
        self._over = False
        self._next: Array | None = None  # first observation of an episode not yet asked for
        self._shown: State = {}  # the world that `render` draws

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Begin an episode: the first of `seed`, or without one the next. There are no options."""
        super().reset(seed=seed)
        if options:
            raise ValueError(
                f"reset takes no options, got {', '.join(options)}; "
                "settings of a task are given where it is made"
            )
        if seed is None and not self._seeded:
            seed = int(self.np_random.integers(2**62))
        if seed is not None:
            self.batch.who = torch.tensor([as_identity(seed)], device=self.task.device)
            observation = to_array(self.batch.reset())[0]
        elif self._next is not None:
            # The batch has begun the next episode by itself.
            observation = self._next
        else:
            everything = torch.ones(1, dtype=torch.bool)
            observation = to_array(self.batch.reset(mask=everything))[0]
        self._seeded, self._over, self._next = True, False, None
        self._shown = self.batch.world
        return observation, {}

    def step(self, action: Array) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """One control step; what it tells beside its reward is in the info."""
        if self._over:
            raise RuntimeError("the episode has ended; call reset before the next step")
        if self.render_mode is not None:
            # A copy: on a GPU the next step is written over this one.
            self._shown = map_tree(torch.clone, self.batch.world)
        step = self.batch.step(to_tensor(action).unsqueeze(0))
        observation = to_array(step.observation)[0]
        info = {name: _plain(to_array(value)[0]) for name, value in told(step).items()}
        terminated, truncated = bool(step.terminated), bool(step.truncated)
        self._over = terminated or truncated
        if self._over:
            first = torch.zeros(1, dtype=torch.int64, device=self.task.device)
            self._next = observation
            observation = to_array(self.batch.final_observation(first))[0]
        else:
            self._shown = self.batch.world
        return observation, float(step.reward), terminated, truncated, info

    def render(self) -> Array | None:  # type: ignore[override]
        """The camera's picture where the task has one, else the scene from above.

        After the end of an episode it is the scene one step earlier: the batch is in the next one.
        """
        if self.render_mode is None:
            return None
        return draw(self.task, self._shown, 0)


def _plain(value: Any) -> Any:
    """A number as Python has it; an array as it is."""
    return value.item() if value.ndim == 0 else value
