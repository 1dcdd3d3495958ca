"""How fast the learners are, here and now, beside stock Stable-Baselines3.

Both train on the same task with the same net and the same settings, in turns (on a GPU ours compute
pictures in bfloat16, the stock learner in the float32 it comes with), because a shared
machine is faster in one minute than in the next. A figure is environment steps per second of
driving and learning together, or gradient updates per second; compiling is not in it and is told
apart.
"""

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import sb3_contrib
import stable_baselines3
import torch
from gymnasium import spaces
from stable_baselines3.common.buffers import ReplayBuffer

from hotlap.config.commands import BenchTrainConfig
from hotlap.config.interface import InterfaceConfig
from hotlap.config.learners import SACConfig, TQCConfig
from hotlap.config.naming import nearest
from hotlap.config.sensors import CameraConfig
from hotlap.learning.encoders import Nature
from hotlap.learning.policies import ActorCritic
from hotlap.learning.ppo import PPO
from hotlap.learning.sac import make_sac
from hotlap.learning.tqc import make_tqc
from hotlap.tasks.adapters.sb3_vec import SB3VecEnv
from hotlap.tasks.batch import BatchEnv
from hotlap.tasks.devices import choose_device, has_compiler
from hotlap.tasks.interface import Interface
from hotlap.tasks.registry import make_task

Turn = Callable[[], int]
"""Does some work, and tells how much."""
GRAY = CameraConfig(width=84, height=84, colour=False)
ROUNDS = 5
PPO_MEASURES: dict[str, dict[str, Any]] = {
    "ppo_telemetry": {
        "task": ("donkey-telemetry", {}), "epochs": 4,
        "cpu": (512, 16, 256), "cuda": (16384, 16, 16384),
    },
    "ppo_camera_84x84x1": {
        "task": ("donkey", {"camera": GRAY}), "epochs": 3,
        "cpu": (64, 8, 64), "cuda": (4096, 32, 16384),
    },
    "ppo_camera_160x120x3": {
        "task": ("donkey", {}), "epochs": 4,
        "cpu": (32, 8, 64), "cuda": (4096, 16, 8192),
    },
}  # fmt: skip
"""Of each: the task, and environments, steps and minibatch by kind of device."""
UPDATES: dict[str, tuple[Any, Any]] = {
    "sac_updates": (SACConfig, make_sac),
    "tqc_updates": (TQCConfig, make_tqc),
}
MEASURES = (*PPO_MEASURES, *UPDATES)
BATCH = 256
"""Samples of an update of SAC and TQC."""


def bench_train(config: BenchTrainConfig) -> dict[str, Any]:
    """Measure, print a line for each figure, and return them all."""
    torch.set_num_threads(config.threads)
    device, excuse = choose_device(config.device)
    if excuse:
        print(excuse, flush=True)
    compiled = config.compiled == "on" or (config.compiled == "auto" and has_compiler())
    found: dict[str, Any] = {}
    for name in _chosen(config.measures):
        began = time.perf_counter()
        if name in PPO_MEASURES:
            turns = _ppo_turns(name, device, compiled, config.stock_steps)
            unit = "steps"
        else:
            turns = _update_turns(name, device)
            unit = "updates"
        for turn in turns.values():
            turn()
        ready = time.perf_counter() - began
        rates = _rates(turns, config.seconds)
        ratio = rates["hotlap"] / rates["stock"]
        found[name] = {
            "hotlap": round(rates["hotlap"], 1),
            "stock": round(rates["stock"], 1),
            "ratio": round(ratio, 2),
            "seconds_until_ready": round(ready, 1),
        }
        print(
            f"{name:22s} {rates['hotlap']:12,.0f} {unit}/s   stock {rates['stock']:10,.0f}   "
            f"{ratio:6.2f} x   (ready after {ready:.0f} s)",
            flush=True,
        )
    where = torch.cuda.get_device_name() if device.startswith("cuda") else "cpu"
    return {"device": where, "threads": config.threads, "compiled": compiled, **found}


