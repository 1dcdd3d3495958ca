"""A driver is the policy it was made of, in tensors: same actions, within the same bounds."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from hotlap.config.interface import InterfaceConfig
from hotlap.config.learners import DQNConfig, PPOConfig, SACConfig, TQCConfig
from hotlap.config.runs import Agent
from hotlap.config.sensors import CameraConfig
from hotlap.learning.driver import Driver
from hotlap.learning.factory import make_learner
from hotlap.learning.learner import Learner
from hotlap.tasks.adapters.sb3_vec import SB3VecEnv
from hotlap.tasks.batch import BatchEnv
from hotlap.tasks.interface import Interface
from hotlap.tasks.registry import make_task

torch.set_num_threads(1)
TINY: dict[str, Any] = {"envs": 4, "net": (16,), "batch_size": 8}
AGENTS: dict[str, Agent] = {
    "ppo": PPOConfig(**TINY, log_std=1.0),
    "ppo squashed": PPOConfig(**TINY, policy="squashed"),
    "ppo beta": PPOConfig(**TINY, policy="beta"),
    "ppo scaled": PPOConfig(**TINY, normalise_observations=True),
    "dqn": DQNConfig(**TINY),
    "sac": SACConfig(**TINY),
    "tqc": TQCConfig(**TINY),
}
SMALL = CameraConfig(width=44, height=36, colour=False)
LOW, HIGH = torch.tensor([-1.0, 0.0]), torch.tensor([1.0, 0.25])


def made(agent: Agent, task: str = "donkey-telemetry") -> tuple[Learner, SB3VecEnv]:
    built = make_task(task, start="random", throttle_max=0.25, camera=SMALL)
    actions = "discrete" if isinstance(agent, DQNConfig) else "continuous"
    config = InterfaceConfig(actions=actions, stack=agent.stack)
    env = SB3VecEnv(Interface(BatchEnv(built, 4), config))
    return make_learner(agent, env, "cpu", seed=1, total_steps=100), env


@pytest.mark.parametrize("name", AGENTS)
def test_it_does_what_predict_does(name: str) -> None:
    model, env = made(AGENTS[name])
    driver = Driver(model.policy, env.observation_space)
    seen = torch.as_tensor(env.reset())
    for far in (1.0, 30.0):  # far off, actions lie at their bounds
        action = driver(far * seen)
        expected, _ = model.predict((far * seen).numpy(), deterministic=True)
        np.testing.assert_allclose(action.numpy(), expected, rtol=1e-5, atol=1e-6)
    assert not action.requires_grad


@pytest.mark.parametrize("name", ["ppo", "dqn", "sac"])
def test_pictures_are_turned_as_predict_turns_them(name: str) -> None:
    agent = replace(AGENTS[name], encoder="small", stack=2)
    model, env = made(agent, "donkey")
    driver = Driver(model.policy, env.observation_space)
    seen = torch.as_tensor(env.reset())
    assert seen.shape == (4, 36, 44, 2) and seen.dtype == torch.uint8
    expected, _ = model.predict(seen.numpy(), deterministic=True)
    np.testing.assert_allclose(driver(seen).numpy(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", [name for name in AGENTS if name != "dqn"])
def test_drawn_actions_stay_within_bounds(name: str) -> None:
    model, env = made(AGENTS[name])
    torch.manual_seed(0)
    driver = Driver(model.policy, env.observation_space, deterministic=False)
    seen = torch.as_tensor(env.reset())
    drawn = torch.stack([driver(seen) for _ in range(100)])
    assert (drawn >= LOW).all() and (drawn <= HIGH).all()
    room = drawn.amax((0, 1)) - drawn.amin((0, 1))
    assert (room > 0.5 * (HIGH - LOW)).all()  # spread over the range, not over -1..1 of it
    if name == "ppo":  # a wide Gaussian, cut off
        assert (drawn == HIGH).any() and (drawn == LOW).any()


def test_drawn_choices_are_among_those_there_are() -> None:
    model, env = made(AGENTS["dqn"])
    driver = Driver(model.policy, env.observation_space, deterministic=False)
    action = driver(torch.as_tensor(env.reset()))
    assert action.shape == (4,) and not action.is_floating_point()
    assert int(action.min()) >= 0 and int(action.max()) < 15


def test_another_shape_is_refused_naming_both() -> None:
    model, env = made(AGENTS["sac"])
    driver = Driver(model.policy, env.observation_space)
    with pytest.raises(ValueError, match=r"shape \(16,\), this environment gives \(17,\)"):
        driver(torch.zeros(4, 17))
    with pytest.raises(ValueError, match=r"gives \(36, 44, 1\); use the task, camera and stack"):
        driver(torch.zeros(4, 36, 44, 1, dtype=torch.uint8))


def test_it_drives_a_whole_batch_in_its_own_environment() -> None:
    model, env = made(AGENTS["ppo"])
    driver = Driver(model.policy, env.observation_space)
    seen = env.batch.reset(seed=3)
    for _ in range(5):
        seen = env.batch.step(driver(seen)).observation
    assert seen.shape == (4, 32) and torch.isfinite(seen).all()
