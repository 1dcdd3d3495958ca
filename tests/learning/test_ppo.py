"""PPO on the batched simulator, and on anything else."""

from pathlib import Path

import numpy as np
import pytest
import stable_baselines3
import torch
from stable_baselines3.common.env_util import make_vec_env

from hotlap.config.sensors import CameraConfig
from hotlap.learning.ppo import PPO
from hotlap.learning.rollouts import Rollouts
from hotlap.tasks.adapters.sb3_vec import SB3VecEnv
from hotlap.tasks.batch import BatchEnv
from hotlap.tasks.registry import make_task

SMALL = CameraConfig(width=40, height=36, colour=False)


def world(num_envs: int, name: str = "donkey-telemetry", **settings: object) -> SB3VecEnv:
    return SB3VecEnv(BatchEnv(make_task(name, **settings), num_envs))


def test_rollouts_are_those_of_stable_baselines() -> None:
    """Same policy, same noise, same world: observations, rewards and advantages agree."""
    found = []
    for kind in (PPO, stable_baselines3.PPO):
        torch.manual_seed(0)
        env = world(6, max_steps=15, start="random")
        model = kind("MlpPolicy", env, n_steps=40, batch_size=48, n_epochs=1, seed=5)
        model.learn(1)  # one rollout
        found.append(model)
    ours, theirs = (model.rollout_buffer for model in found)
    assert isinstance(ours, Rollouts)
    for name in ("observations", "actions", "rewards", "values", "log_probs", "advantages"):
        other = torch.as_tensor(getattr(theirs, name))
        if other.dim() > 1 and other.shape[:2] != (40, 6):  # theirs flattens once it was read
            other = other.reshape(6, 40, *other.shape[1:]).transpose(0, 1)
        mine = getattr(ours, name)
        torch.testing.assert_close(mine, other.reshape(mine.shape), atol=2e-4, rtol=2e-4)
    assert len(found[0].ep_info_buffer) == len(found[1].ep_info_buffer) > 0


def test_a_saved_model_opens_with_the_stock_class_and_acts_the_same(tmp_path: Path) -> None:
    env = world(4)
    model = PPO("MlpPolicy", env, n_steps=16, batch_size=32, n_epochs=1)
    model.learn(64)
    model.save(tmp_path / "model.zip")
    stock = stable_baselines3.PPO.load(tmp_path / "model.zip")
    assert type(stock) is stable_baselines3.PPO
    seen = env.reset()
    acts = [m.predict(seen, deterministic=True)[0] for m in (model, stock)]
    assert np.array_equal(*acts)
    again = PPO.load(tmp_path / "model.zip", env=env)
    again.learn(64, reset_num_timesteps=False)
    assert again.num_timesteps == 128 and isinstance(again.rollout_buffer, Rollouts)


def test_pictures_reach_the_policy_with_channels_first() -> None:
    env = world(4, "donkey", camera=SMALL)
    model = PPO("CnnPolicy", env, n_steps=8, batch_size=16, n_epochs=1)
    model.learn(32)
    buffer = model.rollout_buffer
    assert buffer.observations.shape == (8, 4, 36, 40, 1)
    assert next(buffer.get(16)).observations.shape == (16, 1, 36, 40)
    assert buffer.observations.dtype == torch.uint8
    assert int(buffer.observations.to(torch.int16).diff(dim=0).abs().max()) > 0


def test_it_is_the_ordinary_one_on_other_environments() -> None:
    model = PPO("MlpPolicy", make_vec_env("CartPole-v1", 2), n_steps=32, batch_size=32, n_epochs=1)
    model.learn(64)
    assert not isinstance(model.rollout_buffer, Rollouts)


@pytest.mark.filterwarnings("ignore:You have specified a mini-batch size")
def test_a_last_minibatch_of_one_sample_is_learned_from() -> None:
    model = PPO("MlpPolicy", world(3), n_steps=3, batch_size=4, n_epochs=1)  # 4 + 4 + 1
    model.learn(9)
    assert model.policy.optimizer.state[model.policy.value_net.weight]["step"] == 3


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_it_learns_to_stay_on_the_road(seed: int) -> None:
    env = world(64, start="random", max_steps=200)
    model = PPO("MlpPolicy", env, n_steps=64, batch_size=1024, n_epochs=6, learning_rate=1e-3,
                gamma=0.97, seed=seed)  # fmt: skip
    model.learn(64 * 64)
    early = np.mean([info["r"] for info in model.ep_info_buffer])
    model.learn(250_000, reset_num_timesteps=False)
    late = np.mean([info["r"] for info in model.ep_info_buffer])
    assert late > 3 * early and late > 100.0


def test_values_of_what_was_cut_off_are_not_scaled_with_the_rewards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    env = world(4, max_steps=5)
    model = PPO("MlpPolicy", env, n_steps=5, batch_size=10, n_epochs=1, gamma=0.5, seed=0,
                scale_rewards=True)  # fmt: skip
    monkeypatch.setattr(model, "_value", lambda seen: torch.full((len(seen),), 100.0))
    model.learn(20)
    rollouts = model.rollout_buffer
    late = rollouts.truncated
    assert late.sum() == 4  # nobody crashes within five steps
    assert bool((rollouts.rewards[late] > 50.0).all()) and bool((rollouts.rewards[late] < 60).all())
    assert bool((rollouts.rewards[~late].abs() < 10.0).all())
