"""What all learners share: segments, schedules, and a state that goes through JSON."""

import json
import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3.common.env_util import make_vec_env

from hotlap.config.interface import InterfaceConfig
from hotlap.config.learners import DQNConfig, PPOConfig, SACConfig, TQCConfig
from hotlap.config.runs import Agent
from hotlap.learning.factory import make_learner, make_policy, refuse_other_actions
from hotlap.learning.learner import (
    Learner,
    flatten,
    key_generators,
    refuse_unfinite,
    segment_seed,
    unflatten,
)
from hotlap.tasks.adapters.sb3_vec import SB3VecEnv
from hotlap.tasks.batch import BatchEnv
from hotlap.tasks.interface import Interface
from hotlap.tasks.registry import make_task

torch.set_num_threads(1)
NET: dict[str, Any] = {"envs": 4, "net": (8,), "stack": 1}
REPLAY: dict[str, Any] = NET | {"replay_size": 400, "batch_size": 8, "warm_up": 8}
CONFIGS: dict[str, tuple[type[Agent], dict[str, Any]]] = {
    "ppo": (PPOConfig, NET | {"steps": 4, "batch_size": 8, "epochs": 1}),
    "dqn": (DQNConfig, REPLAY),
    "sac": (SACConfig, REPLAY),
    "tqc": (TQCConfig, REPLAY),
}
every_agent = pytest.mark.parametrize("agent", CONFIGS)


def learner(agent: str, total_steps: int = 160, seed: int = 0, **settings: Any) -> Learner:
    kind, usual = CONFIGS[agent]
    task = make_task("donkey-telemetry", max_steps=20, start="random")
    actions = "discrete" if agent == "dqn" else "continuous"
    env = SB3VecEnv(Interface(BatchEnv(task, 4), InterfaceConfig(actions=actions)))  # type: ignore[arg-type]
    return make_learner(kind(**(usual | settings)), env, "cpu", seed, total_steps)


def optimiser(model: Learner) -> torch.optim.Optimizer:
    found = getattr(model, "actor", model.policy).optimizer
    assert isinstance(found, torch.optim.Optimizer)
    return found


# --- state ---------------------------------------------------------------------------------------


def test_a_tree_of_tensors_goes_through_json_and_back() -> None:
    tree = {
        "state": {0: {"step": torch.tensor(3.0), "mean": torch.arange(4.0)}, 1: {}},
        "param_groups": [{"lr": 1e-3, "betas": [0.9, 0.999], "params": [0, 1], "foreach": None}],
        "deep": [[torch.ones(2)], True, "word"],
    }
    tensors, rest = flatten(tree, "optimiser")
    names = {"optimiser/state/0/step", "optimiser/state/0/mean", "optimiser/deep/0/0"}
    assert set(tensors) == names
    again = unflatten(tensors, json.loads(json.dumps(rest)), "optimiser")
    assert list(again["state"]) == [0, 1]  # numbers, not the words that JSON makes of them
    assert torch.equal(again["state"][0]["mean"], torch.arange(4.0))
    assert torch.equal(again["deep"][0][0], torch.ones(2))
    assert again["param_groups"] == tree["param_groups"] and again["deep"][1:] == [True, "word"]


def test_what_is_missing_is_named() -> None:
    _, rest = flatten({"weight": torch.ones(2)}, "policy")
    with pytest.raises(ValueError, match="lacks policy/weight"):
        unflatten({}, rest, "policy")


@every_agent
def test_a_learners_state_goes_through_json_and_back(agent: str) -> None:
    model = learner(agent)
    model.learn_segment(seed=0, segment=0, steps=64)
    model.rate_scale = 0.25
    tensors, numbers = model.state()
    other = learner(agent, seed=9, total_steps=7)
    saved = {name: value.clone() for name, value in tensors.items()}
    other.load_state(saved, json.loads(json.dumps(numbers)))
    again, counts = other.state()
    assert counts == json.loads(json.dumps(numbers))
    assert again.keys() == tensors.keys()
    assert all(torch.equal(again[name], tensors[name]) for name in tensors)
    assert (other.num_timesteps, other.horizon, other.rate_scale) == (64, 160, 0.25)


# --- segments ------------------------------------------------------------------------------------


def test_segments_have_seeds_of_their_own_below_those_of_evaluations() -> None:
    seeds = [segment_seed(seed, segment) for seed in range(60) for segment in range(60)]
    assert min(seeds) >= 0 and max(seeds) < 2**30
    assert Counter(seeds).most_common(1)[0][1] == 1  # 3600 of 2**30: a clash is a 0.6 % chance
    assert segment_seed(3, 4) == segment_seed(3, 4) != segment_seed(4, 3)
    assert segment_seed(2**63, 10**6) < 2**30


