"""Environments of a run: one way to build them, for training and for judging alike."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import gymnasium as gym
from torch import Tensor

from hotlap.config.bridges import SCENES
from hotlap.config.carracing import CarRacingConfig
from hotlap.config.naming import nearest
from hotlap.config.runs import RunConfig
from hotlap.config.tasks import DonkeyConfig
from hotlap.learning.batches import gym_envs
from hotlap.sim.carracing import catalogue as tile_catalogue
from hotlap.sim.tracks.selection import chosen_tracks, expand, refuse_kept_apart, some_of
from hotlap.tasks.adapters.sb3_vec import SB3VecEnv
from hotlap.tasks.batch import BatchEnv
from hotlap.tasks.bridges.carracing import CarRacingBatch, CarRacingBridge
from hotlap.tasks.bridges.wire_batch import WireBatch, WireTask
from hotlap.tasks.carracing import CarRacingTask
from hotlap.tasks.donkey import DonkeyTask
from hotlap.tasks.interface import Interface
from hotlap.tasks.registry import TASKS, find_task
from hotlap.tasks.task import Task

AT_ONCE = {"cpu": 64, "cuda": 1024}
"""Most episodes that are judged together in this process, by the kind of device."""
REAL_AT_ONCE = 64
"""Most that are in the real CarRacing; they are shared out among the cores."""


def make_task_of(config: RunConfig, **changed: Any) -> Task:
    """The task of a run, with some of its settings changed."""
    entry = find_task(config.task)
    assert config.settings is not None
    settings = replace(config.settings, **changed)
    return entry.build(settings, config.device, config.compiled)


def make_training_env(config: RunConfig) -> Any:
    """What a run's learner trains in."""
    if config.settings is None:
        return gym_envs(config.task, config.agent.envs)
    refuse_judged_tracks(config)
    if config.bridge is not None:
        return _make_wire_env(config)
    if isinstance(config.settings, CarRacingConfig) and config.settings.outside:
        return _make_real_env(config, config.settings)
    task = make_task_of(config)
    if isinstance(task, DonkeyTask) and len(task.roads.tracks) > config.agent.envs:
        task.draw_tracks()  # evenly, episode by episode: one each would leave the last without cars
    if isinstance(task, CarRacingTask):
        task.draw_tracks()
    batch = BatchEnv(task, config.agent.envs, seed=config.seed, borrow=True, captured=True)
    return SB3VecEnv(Interface(batch, config.interface))


def _make_wire_env(config: RunConfig) -> SB3VecEnv:
    """Cars in simulators over the wire; one that is not there is told of here."""
    assert isinstance(config.settings, DonkeyConfig) and config.bridge is not None
    task = WireTask(config.settings, config.bridge, config.device)
    batch = WireBatch(task, len(task.cars), seed=config.seed)
    env = SB3VecEnv(Interface(batch, config.interface))
    try:
        env.reset()
    except BaseException:
        env.close()
        raise
    return env


def _make_real_env(config: RunConfig, settings: CarRacingConfig) -> SB3VecEnv:
    """Cars of the real CarRacing; where it is not installed, that is told of here."""
    task = CarRacingBridge(settings, config.agent.envs, config.device)
    try:
        task.draw_tracks()
        batch = CarRacingBatch(task, config.agent.envs, seed=config.seed)
        return SB3VecEnv(Interface(batch, config.interface))
    except BaseException:
        task.close()
        raise


def judge_same_cars(
    config: RunConfig, cars: WireTask, **changed: Any
) -> Callable[[int, Tensor, int], Interface]:
    """Builds what a run over the wire is judged in: the cars that it trains with."""
    task = WireTask(replace(cars.config, **changed), cars.bridge, cars.device, cars.cars)
    task.waits = cars.waits

    def make(num_envs: int, who: Tensor, seed: int) -> Interface:
        return Interface(WireBatch(task, num_envs, seed, who), config.interface)

    return make


