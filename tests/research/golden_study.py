"""The study whose ledger lies in golden/: what it was begun with, for whoever goes on with it."""

import random
from typing import Any

from hotlap.config.study import StopConfig, StudyConfig

SPACE: dict[str, dict[str, Any]] = {
    "rate": {"low": 1e-4, "high": 1e-1, "log": True},
    "agent": {"choices": ["ppo", "dqn"]},
    "epochs": {"low": 1, "high": 10, "when": {"agent": "ppo"}},
}


def config(trials: int) -> StudyConfig:
    return StudyConfig(trials=trials, seed=3, test_runs=1, stop=StopConfig(converge=False))


def objective(params: dict[str, Any], seed: int) -> float:
    if params["rate"] > 0.03:
        raise RuntimeError("the wheels came off")
    luck = random.Random(f"{params} {seed}").gauss(0, 0.02)
    return (params["agent"] == "ppo") - abs(params["rate"] - 0.01) * 20 + luck
