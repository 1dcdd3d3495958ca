"""SAC and TQC solve small problems."""

import math

import numpy as np
import pytest
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy

from hotlap.config.interface import InterfaceConfig
from hotlap.config.learners import SACConfig, TQCConfig
from hotlap.learning.sac import make_sac
from hotlap.learning.tqc import make_tqc
from hotlap.tasks.adapters.sb3_vec import SB3VecEnv
from hotlap.tasks.batch import BatchEnv
from hotlap.tasks.interface import Interface
from hotlap.tasks.registry import make_task


@pytest.mark.slow
def test_sac_swings_a_pendulum_up() -> None:
    config = SACConfig(
        envs=4, learning_rate=1e-3, updates_per_step=0.5, warm_up=500, net=(64, 64), entropy=0.2
    )
    model = make_sac(config, make_vec_env("Pendulum-v1", 4, seed=0), "cpu", 0, total_steps=16_000)
    model.learn(16_000)
    mean, _ = evaluate_policy(model, make_vec_env("Pendulum-v1", 1, seed=100), n_eval_episodes=20)
    assert mean > -250  # at random about -1200


@pytest.mark.slow
def test_tqc_learns_to_stay_on_the_road() -> None:
    batch = BatchEnv(make_task("donkey-telemetry", start="random", max_steps=200), 16)
    env = SB3VecEnv(Interface(batch, InterfaceConfig()))
    config = TQCConfig(
        envs=16, learning_rate=1e-3, gamma=0.97, updates_per_step=0.1, net=(64, 64), warm_up=2000
    )
    model = make_tqc(config, env, "cpu", 0, total_steps=40_000)
    model.learn(2000)
    early = np.mean([info["r"] for info in model.ep_info_buffer])
    model.learn(38_000, reset_num_timesteps=False)
    late = np.mean([info["r"] for info in model.ep_info_buffer])
    assert late > 3 * early and late > 100.0
    assert math.isfinite(model.logger.name_to_value["debug/backup"])
