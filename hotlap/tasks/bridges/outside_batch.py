"""Batches of environments that live outside this process, begun one by one."""

from abc import abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from hotlap.tasks.batch import BatchEnv
from hotlap.tasks.task import State, Task


class OutsideTask(Task):
    """A task in environments of somebody else's."""

    @abstractmethod
    def begin_some(
        self, places: Sequence[int], seed: int | Tensor, who: Tensor, episode: Tensor
    ) -> State:
        """Begin those in some places (K,), with their identities and episodes (K,)."""


class OutsideBatch(BatchEnv):
    """A batch of them, for whatever takes a `BatchEnv`; arguments as there."""

    task: OutsideTask

    def __init__(
        self, task: OutsideTask, num_envs: int, seed: int = 0, who: Tensor | None = None
    ) -> None:
        super().__init__(task, num_envs, seed, who, captured=False)
        # One by one, on a GPU too: beginning an episode that nobody asked for takes its time.
        self._pass_on = self._play_and_begin_some

    def _next_episodes(self, ended: State, over: Tensor) -> State:
        who, episode = ended["who"][over], ended["episode"][over] + 1
        return {
            "who": who,
            "episode": episode,
            "clock": torch.zeros_like(who),
            "earned": torch.zeros_like(ended["earned"][over]),
            "world": self.task.begin_some(over.tolist(), self._seed, who, episode),
        }
