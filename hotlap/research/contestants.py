"""Whoever can drive on a road and be judged there: models, zips and scripted drivers."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from gymnasium import spaces
from torch import Tensor

from hotlap.config.interface import InterfaceConfig
from hotlap.config.naming import nearest
from hotlap.config.presets import load_preset
from hotlap.config.tasks import DonkeyConfig
from hotlap.evaluation.first_episodes import Env, Policy
from hotlap.evaluation.judge import MakeEnv
from hotlap.learning.driver import refuse_other_shape
from hotlap.research.models import Model, open_model
from hotlap.research.worlds import track_words
from hotlap.sim.tracks.selection import expand
from hotlap.tasks.batch import BatchEnv
from hotlap.tasks.donkey import DonkeyTask
from hotlap.tasks.drivers import DRIVERS, make_driver
from hotlap.tasks.interface import Interface
from hotlap.tasks.registry import TASKS

SCRIPTED = "scripted:"
ZIP_PRESET = "donkey/default"
"""What a zip is judged with, unless told otherwise."""
ROAD_TASKS = tuple(name for name, entry in TASKS.items() if entry.config is DonkeyConfig)


@dataclass(frozen=True)
class Contestant:
    """Someone who drives."""

    name: str
    settings: DonkeyConfig
    """How it sees and may act; tracks, start and time are set by whoever judges it."""
    trained_on: frozenset[str] | None
    """Tracks it was trained on; none where nobody knows, or nobody trained."""
    reward: str
    """What its judged episodes count."""
    enter: Callable[[DonkeyConfig], tuple[Policy, MakeEnv]]
    """From settings to who drives, and what builds the environments it drives in."""


def contestant_of(
    model: Model,
    device: str = "cpu",
    deterministic: bool = True,
    task: str = "donkey",
    preset: str | None = None,
) -> Contestant:
    """A model, or a zip, as someone who drives.

    Args:
        model: Which.
        device: Where it drives.
        deterministic: Take the best action instead of drawing one.
        task: What a zip was trained on, as it does not say so itself.
        preset: Settings of that task; none takes `ZIP_PRESET`.
    """
    if model.run is None:
        return zipped(model, device, deterministic, task, preset)
    if not isinstance(model.run.settings, DonkeyConfig):
        raise ValueError(f"{model.name} was not trained on a road; it cannot drive on one")
    return trained(model, device, deterministic)


def scripted(name: str) -> Contestant:
    """A scripted driver; `name` is `scripted:NAME`."""
    own = name.removeprefix(SCRIPTED)
    if own not in DRIVERS:
        raise KeyError(nearest(own, DRIVERS, "driver"))

    def enter(settings: DonkeyConfig) -> tuple[Policy, MakeEnv]:
        task = DonkeyTask(settings)
        driver = make_driver(own, task)
        batch: list[BatchEnv] = []

        def make(num_envs: int, who: Tensor, seed: int) -> Env:
            batch[:] = [BatchEnv(task, num_envs, seed, who)]
            return batch[0]

        return lambda _: driver(batch[0].world), make

    low = -1.0 if own == "racing_line" else 0.0
    settings = DonkeyConfig(sensor="telemetry", throttle_min=low)
    return Contestant(name, settings, None, settings.reward, enter)


def trained(model: Model, device: str, deterministic: bool) -> Contestant:
    """A model that was trained here, on a road."""
    run = model.run
    assert run is not None and isinstance(run.settings, DonkeyConfig)
    return Contestant(
        name=model.name,
        settings=run.settings,
        trained_on=frozenset(tracks_ever(model)),
        reward=run.evaluation.reward or run.settings.reward,
        enter=_entry(model, run.interface, device, deterministic),
    )


def words_before(model: Model) -> list[str]:
    """Words for the tracks of the models that one began with, as far as they are known."""
    found: dict[str, None] = {}
    opened: set[str] = set()
    while model.before is None and model.run is not None and model.run.init_from is not None:
        source = model.run.init_from
        if source in opened:
            break
        opened.add(source)
        try:
            model = open_model(source)
        except (OSError, ValueError):
            print(f"it began with {source}, of whose tracks nothing is known", flush=True)
            break
        if model.run is not None:
            found |= dict.fromkeys(track_words(model.run))
    return list(found | dict.fromkeys(model.before or ()))


def tracks_ever(model: Model) -> set[str]:
    """Tracks that a model was trained on, and those of the models whose weights it began with."""
    own = () if model.run is None else track_words(model.run)
    return {name for word in (*own, *words_before(model)) for name in expand([word])}


def _entry(
    model: Model, interface: InterfaceConfig, device: str, deterministic: bool
) -> Callable[[DonkeyConfig], tuple[Policy, MakeEnv]]:
    def enter(settings: DonkeyConfig) -> tuple[Policy, MakeEnv]:
        task = DonkeyTask(settings, device)

        def make(num_envs: int, who: Tensor, seed: int) -> Env:
            return Interface(BatchEnv(task, num_envs, seed, who), interface)

        return model.driver(deterministic), make

    return enter


def zipped(
    model: Model, device: str, deterministic: bool, task: str, preset: str | None = None
) -> Contestant:
    """A zip, on the task that it is said to be from; refused where it does not fit."""
    if task not in ROAD_TASKS:
        raise KeyError(nearest(task, ROAD_TASKS, "task on a road"))
    settings = replace(load_preset(DonkeyConfig, preset or ZIP_PRESET), **TASKS[task].preset)
    seen = DonkeyTask(settings).observation_space
    stack = _stack(tuple(model.seen.shape or ()), seen.shape)
    acts = model.policy.action_space
    if not isinstance(acts, spaces.Box) or acts.shape != (2,):
        raise ValueError(
            f"{model.name} acts in {acts}, a car takes steering and throttle; "
            "name the folder that the zip lies in, which says what its actions mean"
        )
    low, high = (float(end[1]) for end in (acts.low, acts.high))
    settings = replace(
        settings, throttle_min=low, throttle_max=high, steer_limit=float(acts.high[0])
    )
    enter = _entry(model, InterfaceConfig(stack=stack), device, deterministic)
    return Contestant(model.name, settings, None, settings.reward, enter)


def _stack(learned: tuple[int, ...], seen: tuple[int, ...]) -> int:
    """How many observations a model sees at once."""
    fits = len(learned) == len(seen) and learned[:-1] == seen[:-1] and not learned[-1] % seen[-1]
    if not fits:
        refuse_other_shape(learned, seen)
    return learned[-1] // seen[-1]
