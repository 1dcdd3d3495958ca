"""Every task by name."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import torch

from hotlap.config.carracing import CarRacingConfig
from hotlap.config.naming import nearest
from hotlap.config.tasks import DonkeyConfig, TagConfig
from hotlap.tasks.carracing import CarRacingTask
from hotlap.tasks.donkey import DonkeyTask
from hotlap.tasks.tag import TagTask
from hotlap.tasks.task import Task


@dataclass(frozen=True)
class Entry:
    """A named task: the settings it takes, what is set before the user's own, and who builds it."""

    config: type
    build: Callable[..., Task]
    preset: dict[str, Any]


TASKS: dict[str, Entry] = {
    "donkey": Entry(DonkeyConfig, DonkeyTask, {}),
    "donkey-lidar": Entry(DonkeyConfig, DonkeyTask, {"sensor": "lidar"}),
    "donkey-telemetry": Entry(DonkeyConfig, DonkeyTask, {"sensor": "telemetry"}),
    "donkey-state": Entry(DonkeyConfig, DonkeyTask, {"sensor": "state"}),
    "carracing": Entry(CarRacingConfig, CarRacingTask, {}),
    "tag": Entry(TagConfig, TagTask, {}),
}


def find_task(name: str) -> Entry:
    """The entry of the task called `name`."""
    if name not in TASKS:
        raise KeyError(nearest(name, TASKS, "task"))
    return TASKS[name]


def make_task(
    name: str, device: torch.device | str = "cpu", compiled: bool = False, **settings: Any
) -> Task:
    """Build a task by name, with settings by field name in place of its defaults."""
    entry = find_task(name)
    known = [field.name for field in fields(entry.config)]
    for setting in settings:
        if setting not in known:
            raise ValueError(nearest(setting, known, f"setting of task {name}"))
    return entry.build(entry.config(**(entry.preset | settings)), device, compiled)