def _chosen(names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if name not in MEASURES:
            raise KeyError(nearest(name, MEASURES, "measure"))
    return names or MEASURES


def _rates(turns: dict[str, Turn], seconds: float) -> dict[str, float]:
    """Work per second of each: the median of rounds in which both take their turn."""
    found: dict[str, list[float]] = {name: [] for name in turns}
    for _ in range(ROUNDS):
        for name, turn in turns.items():
            amount, began = 0, time.perf_counter()
            while not amount or time.perf_counter() - began < seconds / ROUNDS:
                amount += turn()
            found[name].append(amount / (time.perf_counter() - began))
    return {name: statistics.median(rates) for name, rates in found.items()}


def _ppo_turns(name: str, device: str, compiled: bool, stock_steps: int) -> dict[str, Turn]:
    """Rollout and update of PPO, ours and stock."""
    measure = PPO_MEASURES[name]
    task_name, settings = measure["task"]
    envs, steps, minibatch = measure[device.partition(":")[0]]
    common = {"batch_size": minibatch, "n_epochs": measure["epochs"], "device": device, "seed": 0}

    def batch(borrow: bool) -> BatchEnv:
        task = make_task(task_name, device, compiled, start="random", **settings)
        return BatchEnv(task, envs, borrow=borrow)

    on_pictures = task_name == "donkey"
    stock_steps = min(steps, stock_steps or steps)
    # The stock learner gets the compiled simulator too: what is compared is the learner.
    stock = stable_baselines3.PPO(
        "CnnPolicy" if on_pictures else "MlpPolicy",
        SB3VecEnv(batch(False)), n_steps=stock_steps, **common,
    )  # fmt: skip
    net: dict[str, Any] = {"features_extractor_class": Nature} if on_pictures else {}
    ours = PPO(
        ActorCritic, SB3VecEnv(Interface(batch(True), InterfaceConfig())), n_steps=steps,
        policy_kwargs=net | {"net_arch": []} if on_pictures else None, compiled=compiled,
        precision="bfloat16" if on_pictures and device != "cpu" else "float32", **common,
    )  # fmt: skip

    def turn(learner: Any, amount: int) -> Turn:
        def work() -> int:
            learner.learn(amount, reset_num_timesteps=False)
            if device != "cpu":
                torch.cuda.synchronize()
            return amount

        return work

    return {"hotlap": turn(ours, envs * steps), "stock": turn(stock, envs * stock_steps)}


def _update_turns(name: str, device: str) -> dict[str, Turn]:
    """Gradient updates of SAC or TQC on telemetry, ours and stock, at one batch size and net."""
    kind, make = UPDATES[name]
    config = kind(layer_norm=False, replay_size=50_000, batch_size=BATCH, warm_up=0, envs=8)
    env = SB3VecEnv(
        Interface(BatchEnv(make_task("donkey-telemetry", device), 8), InterfaceConfig())
    )
    ours: Any = make(config, env, device, 0, 10**9)
    ours._setup_learn(10**9)
    seen, actions = env.observation_space, env.action_space
    stock_class: Any = stable_baselines3.SAC if name == "sac_updates" else sb3_contrib.TQC
    stock = stock_class(
        "MlpPolicy", SB3VecEnv(BatchEnv(make_task("donkey-telemetry"), 8)), device=device,
        batch_size=BATCH, buffer_size=50_000, policy_kwargs={"net_arch": [256, 256]}, seed=0,
    )  # fmt: skip
    stock._setup_learn(10**9)
    _fill(ours, stock.replay_buffer, seen, actions, device)

    def turn(learner: Any) -> Turn:
        def work() -> int:
            learner.train(50, BATCH)
            return 50

        return work

    return {"hotlap": turn(ours), "stock": turn(stock)}


def _fill(
    ours: Any, stock: ReplayBuffer, seen: spaces.Space, actions: spaces.Space, device: str
) -> None:
    """Put the same random rows into both replays."""
    draw = np.random.default_rng(0)
    for _ in range(500):
        frame = draw.normal(size=(8, *seen.shape)).astype(np.float32)  # type: ignore[misc]
        action = draw.uniform(-1, 1, size=(8, *actions.shape)).astype(np.float32)  # type: ignore[misc]
        reward = draw.normal(size=8).astype(np.float32)
        over = draw.random(8) < 0.02
        stock.add(frame, frame, action, reward, over, [{}] * 8)
        row = (frame, action, reward, over, np.zeros(8, dtype=bool))
        ours.replay_buffer.add(*(torch.as_tensor(value, device=device) for value in row))
