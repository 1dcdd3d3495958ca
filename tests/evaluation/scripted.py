"""Scripted drivers as policies: they read the world instead of what they are shown."""

import torch
from torch import Tensor

from hotlap.config.interface import InterfaceConfig
from hotlap.tasks.batch import BatchEnv
from hotlap.tasks.donkey import DonkeyTask
from hotlap.tasks.drivers import make_driver
from hotlap.tasks.interface import Interface
from hotlap.tasks.registry import make_task
from hotlap.tasks.task import Task


class Scripted:
    """A scripted driver and the environments it drives in; `made` lists what was asked for."""

    def __init__(self, driver: str, tracks: tuple[str, ...], **settings: object) -> None:
        task = make_task("donkey-telemetry", tracks=tracks, throttle_min=-1.0, **settings)
        assert isinstance(task, DonkeyTask)
        self.task = task
        self.driver = make_driver(driver, task)
        self.made: list[tuple[int, list[int], int]] = []

    def make_env(self, num_envs: int, who: Tensor, seed: int) -> Interface:
        self.made.append((num_envs, who.tolist(), seed))
        self.env = interface(self.task, num_envs, who, seed)
        return self.env

    def __call__(self, observation: Tensor) -> Tensor:
        assert observation.shape[0] == self.env.num_envs
        return self.driver(self.env.world)


def interface(
    task: Task, num_envs: int, who: Tensor, seed: int, config: InterfaceConfig | None = None
) -> Interface:
    return Interface(BatchEnv(task, num_envs, seed, who), config or InterfaceConfig())


def always(*action: float) -> "Constant":
    return Constant(torch.tensor([action]))


class Constant:
    """The same action whatever is seen."""

    def __init__(self, action: Tensor) -> None:
        self.action = action

    def __call__(self, observation: Tensor) -> Tensor:
        return self.action.expand(len(observation), -1)
