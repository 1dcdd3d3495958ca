"""Many environments, as Stable-Baselines3 knows them."""

import numpy as np
import pytest
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import VecMonitor, VecTransposeImage

from hotlap.config.sensors import CameraConfig
from hotlap.tasks.adapters.sb3_vec import SB3VecEnv
from hotlap.tasks.batch import BatchEnv
from hotlap.tasks.registry import make_task
from hotlap.tasks.task import Task


@pytest.fixture(scope="module")
def task() -> Task:
    return make_task("donkey-telemetry", start="random", max_steps=4)


def vec(task: Task, num_envs: int = 3, seed: int = 1) -> SB3VecEnv:
    return SB3VecEnv(BatchEnv(task, num_envs, seed))


def actions(num_envs: int = 3) -> np.ndarray:
    return np.tile(np.array([0.3, 1.0], dtype=np.float32), (num_envs, 1))


def test_it_gives_what_the_batch_gives(task: Task) -> None:
    env, batch = vec(task), BatchEnv(task, 3, 1)
    np.testing.assert_array_equal(env.reset(), batch.reset().numpy())
    for _ in range(6):
        seen, reward, done, _ = env.step(actions())
        step = batch.step(torch.from_numpy(actions()))
        np.testing.assert_array_equal(seen, step.observation.numpy())
        np.testing.assert_array_equal(reward, step.reward.numpy())
        np.testing.assert_array_equal(done, step.done.numpy())
    assert reward.dtype == np.float32 and done.dtype == np.bool_


def test_an_ending_tells_what_sb3_reads(task: Task) -> None:
    env = vec(task)
    env.reset()
    rewards = []
    for _ in range(4):
        seen, reward, done, infos = env.step(actions())
        rewards.append(reward)
    assert done.all()
    for i, info in enumerate(infos):
        assert info["TimeLimit.truncated"] is True
        assert info["terminal_observation"].shape == seen[i].shape
        assert not np.array_equal(info["terminal_observation"], seen[i])
        assert info["episode"]["l"] == 4 and info["episode"]["t"] >= 0
        assert info["episode"]["r"] == pytest.approx(sum(r[i] for r in rewards), abs=1e-5)
        assert info["speed"] > 0
    assert env.step(actions())[3] == [{}, {}, {}]


def test_a_crash_is_no_time_limit() -> None:
    env = vec(make_task("donkey-telemetry"), 1)
    env.reset()
    done = np.array([False])
    while not done[0]:
        _, _, done, infos = env.step(np.array([[1.0, 1.0]]))
    assert infos[0]["TimeLimit.truncated"] is False


def test_a_seed_is_taken_at_the_next_reset_and_resets_go_on(task: Task) -> None:
    env = vec(task)
    first, second = env.reset(), env.reset()
    assert not np.array_equal(first, second)
    assert env.seed(1) == [1, 1, 1]
    np.testing.assert_array_equal(env.reset(), first)
    np.testing.assert_array_equal(env.reset(), second)
    env.seed(2)
    other = env.reset()
    # Neighbouring seeds share no environment.
    assert not any(np.array_equal(a, b) for a in first for b in other)


def test_what_sb3_asks_of_environments_is_answered(task: Task) -> None:
    env = vec(task)
    assert env.env_is_wrapped(Monitor) == [True] * 3
    assert env.env_is_wrapped(VecMonitor, indices=0) == [False]  # type: ignore[arg-type]
    assert env.get_attr("max_steps") == [4] * 3 and env.get_attr("render_mode", 0) == [None]
    assert not env.has_attr("no such thing")
    with pytest.raises(AttributeError, match="share one task"):
        env.set_attr("max_steps", 5)
    with pytest.raises(RuntimeError, match="step_async"):
        env.step_wait()
    with pytest.raises(ValueError, match="seats=1"):
        SB3VecEnv(BatchEnv(make_task("tag", seats=2), 2))


def test_pictures_are_contiguous_bytes_with_channels_last() -> None:
    small = CameraConfig(width=48, height=40)
    env = SB3VecEnv(BatchEnv(make_task("donkey", camera=small), 2), render_mode="rgb_array")
    seen = env.reset()
    assert seen.shape == (2, 40, 48, 3) and seen.dtype == np.uint8 and seen.flags["C_CONTIGUOUS"]
    assert VecTransposeImage(env).reset().shape == (2, 3, 40, 48)
    assert env.render().shape == (80, 48, 3)  # type: ignore[union-attr]


def test_ppo_trains_and_logs_without_wrapping(task: Task) -> None:
    env = vec(task, 8)
    model = PPO("MlpPolicy", env, n_steps=8, batch_size=32, n_epochs=1, seed=0, device="cpu")
    model.learn(128)
    assert len(model.ep_info_buffer) >= 8 and model.ep_info_buffer[0]["l"] == 4  # type: ignore[arg-type,index]
    returns, lengths = evaluate_policy(model, env, n_eval_episodes=8, return_episode_rewards=True)
    assert lengths == [4] * 8 and np.isfinite(returns).all()