def judged_at_once(config: RunConfig) -> int:
    """Most episodes that are judged together."""
    if config.bridge is not None:
        return len(config.bridge.addresses)
    if isinstance(config.settings, CarRacingConfig) and config.settings.outside:
        return REAL_AT_ONCE
    return AT_ONCE[config.device.partition(":")[0]]


def make_judged_env(config: RunConfig, **changed: Any) -> Callable[[int, Tensor, int], Interface]:
    """Builds what a run's policies are judged in; the last one built is kept for the next time."""
    settings = config.settings
    if isinstance(settings, CarRacingConfig) and settings.outside:
        return RealCars(config, replace(settings, **changed))
    kept: dict[Any, Interface] = {}

    def make(num_envs: int, who: Tensor, seed: int) -> Interface:
        key = (num_envs, tuple(who.tolist()), seed)
        if key not in kept:
            kept.clear()
            # Compiling for another number of environments takes longer than a judgement does.
            task = make_task_of(replace(config, compiled=False), **changed)
            batch = BatchEnv(task, num_envs, seed, who, captured=config.device != "cpu")
            kept[key] = Interface(batch, config.interface)
        return kept[key]

    return make


class RealCars:
    """Builds environments of the real CarRacing; processes are kept as long as their number fits.

    Args:
        config: The run whose policies are judged.
        settings: What they are judged in.
    """

    def __init__(self, config: RunConfig, settings: CarRacingConfig) -> None:
        self._config, self._settings = config, settings
        self._task: CarRacingBridge | None = None

    def __call__(self, num_envs: int, who: Tensor, seed: int) -> Interface:
        """So many of them, with these identities (B,)."""
        if self._task is None or self._task.cars.num_envs != num_envs:
            self.close()
            self._task = CarRacingBridge(self._settings, num_envs, self._config.device)
        batch = CarRacingBatch(self._task, num_envs, seed, who)
        return Interface(batch, self._config.interface)

    def close(self) -> None:
        """End the processes."""
        if self._task is not None:
            self._task.close()
            self._task = None


def tracks_of(config: RunConfig) -> tuple[str, ...]:
    """The tracks of a run, every one of them by name; none where its task has none."""
    if isinstance(config.settings, CarRacingConfig):
        return tile_catalogue.expand(track_words(config))
    return expand(track_words(config))


def track_words(config: RunConfig) -> tuple[str, ...]:
    """The same as its settings have them: names, ranges and words."""
    settings = config.settings
    return settings.tracks if isinstance(settings, DonkeyConfig | CarRacingConfig) else ()


def judged_tracks(config: RunConfig, episodes: int) -> tuple[str, ...]:
    """Tracks that a run is judged on; if they are many, as many as episodes."""
    own = track_words(config)
    words = config.evaluation.tracks or own if own else ()
    if isinstance(config.settings, CarRacingConfig):
        return some_of(tuple(dict.fromkeys(tile_catalogue.expand(words))), episodes)
    return some_of(chosen_tracks(words), episodes)


def refuse_judged_tracks(config: RunConfig) -> None:
    """Stop where a run would train on tracks that are for judging only."""
    if isinstance(config.settings, CarRacingConfig):
        tile_catalogue.refuse_held_out(track_words(config))
    else:
        refuse_kept_apart(tracks_of(config))


def known_tasks() -> dict[str, tuple[type, dict[str, Any]]]:
    """Class of settings and preset values of every task by its name."""
    return {name: (entry.config, entry.preset) for name, entry in TASKS.items()}


def refuse_unknown(task: str, trust: bool = False) -> None:
    """Stop where a task is neither ours nor Gymnasium's, or would import something unasked."""
    if ":" in task:
        if not trust:
            raise ValueError(f"{task} imports a module, which can run any code; say --trust")
        return
    if task not in gym.registry:
        names = [*TASKS, *SCENES, *(name for name in gym.registry if not name.startswith("phys2d"))]
        raise KeyError(nearest(task, names, "task"))
