"""How fast the simulator is, here and now.

Every figure is the whole step of a task through the tensor interface: vehicle, projection on the road,
reward, endings, new beginnings and what is seen. Gymnasium's CarRacing-v3 is measured in the same run,
so that figures from different machines can be compared as ratios.
"""

import os
import shutil
import time
from collections.abc import Callable
from typing import Any

import torch

from hotlap.config.commands import BenchSimConfig
from hotlap.config.naming import nearest
from hotlap.config.sensors import CameraConfig
from hotlap.tasks.batch import BatchEnv
from hotlap.tasks.registry import make_task
from hotlap.tasks.task import Task

SMALL = CameraConfig(width=84, height=84, colour=False)
MEASURES: dict[str, tuple[str, dict[str, Any]]] = {
    "physics_steps_per_s": ("donkey-telemetry", {}),
    "camera_fps_160x120x3": ("donkey", {}),
    "camera_fps_84x84x1": ("donkey", {"camera": SMALL}),
    "lidar_fps": ("donkey-lidar", {}),
}
BATCHES = {
    "cpu": {"physics_steps_per_s": 4096, "lidar_fps": 512, "camera_fps_160x120x3": 64, "camera_fps_84x84x1": 256},
    "cuda": {"physics_steps_per_s": 65536, "lidar_fps": 16384, "camera_fps_160x120x3": 8192, "camera_fps_84x84x1": 16384},
}  # fmt: skip


def bench_sim(config: BenchSimConfig) -> dict[str, Any]:
    """Measure, print a line for each figure, and return them all."""
    device = _device(config.device)
    compiled = _compiled(config.compiled, device)
    torch.set_num_threads(1)
    baseline = carracing_fps(config.seconds)
    rates: dict[str, dict[int, float]] = {}
    for measure in _chosen(config.measures):
        name, settings = MEASURES[measure]
        rates[measure] = {}
        for asked in config.batch:
            batch = asked or BATCHES[device.type][measure]
            task = make_task(name, device, compiled, tracks=config.tracks, **settings)
            rate = steps_per_second(task, batch, config.seconds)
            ratio = f"  {rate / baseline:8.0f} x CarRacing-v3" if baseline else ""
            print(f"{measure:24s} batch {batch:6d}  {rate:14,.0f} /s{ratio}", flush=True)
            rates[measure][batch] = round(rate, 1)
    if baseline is not None:
        print(f"{'carracing_v3_fps':24s} {baseline:29,.1f} /s")
    best = {measure: max(found, key=lambda b: found[b]) for measure, found in rates.items()}
    return {
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "threads": torch.get_num_threads(),
        "compiled": compiled,
        "batch": best if len(set(best.values())) > 1 else next(iter(best.values())),
        **{measure: rates[measure][best[measure]] if measure in rates else None for measure in MEASURES},
        "carracing_v3_fps": None if baseline is None else round(baseline, 1),
        "by_batch": rates,
    }


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
        return device.type == "cuda" or any(shutil.which(name) for name in ("g++", "clang++", "c++"))
    return choice == "on"


def steps_per_second(task: Task, batch: int, seconds: float) -> float:
    """Environment steps per second of a task under random steering and gentle throttle."""
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

    return batch * rate(turn, seconds)


def rate(turn: Callable[[int], None], seconds: float) -> float:
    """Calls per second of `turn`, over at least `seconds` after a warm-up: the median of five parts."""
    turn(3)
    start = time.perf_counter()
    turn(3)
    once = (time.perf_counter() - start) / 3
    count = max(1, round(seconds / 5 / once))
    rates = []
    for _ in range(5):
        start = time.perf_counter()
        turn(count)
        rates.append(count / (time.perf_counter() - start))
    return sorted(rates)[2]


def carracing_fps(seconds: float) -> float | None:
    """Frames per second of Gymnasium's CarRacing-v3, or None where it is not installed."""
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

    frames = rate(turn, max(seconds, 2.0))
    env.close()
    return frames
