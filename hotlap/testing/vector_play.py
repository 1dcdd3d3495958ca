"""Playing a Gymnasium vector environment, again and again in the same way.

turn   what one call of `step` returned, copied before anything else happened
"""

from collections.abc import Callable, Sequence
from contextlib import closing
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from gymnasium.vector import AutoresetMode, VectorEnv

from hotlap.testing.contract import Array


@dataclass(frozen=True)
class Turn:
    """What `step` returned."""

    observation: Any
    reward: Array
    terminated: Array
    truncated: Array
    infos: dict[str, Any]

    @property
    def done(self) -> Array:
        """Which episodes ended, either way."""
        return self.terminated | self.truncated


@dataclass(frozen=True)
class Plan:
    """How an environment is made and driven; each check plays it from the start."""

    make_env: Callable[[], VectorEnv]
    seed: int
    actions: list[Any]

    def play(self, actions: Sequence[Any], seed: int | None = None) -> tuple[Any, list[Turn]]:
        """First observation and turns of a fresh environment."""
        with closing(self.make_env()) as env:
            first, _ = env.reset(seed=self.seed if seed is None else seed)
            return deepcopy(first), go_on(env, actions)


def go_on(env: VectorEnv, actions: Sequence[Any]) -> list[Turn]:
    """Step an environment; where it does not begin anew by itself, tell it to."""
    turns: list[Turn] = []
    manual = env.metadata["autoreset_mode"] is AutoresetMode.DISABLED
    for action in actions:
        if manual and turns and turns[-1].done.any():
            env.reset(options={"reset_mask": turns[-1].done.copy()})
        turns.append(Turn(*deepcopy(env.step(action))))
    return turns
