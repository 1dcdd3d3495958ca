"""One environment, as Gymnasium knows it."""

import subprocess
import sys

import gymnasium as gym
import numpy as np
import pytest

from hotlap.config.sensors import CameraConfig
from hotlap.tasks.adapters import env_id, register_envs
from hotlap.tasks.adapters.gym_env import GymEnv
from hotlap.tasks.registry import TASKS, make_task

SMALL = CameraConfig(width=32, height=24)
RIGHT = np.array([1.0, 1.0], dtype=np.float32)


def telemetry(**settings: object) -> GymEnv:
    return GymEnv("donkey-telemetry", **({"start": "random", "max_steps": 5} | settings))  # type: ignore[arg-type]


def test_a_seed_decides_all_episodes_that_follow() -> None:
    def play(env: GymEnv) -> list[np.ndarray]:
        seen = [env.reset(seed=4)[0]]
        for _ in range(3):
            seen += [env.step(RIGHT)[0], env.step(RIGHT)[0], env.reset()[0]]
        return seen

    env = telemetry()
    first = play(env)
    assert all(map(np.array_equal, first, play(env)))
    assert all(map(np.array_equal, first, play(telemetry())))
    assert len({value.tobytes() for value in first}) == len(first)  # every episode is another


def test_reset_goes_on_to_the_next_episode_whether_the_last_one_ended_or_not() -> None:
    ended, left = telemetry(max_steps=2), telemetry(max_steps=3)
    for env in (ended, left):
        env.reset(seed=1)
        env.step(RIGHT)
        env.step(RIGHT)
    assert np.array_equal(ended.reset()[0], left.reset()[0])


def test_without_any_seed_environments_differ() -> None:
    assert not np.array_equal(telemetry().reset()[0], telemetry().reset()[0])


def test_the_last_observation_is_the_episodes_own_and_no_step_follows_it() -> None:
    short, long = telemetry(max_steps=2), telemetry(max_steps=9)
    for env in (short, long):
        env.reset(seed=3)
        env.step(RIGHT)
        last = env.step(RIGHT)
    short.reset(seed=3)
    short.step(RIGHT)
    seen, _, terminated, truncated, _ = short.step(RIGHT)
    assert (terminated, truncated) == (False, True)
    assert np.array_equal(seen, last[0])
    with pytest.raises(RuntimeError, match="call reset"):
        short.step(RIGHT)


def test_the_info_tells_metrics_and_the_reward_by_name_as_plain_values() -> None:
    env = telemetry()
    env.reset(seed=0)
    _, reward, _, _, info = env.step(RIGHT)
    assert isinstance(info["cte"], float) and isinstance(info["laps"], int)
    assert info["pos"].shape == (3,)
    terms = [value for name, value in info.items() if name.startswith("reward/")]
    assert sum(terms) == pytest.approx(reward)


def test_a_picture_is_the_cameras_or_the_scene_from_above() -> None:
    env = GymEnv("donkey", render_mode="rgb_array", camera=SMALL, max_steps=3)
    seen, _ = env.reset(seed=0)
    assert seen.dtype == np.uint8 and seen.flags["C_CONTIGUOUS"] and seen.shape == (24, 32, 3)
    assert np.array_equal(env.render(), seen)
    assert env.metadata["render_fps"] == 20
    grey = CameraConfig(width=32, height=24, colour=False)
    env = GymEnv("donkey", render_mode="rgb_array", camera=grey)
    assert env.reset(seed=0)[0].shape == (24, 32, 1)
    assert env.render().shape == (24, 32, 3)  # type: ignore[union-attr]
    for name in ("donkey-telemetry", "tag"):
        env = GymEnv(name, render_mode="rgb_array", max_steps=3)
        env.reset(seed=0)
        pictures = [env.render()]
        for _ in range(3):
            env.step(np.array([1.0, 0.5]))
            pictures.append(env.render())
        assert all(p is not None and p.shape == (400, 400, 3) for p in pictures)
        assert len(np.unique(pictures[0].reshape(-1, 3), axis=0)) >= 3  # type: ignore[union-attr]
    assert telemetry().render() is None


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="seats=1"):
        GymEnv("tag", seats=2)
    with pytest.raises(ValueError, match="render_mode"):
        GymEnv("tag", render_mode="human")
    with pytest.raises(ValueError, match="already made"):
        GymEnv(make_task("tag"), max_steps=3)
    env = GymEnv("tag")
    with pytest.raises(ValueError, match="no options"):
        env.reset(seed=0, options={"track": "warren"})
    with pytest.raises(ValueError, match="seed lies between"):
        env.reset(seed=2**63)


def test_every_task_is_registered_by_asking() -> None:
    assert env_id("donkey-lidar") == "hotlap/DonkeyLidar-v0"
    assert register_envs() == register_envs()
    assert {env_id(name) for name in TASKS} < set(register_envs()) <= set(gym.registry)
    env = gym.make("hotlap/Tag-v0", max_steps=7)
    assert env.unwrapped.task.max_steps == 7  # type: ignore[attr-defined]


@pytest.mark.slow
def test_nothing_is_registered_by_importing() -> None:
    code = (
        "import gymnasium, hotlap.tasks.adapters.gym_env, hotlap.tasks.adapters.gym_vector;"
        "print([name for name in gymnasium.registry if 'hotlap' in name])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