def test_every_generator_follows_the_key() -> None:
    import random

    drawn = []
    for segment in (1, 1, 2):
        key_generators(5, segment)
        drawn.append((random.random(), float(np.random.rand()), float(torch.rand(()))))
    assert drawn[0] == drawn[1]
    assert all(a != b for a, b in zip(drawn[0], drawn[2], strict=True))


@every_agent
def test_what_happens_in_a_segment_does_not_depend_on_draws_before_it(agent: str) -> None:
    found = []
    for waste in (0, 17):
        model = learner(agent)
        model.learn_segment(seed=1, segment=0, steps=32)
        torch.rand(waste), np.random.rand(waste)  # somebody else draws in between
        model.learn_segment(seed=1, segment=1, steps=32)
        found.append(torch.cat([p.detach().flatten() for p in model.policy.parameters()]))
    assert torch.equal(*found)


# --- schedules -----------------------------------------------------------------------------------


@every_agent
def test_a_falling_rate_follows_the_whole_training(agent: str) -> None:
    model = learner(agent, total_steps=160, schedule="linear", learning_rate=1e-2)
    per_step = 16 if agent == "ppo" else 4  # steps between two updates of the rate
    for segment in range(4):
        model.learn_segment(seed=0, segment=segment, steps=32)
        done = 32 * (segment + 1)
        assert model.num_timesteps == done
        # PPO looks at the clock after each rollout, the others after each step: just before.
        (rate,) = {group["lr"] if not torch.is_tensor(group["lr"]) else group["lr"].item()
                   for group in optimiser(model).param_groups}  # fmt: skip
        assert rate == pytest.approx(1e-2 * (1 - done / 160), abs=1e-2 * per_step / 160)
    assert rate == pytest.approx(2e-3, rel=1e-6)


@every_agent
def test_a_rate_scale_scales_the_rate_and_what_is_told_of_it(agent: str) -> None:
    for scale in (1.0, 0.5):
        model = learner(agent, learning_rate=8e-3)
        model.rate_scale = scale
        model.learn_segment(seed=0, segment=0, steps=32)
        (group,) = optimiser(model).param_groups
        assert float(group["lr"]) == pytest.approx(8e-3 * scale)
        assert model.logger.name_to_value["train/learning_rate"] == pytest.approx(8e-3 * scale)


# --- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_metric_that_is_no_number_is_named(value: float) -> None:
    refuse_unfinite({"value_loss": 1.0, "approx_kl": -1e30})
    with pytest.raises(FloatingPointError, match=f"value_loss became {value}"):
        refuse_unfinite({"policy_loss": 0.0, "value_loss": value})


def test_ppo_stops_at_a_loss_that_is_no_number() -> None:
    model = learner("ppo")
    with torch.no_grad():
        model.policy.value_net.weight.fill_(torch.nan)  # type: ignore[union-attr]
    with pytest.raises(FloatingPointError, match="loss became nan"):
        model.learn_segment(seed=0, segment=0, steps=16)


def test_ppo_stops_at_it_on_other_environments_too() -> None:
    model = make_learner(
        PPOConfig(envs=2, net=(8,), steps=8, batch_size=8), make_vec_env("CartPole-v1", 2),
        "cpu", 0, 64,
    )  # fmt: skip
    with torch.no_grad():
        model.policy.value_net.weight.fill_(torch.nan)  # type: ignore[union-attr]
    with pytest.raises(FloatingPointError, match="loss became nan"):
        model.learn_segment(seed=0, segment=0, steps=16)


@pytest.mark.parametrize("ends", [(-np.inf, np.inf), (0.0, np.inf), (-np.inf, 0.0)])
def test_actions_without_bounds_are_refused(ends: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="bounds on both sides"):
        refuse_other_actions(PPOConfig(), spaces.Box(*ends, (2,)))
    refuse_other_actions(PPOConfig(), spaces.Box(0.0, 1.0, (2,)))


def test_learners_say_which_actions_they_need() -> None:
    with pytest.raises(ValueError, match="dqn chooses among discrete actions"):
        refuse_other_actions(DQNConfig(), spaces.Box(-1.0, 1.0, (2,)))
    for config in (SACConfig(), TQCConfig()):
        with pytest.raises(ValueError, match="needs continuous actions"):
            refuse_other_actions(config, spaces.Discrete(3))


@pytest.mark.parametrize("seen", [spaces.Discrete(16), spaces.Dict({"x": spaces.Box(0, 1)})])
def test_what_is_neither_numbers_nor_a_picture_is_refused(seen: spaces.Space) -> None:
    for config in (PPOConfig(), DQNConfig()):
        with pytest.raises(ValueError, match="learners see numbers or pictures"):
            make_policy(config, seen, spaces.Discrete(2))
