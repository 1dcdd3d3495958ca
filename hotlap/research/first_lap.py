"""From nothing to a first clean lap, timed.

Every seed is a training of its own in a process of its own: started, trained, and stopped at the
first evaluation in which the policy laps the track from a standing start on its line, staying on
the road. The clock runs from the start of that process, importing and compiling included.
"""

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from typing import Any

import torch

from hotlap.config.commands import BenchFirstLapConfig
from hotlap.config.training import TrainConfig
from hotlap.evaluation.judge import HELD_OUT
from hotlap.learning.driver import Driver
from hotlap.learning.factory import make_learner
from hotlap.research.worlds import choose_device, known_tasks, make_task_of, make_training_env
from hotlap.tasks.batch import BatchEnv
from hotlap.tasks.interface import Interface

CHECK_EVERY = {"cpu": 24_576, "cuda": 32_768}
"""Steps between two looks whether it laps."""
ENOUGH = 3_000_000
"""Steps that the schedules run over."""


def bench_first_lap(config: BenchFirstLapConfig) -> dict[str, Any]:
    """Time the first lap of every seed, one after another."""
    device, excuse = choose_device(config.device)
    if excuse:
        print(excuse, flush=True)
    found: dict[str, Any] = {"seeds": [], "seconds": [], "steps": [], "lapped": [], "lap_times": []}
    for seed in config.seeds:
        began = time.monotonic()
        words = [sys.executable, "-m", "hotlap.research.first_lap", str(seed), device, config.track]
        words.append(str(config.limit))
        environment = os.environ | {"OMP_NUM_THREADS": str(config.threads)}
        done = subprocess.run(
            words, env=environment, stdout=subprocess.PIPE, text=True, check=True,
            timeout=config.limit + 120,
        )  # fmt: skip
        told = json.loads(done.stdout.splitlines()[-1])
        seconds = round(time.monotonic() - began, 1)
        row = {"seeds": seed, "seconds": seconds, **told}
        for name, values in found.items():
            values.append(row[name])
        state = f"lap of {told['lap_times']:.2f} s" if told["lapped"] else "no lap"
        print(f"seed {seed}: {state} after {seconds:.1f} s and {told['steps']:,} steps", flush=True)
    return {"device": device, "track": config.track, **found}


def learn_to_lap(seed: int, device: str, track: str, limit: float) -> dict[str, Any]:
    """Train until the policy laps, or time is up."""
    began = time.monotonic()
    torch.set_num_threads(1)
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
    judged = Interface(BatchEnv(task, 1, seed=HELD_OUT), run.interface)
    driver = Driver(learner.policy, env.observation_space)
    lap = 0.0
    while not lap and time.monotonic() - began < limit:
        learner.learn(CHECK_EVERY[kind], reset_num_timesteps=False)
        lap = first_lap_time(driver, judged)
    return {"steps": learner.num_timesteps, "lapped": lap > 0, "lap_times": round(lap, 3)}


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
    asked_seed, asked_device, asked_track, asked_limit = sys.argv[1:]
    answer = learn_to_lap(int(asked_seed), asked_device, asked_track, float(asked_limit))
    print(json.dumps(answer))
