"""The actor-critic beside Stable-Baselines3's own, and what it saves opened by the stock class."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stable_baselines3
import torch
from gymnasium import spaces
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.policies import ActorCriticCnnPolicy, ActorCriticPolicy
from torch import nn

from hotlap.config.interface import InterfaceConfig
from hotlap.learning.encoders import Nature
from hotlap.learning.policies import ActorCritic
from hotlap.learning.ppo import PPO
from hotlap.tasks.adapters.sb3_vec import SB3VecEnv
from hotlap.tasks.batch import BatchEnv
from hotlap.tasks.interface import Interface
from hotlap.tasks.registry import make_task

torch.set_num_threads(1)
SEEN = spaces.Box(-np.inf, np.inf, (6,), np.float32)
ROOM = spaces.Box(np.array([-1.0, 0.0], np.float32), np.array([1.0, 0.25], np.float32))


def policy(kind: type[ActorCriticPolicy], actions: spaces.Space, **settings: Any) -> Any:
    torch.manual_seed(3)
    return kind(SEEN, actions, lambda _: 1e-3, **settings)


def world(actions: str = "continuous") -> SB3VecEnv:
    task = make_task("donkey-telemetry", max_steps=15, start="random", throttle_max=0.25)
    return SB3VecEnv(Interface(BatchEnv(task, 4), InterfaceConfig(actions=actions)))  # type: ignore[arg-type]


@pytest.mark.parametrize("actions", [ROOM, spaces.Discrete(5)], ids=["continuous", "discrete"])
def test_it_is_stable_baselines_own_on_the_same_seed(actions: spaces.Space) -> None:
    settings = {"net_arch": [16, 8], "log_std_init": -0.7}
    ours = policy(ActorCritic, actions, **settings)
    theirs = policy(ActorCriticPolicy, actions, **settings)
    seen = torch.randn(32, 6)
    torch.manual_seed(0)
    action, *_ = theirs(seen)
    with torch.no_grad():
        found = [p.evaluate_actions(seen, action) for p in (ours, theirs)]
        for mine, other in zip(*found, strict=True):  # values, log-probabilities, entropy
            torch.testing.assert_close(mine, other)
        torch.testing.assert_close(ours.predict_values(seen), theirs.predict_values(seen))
    count = [sum(p.numel() for p in one.parameters()) for one in (ours, theirs)]
    assert count[0] == count[1]


@pytest.mark.parametrize("actions", [ROOM, spaces.Discrete(5)], ids=["continuous", "discrete"])
def test_the_best_action_is_stable_baselines_own(actions: spaces.Space) -> None:
    """Where noise is small: that of a wide Gaussian is the mean of what is driven, cut off."""
    seen = torch.randn(32, 6).numpy()
    made = [policy(kind, actions, log_std_init=-9.0) for kind in (ActorCritic, ActorCriticPolicy)]
    mine, other = (p.predict(seen, deterministic=True)[0] for p in made)
    np.testing.assert_allclose(mine, other, atol=1e-4)


def test_a_gaussian_draws_what_stable_baselines_draws() -> None:
    seen, drawn = torch.randn(32, 6), []
    for kind in (ActorCritic, ActorCriticPolicy):
        made = policy(kind, ROOM)
        torch.manual_seed(7)
        with torch.no_grad():
            drawn.append(made(seen))
    for mine, other in zip(*drawn, strict=True):
        torch.testing.assert_close(mine, other)


def test_pictures_become_what_they_do_in_stable_baselines() -> None:
    space = spaces.Box(0, 255, (2, 40, 40), np.uint8)
    made = []
    for kind, encoder in ((ActorCritic, Nature), (ActorCriticCnnPolicy, None)):
        torch.manual_seed(3)
        more = {} if encoder is None else {"features_extractor_class": encoder}
        settings: dict[str, Any] = {"net_arch": [8], **more}
        made.append(kind(space, ROOM, lambda _: 1e-3, **settings))
    seen = torch.randint(0, 256, (3, 2, 40, 40), dtype=torch.uint8)
    with torch.no_grad():
        found = [one.evaluate_actions(seen, torch.zeros(3, 2)) for one in made]
    for mine, other in zip(*found, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("spread", ["gaussian", "squashed", "beta"])
def test_actions_have_the_environments_units(spread: str) -> None:
    made = policy(ActorCritic, ROOM, spread=spread)
    acts = np.stack([made.predict(np.zeros((500, 6), np.float32))[0] for _ in range(4)])
    assert acts.shape == (4, 500, 2)
    assert (ROOM.low <= acts).all() and (acts <= ROOM.high).all()
    if spread != "gaussian":  # begins in the middle of the throttle's range, not at its end
        assert made.predict(np.zeros((1, 6), np.float32), deterministic=True)[0][0] == (
            pytest.approx([0.0, 0.125], abs=0.01)
        )


def test_the_spread_is_told_where_there_is_one() -> None:
    assert policy(ActorCritic, ROOM, log_std_init=-0.5).log_std.tolist() == [-0.5, -0.5]
    assert policy(ActorCritic, ROOM, spread="squashed").log_std.tolist() == [0.0, 0.0]
    # Stable-Baselines3's PPO asks by hasattr, and would take the exponential of None.
    assert not hasattr(policy(ActorCritic, ROOM, spread="beta"), "log_std")
    assert not hasattr(policy(ActorCritic, spaces.Discrete(3)), "log_std")


@pytest.mark.parametrize(("task", "spread"), [("CartPole-v1", "gaussian"), ("Pendulum-v1", "beta")])
def test_it_learns_in_stable_baselines_own_loop(task: str, spread: str) -> None:
    """Which is used on environments that are not ours."""
    env = make_vec_env(task, 2)
    model = PPO(ActorCritic, env, n_steps=16, batch_size=16, n_epochs=1, seed=0,
                policy_kwargs={"spread": spread, "net_arch": [8]})  # fmt: skip
    before = [p.clone() for p in model.policy.parameters()]
    model.learn(32)
    changed = [
        not torch.equal(a, b) for a, b in zip(before, model.policy.parameters(), strict=True)
    ]
    assert all(changed)


def test_only_the_critic_is_normalised() -> None:
    made = policy(ActorCritic, ROOM, layer_norm=True, net_arch={"pi": [8, 8], "vf": [8, 8]})
    kinds = [type(layer).__name__ for layer in made.mlp_extractor.value_net]
    assert kinds == ["Linear", "LayerNorm", "Tanh", "Linear", "LayerNorm", "Tanh"]
    actor = [made.mlp_extractor.policy_net, made.action_net, made.features_extractor]
    assert not any(isinstance(m, nn.LayerNorm) for part in actor for m in part.modules())
    plain = policy(ActorCritic, ROOM, net_arch={"pi": [8, 8], "vf": [8, 8]})
    assert not any(isinstance(m, nn.LayerNorm) for m in plain.modules())
    seen = torch.randn(5, 6)
    assert torch.equal(made.read(seen)[0], plain.read(seen)[0])  # the actor is the same
    learned = {id(p) for group in made.optimizer.param_groups for p in group["params"]}
    assert {id(p) for p in made.parameters()} == learned


@pytest.mark.parametrize(
    ("actions", "spread"),
    [("continuous", "beta"), ("continuous", "squashed"), ("discrete", "gaussian")],
)
def test_a_zip_opens_with_the_stock_class_and_drives_the_same(
    actions: str, spread: str, tmp_path: Path
) -> None:
    env = world(actions)
    kwargs = {"spread": spread, "layer_norm": True, "net_arch": [16]}
    model = PPO(ActorCritic, env, n_steps=16, batch_size=32, n_epochs=1, policy_kwargs=kwargs)
    model.learn(64)
    model.save(tmp_path / "model.zip")
    stock = stable_baselines3.PPO.load(tmp_path / "model.zip", device="cpu")
    assert type(stock) is stable_baselines3.PPO
    env.seed(5)
    seen = env.reset()
    acts = [m.predict(seen, deterministic=True)[0] for m in (model, stock)]
    assert np.array_equal(*acts)
    drawn = []
    for one in (model, stock):
        torch.manual_seed(1)
        drawn.append(one.predict(seen)[0])
    assert np.array_equal(*drawn)
    earned = []
    for one in (model, stock):
        env.seed(6)
        earned.append(evaluate_policy(one, env, n_eval_episodes=4, return_episode_rewards=True))
    assert earned[0] == earned[1] and len(earned[0][0]) == 4


def test_the_stock_class_can_go_on_learning(tmp_path: Path) -> None:
    env = world()
    model = PPO(ActorCritic, env, n_steps=16, batch_size=32, n_epochs=1,
                policy_kwargs={"spread": "beta", "net_arch": [8]})  # fmt: skip
    model.learn(64)
    model.save(tmp_path / "model.zip")
    stock = stable_baselines3.PPO.load(tmp_path / "model.zip", env=world(), device="cpu")
    stock.learn(64, reset_num_timesteps=False)
    assert stock.num_timesteps == 128
