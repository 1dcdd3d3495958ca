"""DQN: its targets worked out by hand, its exploration, and problems it solves."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from torch import Tensor

from hotlap.config.interface import InterfaceConfig
from hotlap.config.learners import DQNConfig
from hotlap.learning.critics import action_values
from hotlap.learning.dqn import DQN, make_dqn
from hotlap.learning.replay import Samples
from hotlap.tasks.adapters.sb3_vec import SB3VecEnv
from hotlap.tasks.batch import BatchEnv
from hotlap.tasks.interface import Interface
from hotlap.tasks.registry import make_task

torch.set_num_threads(1)


class Corridor(gym.Env):
    """Six places; the right end pays 1 and ends, every other step costs 0.01."""

    observation_space = spaces.Box(0, 1, (6,))
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.place, self.count = 0, 0
        return self._show(), {}

    def _show(self) -> np.ndarray:
        return np.eye(6, dtype=np.float32)[self.place]

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        self.place = min(max(self.place + (1 if action else -1), 0), 5)
        self.count += 1
        there = self.place == 5
        return self._show(), 1.0 if there else -0.01, there, self.count == 30 and not there, {}


def small(envs: int = 4, **settings: Any) -> DQN:
    config = {"net": (32, 32), "batch_size": 32, "warm_up": 100, "replay_size": 4000, "envs": envs}
    return make_dqn(
        DQNConfig(**config | settings), make_vec_env(Corridor, envs), "cpu", 0, total_steps=3000
    )


def fix(net: Any, values: list[float]) -> None:
    """Have a net value actions so, whatever is seen."""
    net.q_net[-1].weight.data.zero_()
    net.q_net[-1].bias.data.copy_(torch.tensor(values))


def samples(**given: Any) -> Samples:
    columns = {
        "observations": torch.eye(6)[:2],
        "actions": torch.tensor([[0], [1]]),
        "next_observations": torch.eye(6)[1:3],
        "dones": torch.tensor([[0.0], [1.0]]),
        "rewards": torch.tensor([[1.0], [2.0]]),
        "discounts": torch.full((2, 1), 0.5),
    }
    return Samples(**columns | given)


@pytest.mark.parametrize(("double", "backup"), [(True, (1 + 0.5 * 3 + 2) / 2), (False, 3.75)])
def test_a_backup_by_hand(double: bool, backup: float) -> None:
    model = small(double=double)
    fix(model.q_net, [5.0, 4.0])  # prefers the first action
    fix(model.q_net_target, [3.0, 9.0])  # which its slow copy values at 3, the other at 9
    told = model._update(samples())
    assert float(told["debug/backup"]) == pytest.approx(backup)
    assert float(told["debug/q1"]) == 4.5 and float(told["debug/q_a1"]) == 5.0
    assert float(told["debug/r"]) == 1.5


def test_only_the_replayed_action_is_taught() -> None:
    model = small(learning_rate=3e-3)
    last = model.q_net.q_net[-1]
    before = last.weight.clone()
    batch = samples(
        actions=torch.tensor([[0], [0]]), dones=torch.ones(2, 1), rewards=torch.full((2, 1), 5.0)
    )
    for _ in range(400):
        model._update(batch)
    taught = action_values(model.q_net, torch.eye(6)[:2]).detach()
    assert taught[:, 0].tolist() == pytest.approx([5.0, 5.0], abs=0.1)
    assert torch.equal(last.weight[1], before[1]) and not torch.equal(last.weight[0], before[0])


def test_the_slow_copy_follows_at_every_update_or_is_copied_at_intervals() -> None:
    model = small(tau=0.25)
    before = [p.clone() for p in model.q_net_target.parameters()]
    model._update(samples())
    pairs = zip(before, model.q_net.parameters(), model.q_net_target.parameters(), strict=True)
    for old, fast, slow in pairs:
        torch.testing.assert_close(slow, 0.75 * old + 0.25 * fast)

    def difference(model: DQN) -> float:
        pairs = zip(model.q_net.parameters(), model.q_net_target.parameters(), strict=True)
        return sum(float((fast - slow).detach().abs().sum()) for fast, slow in pairs)

    copied = small(target_every=200, updates_per_step=0.25)
    copied.learn(200)
    assert copied._n_updates and difference(copied) > 0  # copied before the last updates
    first = [p.clone() for p in copied.q_net_target.parameters()]
    copied.learn(196, reset_num_timesteps=False)
    for old, slow in zip(first, copied.q_net_target.parameters(), strict=True):
        assert torch.equal(old, slow)
    copied.learn(4, reset_num_timesteps=False)
    assert not torch.equal(first[0], next(copied.q_net_target.parameters()))


def test_errors_up_to_huber_pull_in_proportion_and_larger_ones_no_harder() -> None:
    model = small(huber=10.0)
    fix(model.q_net, [0.0, 0.0])
    given = samples(rewards=torch.tensor([[0.5], [30.0]]), dones=torch.ones(2, 1))
    # 0.5^2 / (2 * 10), and 30 - 10 / 2
    loss = float(model._update(given)["losses/critic"])
    assert loss == pytest.approx((0.0125 + 25.0) / 2)
    with pytest.raises(ValueError, match="huber must be positive"):
        DQNConfig(huber=0.0)


def test_random_actions_become_rare_as_scheduled_and_environment_by_environment() -> None:
    model = small(exploration_fraction=0.5, exploration_final=0.1, warm_up=0, updates_per_step=1e-3)
    fix(model.q_net, [0.0, 1.0])
    seen = torch.zeros(20_000, 6)

    def share_of_other(rate: float) -> float:
        model.exploration_rate = rate
        return float((model._explore(seen) == 0).float().mean())

    assert share_of_other(0.0) == 0.0
    assert share_of_other(0.4) == pytest.approx(0.2, abs=0.02)  # half of random ones are the best
    assert share_of_other(1.0) == pytest.approx(0.5, abs=0.02)
    rates = []

    def note(local: dict, _: dict) -> bool:
        rates.append(local["self"].exploration_rate)
        return True

    model.learn(3000, callback=note)
    assert rates[0] == pytest.approx(1.0, abs=0.01)
    assert rates[len(rates) // 4] == pytest.approx(0.55, abs=0.01)
    assert rates[-1] == pytest.approx(0.1)


def test_a_training_goes_on_with_the_chance_it_had() -> None:
    model = small()
    model.num_timesteps, model._last_obs = 300, None  # of 3000, over the first 900
    rates: list[float] = []
    explore = model._explore

    def note(seen: Tensor) -> Tensor:
        rates.append(model.exploration_rate)
        return explore(seen)

    model._explore = note  # type: ignore[method-assign]
    model.learn(4, reset_num_timesteps=False)
    assert rates[0] == pytest.approx(1 - 0.95 / 3)


@pytest.mark.parametrize("n_step", [1, 3])
def test_it_learns_to_walk_down_a_corridor(n_step: int) -> None:
    model = small(n_step=n_step, learning_rate=2e-3, updates_per_step=0.25, gamma=0.95, tau=0.02)
    model.learn(3000)
    mean, _ = evaluate_policy(model, make_vec_env(Corridor, 1), n_eval_episodes=2)
    assert mean == pytest.approx(0.96)  # five steps, the shortest way
    value = float(action_values(model.q_net, torch.eye(6)[4:5]).detach().max())
    assert value == pytest.approx(1.0, abs=0.2)


@pytest.mark.slow
def test_it_balances_a_pole() -> None:
    config = DQNConfig(
        envs=4, learning_rate=1e-3, warm_up=1000, updates_per_step=0.5, exploration_fraction=0.3,
        tau=0.01, batch_size=64, n_step=3,
    )  # fmt: skip
    model = make_dqn(config, make_vec_env("CartPole-v1", 4, seed=0), "cpu", 0, total_steps=40_000)
    model.learn(40_000)
    mean, _ = evaluate_policy(model, make_vec_env("CartPole-v1", 1, seed=100), n_eval_episodes=20)
    assert mean > 400


@pytest.mark.slow
def test_it_learns_to_stay_on_the_road() -> None:
    batch = BatchEnv(make_task("donkey-telemetry", start="random", max_steps=200), 16)
    env = SB3VecEnv(Interface(batch, InterfaceConfig(actions="discrete", n_steer=7)))
    config = DQNConfig(
        envs=16, learning_rate=1e-3, gamma=0.97, updates_per_step=0.1, warm_up=2000, n_step=3
    )
    model = make_dqn(config, env, "cpu", 0, total_steps=80_000)
    model.learn(2000)
    early = np.mean([info["r"] for info in model.ep_info_buffer])
    model.learn(78_000, reset_num_timesteps=False)
    late = np.mean([info["r"] for info in model.ep_info_buffer])
    assert late > 3 * early and late > 100.0
