"""Every task in the registry keeps every contract; a new one is found here by itself."""

from typing import Any

import gymnasium as gym
import pytest
import torch
from gymnasium.utils.env_checker import check_env as gymnasium_check
from stable_baselines3.common.env_checker import check_env as sb3_check

from hotlap.config.sensors import CameraConfig
from hotlap.config.tasks import DONKEY_REWARDS
from hotlap.tasks.adapters import env_id, register_envs
from hotlap.tasks.adapters.gym_vector import GymVectorEnv
from hotlap.tasks.batch import BatchEnv
from hotlap.tasks.registry import TASKS, make_task
from hotlap.tasks.task import Task
from hotlap.testing import check_batch_env, check_vector_env

SMALL: dict[str, Any] = {
    "max_steps": 8,
    "start": "random",
    "camera": CameraConfig(width=32, height=24),
}
"""Settings that keep the checks quick and the episodes different, where a task has them."""


def small_settings(name: str) -> dict[str, Any]:
    known = TASKS[name].config.__dataclass_fields__
    small = {key: value for key, value in SMALL.items() if key in known}
    own = {"tracks": ("carracing:0-3",), "max_frames": 8} if name == "carracing" else {}
    return small | own


@pytest.fixture(params=TASKS)
def task(request: pytest.FixtureRequest) -> Task:
    return make_task(request.param, **small_settings(request.param))


@pytest.fixture(params=TASKS)
def env(request: pytest.FixtureRequest) -> gym.Env:
    register_envs()
    settings = small_settings(request.param)
    return gym.make(env_id(request.param), render_mode="rgb_array", **settings).unwrapped


# Both checkers recommend what they like: finite observations, actions in [-1, 1], larger pictures.
TASTE = pytest.mark.filterwarnings(
    "ignore:.*(is -infinity|is infinity|symmetric and normalized|minimal resolution for an image)"
)


@TASTE
def test_gymnasiums_checker_passes(env: gym.Env) -> None:
    gymnasium_check(env)


@TASTE
def test_sb3s_checker_passes(env: gym.Env) -> None:
    sb3_check(env)


def test_our_vector_checker_passes(task: Task) -> None:
    checked = check_vector_env(lambda: GymVectorEnv(task, 3), steps=20, masked_reset=True)
    assert len(checked) == 9


def test_our_batch_checker_passes(task: Task) -> None:
    def make_batch(num_envs: int, seed: int, who: torch.Tensor) -> BatchEnv:
        return BatchEnv(task, num_envs, seed, who)

    assert check_batch_env(make_batch, steps=18)


@pytest.mark.parametrize("reward", DONKEY_REWARDS)
def test_every_reward_keeps_the_batch_contract(reward: str) -> None:
    task = make_task("donkey-telemetry", reward=reward, max_steps=40, start="random")
    check_batch_env(lambda n, seed, who: BatchEnv(task, n, seed, who), steps=50)


def test_both_seats_of_tag_keep_the_batch_contract() -> None:
    task = make_task("tag", seats=2, max_steps=8)
    check_batch_env(lambda n, seed, who: BatchEnv(task, n, seed, who), steps=18)


@pytest.mark.slow
@pytest.mark.parametrize("name", TASKS)
def test_tasks_as_they_come_keep_the_batch_contract(name: str) -> None:
    task = make_task(name, **({"max_frames": 100} if name == "carracing" else {}))
    check_batch_env(
        lambda n, seed, who: BatchEnv(task, n, seed, who),
        steps=task.max_steps + 20 if name == "tag" else 150,
        # Fleeing amplifies a rounding: 600 steps of tag drift some 3e-4 apart between batches.
        tolerance=1e-3 if name == "tag" else 1e-5,
        seeds_matter=name == "tag",  # a donkey begins at its line, alike every time
    )
