"""Training until a policy laps its track: one process of `hotlap bench first-lap`."""

import json
import sys
import time
from dataclasses import replace
from typing import Any

import torch

from hotlap.config.training import TrainConfig
from hotlap.evaluation.judge import HELD_OUT
from hotlap.learning.driver import Driver
from hotlap.learning.factory import make_learner
from hotlap.learning.heap import keep_freed_memory
from hotlap.research.worlds import known_tasks, make_task_of, make_training_env
from hotlap.tasks.batch import BatchEnv
from hotlap.tasks.devices import choose_device
from hotlap.tasks.interface import Interface

CHECK_EVERY = {"cpu": 24_576, "cuda": 65_536}
"""Steps between two looks whether it laps."""
ENOUGH = 3_000_000
"""Steps that the schedules run over."""


def learn_to_lap(seed: int, device: str, track: str, limit: float, threads: int) -> dict[str, Any]:
    """Train until the policy laps from a standing start on the line, or time is up."""
    began = time.monotonic()
    torch.set_num_threads(threads)
    keep_freed_memory()
    device, excuse = choose_device(device)
    if excuse:
        print(excuse, file=sys.stderr, flush=True)
    kind = device.partition(":")[0]
    config = TrainConfig(
        task="donkey", preset="donkey/learn-small", track=(track,), timesteps=ENOUGH, seed=seed,
        compiled="off",
    )  # fmt: skip
    run = config.settle(device, False, known_tasks())
    agent = replace(run.agent, encoder="small")
    if kind == "cuda":
        agent = replace(agent, envs=256, batch_size=1024)
    run = replace(run, agent=agent)
    env = make_training_env(run)
    learner = make_learner(run.agent, env, device, seed, ENOUGH)
    task = make_task_of(run, start="line")
    judged = Interface(BatchEnv(task, 1, seed=HELD_OUT, captured=True), run.interface)
    driver = Driver(learner.policy, env.observation_space)
    lap = 0.0
    while not lap and time.monotonic() - began < limit:
        learner.learn(CHECK_EVERY[kind], reset_num_timesteps=False)
        lap = first_lap_time(driver, judged)
    return {
        "device": device,
        "steps": learner.num_timesteps,
        "lapped": lap > 0,
        "lap_times": round(lap, 3),
    }


def first_lap_time(driver: Driver, env: Interface) -> float:
    """Seconds of the first clean lap of an episode, 0 if there is none."""
    seen = env.reset()
    while True:
        step = env.step(driver(seen))
        seen = step.observation
        lap = float(step.metrics["lap_time"])
        if lap > 0 or bool(step.done):
            return lap


if __name__ == "__main__":
    asked_seed, asked_device, asked_track, asked_limit, asked_threads = sys.argv[1:]
    answer = learn_to_lap(
        int(asked_seed), asked_device, asked_track, float(asked_limit), int(asked_threads)
    )
    print(json.dumps(answer))
