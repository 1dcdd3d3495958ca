"""How fast the simulator is, here and now.

Every figure is the whole step of a task through the tensor interface: vehicle, projection on the
road, reward, endings, new beginnings and what is seen. Gymnasium's CarRacing-v3 is measured in the
same run, in turns with the others, because a shared machine is faster in one minute than in the
next: ratios of medians over the rounds hold where absolute figures do not.
"""

import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

from hotlap.config.commands import BenchSimConfig
from hotlap.config.naming import nearest
from hotlap.config.sensors import CameraConfig
from hotlap.tasks.batch import BatchEnv
from hotlap.tasks.devices import has_compiler
from hotlap.tasks.registry import make_task
from hotlap.tasks.task import Task

BASELINE = "CarRacing-v3"
SMALL = CameraConfig(width=84, height=84, colour=False)
MEASURES: dict[str, tuple[str, dict[str, Any]]] = {
    "physics_steps_per_s": ("donkey-telemetry", {}),
    "camera_fps_160x120x3": ("donkey", {}),
    "camera_fps_84x84x1": ("donkey", {"camera": SMALL}),
    "lidar_fps": ("donkey-lidar", {}),
}
BATCHES = {
    "physics_steps_per_s": {"cpu": 8192, "cuda": 65536},
    "camera_fps_160x120x3": {"cpu": 384, "cuda": 8192},
    "camera_fps_84x84x1": {"cpu": 512, "cuda": 16384},
    "lidar_fps": {"cpu": 512, "cuda": 16384},
}
"""Batches that each kind of device is fast with."""


ROUNDS = 7
Turn = Callable[[int], None]
"""Makes a number of steps."""


def bench_sim(config: BenchSimConfig) -> dict[str, Any]:
    """Measure, print a line for each figure, and return them all."""
    device = _device(config.device)
    compiled = _compiled(config.compiled, device)
    torch.set_num_threads(1)
    turns: dict[tuple[str, int], Turn] = {}
    for measure in _chosen(config.measures):
        name, settings = MEASURES[measure]
        for asked in config.batch:
            batch = asked or BATCHES[measure][device.type]
            task = make_task(name, device, compiled, tracks=config.tracks, **settings)
            turns[measure, batch] = make_turn(task, batch)
    if (baseline := carracing_turn()) is not None:
        turns[BASELINE, 1] = baseline
    rates = {key: key[1] * rate for key, rate in rates_in_turns(turns, config.seconds).items()}
    frames = rates.get((BASELINE, 1))
    for (measure, batch), rate in rates.items():
        ratio = f"  {rate / frames:8.1f} x {BASELINE}" if frames else ""
        print(f"{measure:24s} batch {batch:6d}  {rate:14,.0f} /s{ratio}", flush=True)
    found = {m: {b: round(r, 1) for (k, b), r in rates.items() if k == m} for m in MEASURES}
    best = {
        m: max(by_batch, key=lambda b: by_batch[b]) for m, by_batch in found.items() if by_batch
    }
    return {
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "threads": torch.get_num_threads(),
        "compiled": compiled,
        "batch": best if len(set(best.values())) > 1 else next(iter(best.values())),
        **{
            measure: found[measure][best[measure]] if measure in best else None
            for measure in MEASURES
        },
        "carracing_v3_fps": None if frames is None else round(frames, 1),
        "by_batch": {measure: by_batch for measure, by_batch in found.items() if by_batch},
    }


def rates_in_turns(turns: dict[Any, Turn], seconds: float) -> dict[Any, float]:
    """Steps per second of each, the median of ROUNDS rounds in which all take their turn."""
    counts = {}
    for key, turn in turns.items():
        turn(5)
        start = time.perf_counter()
        turn(3)
        counts[key] = max(1, round(seconds / ROUNDS / ((time.perf_counter() - start) / 3)))
    rates: dict[Any, list[float]] = {key: [] for key in turns}
    for _ in range(ROUNDS):
        for key, turn in turns.items():
            start = time.perf_counter()
            turn(counts[key])
            rates[key].append(counts[key] / (time.perf_counter() - start))
    return {key: statistics.median(found) for key, found in rates.items()}


def _chosen(names: tuple[str, ...]) -> list[str]:
    """The figures to take."""
    for name in names:
        if name not in MEASURES:
            raise KeyError(nearest(name, MEASURES, "measure"))
    return list(names or MEASURES)


def _device(name: str) -> torch.device:
    """The device asked for, refused if it is not there."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise RuntimeError(f"device {name} was asked for, but this PyTorch sees no GPU; try cpu")
    return torch.device(name)


def _compiled(choice: str, device: torch.device) -> bool:
    """Whether to compile: as told, or where a compiler is found."""
    if choice == "auto":
        return device.type == "cuda" or has_compiler()
    return choice == "on"


def make_turn(task: Task, batch: int) -> Turn:
    """Steps of a task under random steering and gentle throttle."""
    env = BatchEnv(task, batch)
    env.reset()
    generator = torch.Generator().manual_seed(0)
    draws = torch.rand(8, batch, 2, generator=generator) * torch.tensor([1.0, 0.4])
    actions = (draws - torch.tensor([0.5, 0.0])).to(task.device)

    def turn(count: int) -> None:
        for index in range(count):
            env.step(actions[index % len(actions)])
        if task.device.type == "cuda":
            torch.cuda.synchronize(task.device)

    return turn


def carracing_turn() -> Turn | None:
    """Steps of Gymnasium's CarRacing-v3, or None where it is not installed."""
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    import gymnasium as gym

    try:
        env = gym.make("CarRacing-v3", max_episode_steps=-1)
    except gym.error.DependencyNotInstalled:
        print("CarRacing-v3 is not installed: pip install hotlap[carracing] to compare with it")
        return None
    env.reset(seed=0)
    action = env.action_space.sample() * 0

    def turn(count: int) -> None:
        for _ in range(count):
            if env.step(action)[2]:
                env.reset()

    return turn
