"""Randomised episodes that set in while a policy learns."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
import torch

from hotlap.config.learners import PPOConfig
from hotlap.config.randomisation import RandomisationConfig
from hotlap.config.training import TrainConfig
from hotlap.learning.ramps import Finish, Ramp
from hotlap.research.experiment import prepare
from hotlap.research.worlds import known_tasks
from hotlap.tasks.batch import BatchEnv
from hotlap.tasks.donkey import DonkeyTask
from hotlap.tasks.donkey_rewards import REWARDS
from hotlap.tasks.registry import make_task
from tests.research.tiny import ROAD, tiny_run

torch.set_num_threads(1)
RANGES = RandomisationConfig(friction=(0.5, 0.9), camera_up=(1.1, 1.3), share=0.8)


def batch(count: int = 400) -> BatchEnv:
    return BatchEnv(DonkeyTask(replace(ROAD, sensor="camera", randomise=RANGES)), count)


def slippery(env: BatchEnv) -> float:
    """Share of the cars with less grip than usual, which are those with a higher camera."""
    env.reset()
    grip, up = env.world["params"]["mu"][:, 0], env.world["camera"]["up"]
    differ = grip < grip.max()
    assert torch.equal(differ, up > 1)
    return float(differ.float().mean())


def test_the_share_rises_between_two_moments() -> None:
    ramp = Ramp(batch(1), (0.2, 0.6))
    shares = [ramp.share_at(done) for done in (0.0, 0.2, 0.4, 0.6, 1.0)]
    assert shares == pytest.approx([0.0, 0.0, 0.4, 0.8, 0.8])


def test_episodes_that_begin_are_randomised_as_far_as_is_due() -> None:
    env = batch()
    ramp = Ramp(env, (0.2, 0.6))
    found = []
    for done in (0.0, 0.4, 0.6):
        ramp.turn(done)
        found.append(slippery(env))
    assert found[0] == 0
    assert found[1:] == pytest.approx([0.4, 0.8], abs=0.08)


def test_a_full_share_is_what_there_is_without_a_ramp() -> None:
    env, other = batch(), batch()
    Ramp(env, (0.0, 0.5)).turn(0.7)
    env.reset(), other.reset()
    assert torch.equal(env.world["params"]["mu"], other.world["params"]["mu"])


def test_beginnings_made_ahead_of_time_are_made_again() -> None:
    env = batch(8)
    ramp = Ramp(env, (0.0, 0.5))
    ramp.turn(0.0)
    env.reset()
    far = torch.tensor([[1.0, 1.0]] * 8)
    while not bool(env.step(far).done.any()):  # the first to end has all next episodes made
        pass
    ramp.turn(0.6)
    for _ in range(600):
        env.step(far)
    assert float(env.world["params"]["mu"].min()) < float(env.world["params"]["mu"].max())


def run(**own: Any) -> Any:
    settings = replace(ROAD, sensor="camera", randomise=RANGES)
    return prepare(tiny_run(sensor="camera", settings=settings, **own), print)


def test_a_training_lets_them_set_in() -> None:
    made = run(ramp=(0.5, 1.0))
    task, learner = made.env.task, made.learner
    learner.horizon = 128
    learner.learn_segment(0, 0, 64)
    early = float(task.share)
    learner.learn_segment(0, 1, 64)
    assert early == 0 and 0 < float(task.share) < RANGES.share


def test_a_model_holds_nothing_of_a_ramp(tmp_path: Path) -> None:
    """Which holds the simulator, and on a GPU what cannot be written at all."""
    made = run(ramp=(0.5, 1.0))
    made.learner.save(tmp_path / "model.zip")
    assert "ramps" not in json.loads(ZipFile(tmp_path / "model.zip").read("data"))


def test_by_default_there_is_no_ramp() -> None:
    made = run()
    assert made.learner.ramps == () and made.env.task.share is None


def test_only_roads_have_one() -> None:
    with pytest.raises(ValueError, match="donkey tasks only, not tag"):
        Ramp(BatchEnv(make_task("tag"), 1), (0.0, 0.5))


def price(env: BatchEnv) -> float:
    """What the first car to leave the road pays for its end."""
    env.reset()
    hard = torch.tensor([[1.0, 1.0]] * env.num_envs)
    while not bool((step := env.step(hard)).terminated.any()):
        pass
    return float(step.terms["ended"].min())


def test_a_reward_turns_into_another_between_two_moments() -> None:
    env = BatchEnv(DonkeyTask(replace(ROAD, reward="sure", end="road", max_steps=200)), 4)
    finish = Finish(env, "careful", (0.2, 0.6))
    paid = []
    for done in (0.0, 0.2, 0.4, 0.6, 1.0):
        finish.turn(done)
        paid.append(price(env))
    first, last = REWARDS["sure"]["ended"], REWARDS["careful"]["ended"]
    assert paid == pytest.approx([first, first, (first + last) / 2, last, last])


def test_a_reward_takes_up_terms_that_it_lacked() -> None:
    """And keeps the window from which v6 tells circles, although the first reward needs none."""
    env = BatchEnv(DonkeyTask(replace(ROAD, reward="v1")), 2)
    finish = Finish(env, "v6", (0.0, 0.5))
    for done, there in ((0.0, False), (0.6, True)):
        finish.turn(done)
        env.reset()
        terms = env.step(torch.tensor([[0.0, 1.0]] * 2)).terms
        assert set(terms) == {"close_speed", "gated_speed", "ended"}
        assert bool((terms["close_speed"] != 0).all()) != there
        assert bool((terms["gated_speed"] != 0).all()) == there


def test_a_training_turns_its_reward_and_is_judged_by_the_last() -> None:
    made = run(finish="careful", finish_between=(0.5, 1.0))
    task, learner = made.env.task, made.learner
    learner.horizon = 128
    learner.learn_segment(0, 0, 64)
    early = float(task.turning.share)
    learner.learn_segment(0, 1, 64)
    assert early == 0 and 0 < float(task.turning.share) < 1
    settled = TrainConfig(ppo=PPOConfig(finish="careful")).settle("cpu", False, known_tasks())
    assert settled.evaluation.reward == "careful"
