"""Runs small enough for a test."""

from dataclasses import replace
from typing import Any

from hotlap.config.interface import InterfaceConfig
from hotlap.config.learners import DQNConfig, PPOConfig, SACConfig, TQCConfig
from hotlap.config.runs import Agent, EvaluationConfig, RunConfig
from hotlap.config.sensors import CameraConfig
from hotlap.config.tasks import DonkeyConfig

ROAD = DonkeyConfig(
    sensor="telemetry", start="random", throttle_max=0.25, max_steps=12,
    camera=CameraConfig(width=44, height=36, colour=False),
)  # fmt: skip
SMALL: dict[str, Any] = {"envs": 4, "net": (8,), "stack": 1}
REPLAY: dict[str, Any] = SMALL | {"replay_size": 400, "batch_size": 8, "warm_up": 16}
AGENTS: dict[str, Agent] = {
    "ppo": PPOConfig(**SMALL, steps=8, batch_size=16, epochs=1),
    "dqn": DQNConfig(**REPLAY),
    "sac": SACConfig(**REPLAY),
    "tqc": TQCConfig(**REPLAY),
}


def tiny_run(agent: str = "ppo", sensor: str = "telemetry", **changed: Any) -> RunConfig:
    """A run of 4 segments of 32 steps; settings of the learner by name, the rest of the run."""
    own = {name: changed.pop(name) for name in list(changed) if hasattr(AGENTS[agent], name)}
    learner = replace(AGENTS[agent], **own)
    run = RunConfig(
        task="donkey" if sensor == "camera" else f"donkey-{sensor}",
        settings=replace(ROAD, sensor=sensor),
        agent=learner,
        interface=InterfaceConfig(
            actions="discrete" if agent == "dqn" else "continuous", stack=learner.stack
        ),
        timesteps=128,
        segment_steps=32,
        evaluation=EvaluationConfig(episodes=2),
    )
    return replace(run, **changed)
