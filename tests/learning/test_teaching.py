"""Advice lies beside what was seen, pulls as hard as it should, and is gone after its time."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stable_baselines3
import torch
from torch import Tensor

from hotlap.config.interface import InterfaceConfig
from hotlap.config.learners import PPOConfig
from hotlap.config.sensors import CameraConfig
from hotlap.config.tasks import DonkeyConfig
from hotlap.learning.driver import Driver
from hotlap.learning.factory import make_learner
from hotlap.learning.ppo import _Loss
from hotlap.learning.teaching import Teacher
from hotlap.tasks.adapters.sb3_vec import SB3VecEnv
from hotlap.tasks.batch import BatchEnv
from hotlap.tasks.donkey import DonkeyTask
from hotlap.tasks.interface import Interface

torch.set_num_threads(1)
ROAD = DonkeyConfig(sensor="telemetry", start="random", max_steps=5)
SMALL = CameraConfig(width=44, height=36, colour=False)
SEEN = 16
"""Numbers in a moment of telemetry."""


class Says:
    """A driver that does the same everywhere, or as a function of what it sees tells it."""

    def __init__(self, what: Any) -> None:
        self.what = what

    def __call__(self, seen: Tensor) -> Tensor:
        return self.what(seen) if callable(self.what) else self.what.expand(len(seen), 2)


def learner_of(
    road: DonkeyConfig = ROAD, total: int = 64, teacher: Any = None, until: float = 1.0, **own: Any
) -> Any:
    """A small learner on four cars, taught by a function."""
    agent = PPOConfig(**({"envs": 4, "net": (8,), "stack": 1, "steps": 16, "batch_size": 16,
                          "epochs": 1, "encoder": "small"} | own))  # fmt: skip
    batch = BatchEnv(DonkeyTask(road), 4, borrow=True, captured=True)
    env = SB3VecEnv(Interface(batch, InterfaceConfig(stack=agent.stack)))
    learner: Any = make_learner(agent, env, "cpu", 0, total)
    if teacher is not None:
        eyes = DonkeyTask(ROAD, tracks=batch.task.roads.tracks)  # type: ignore[attr-defined]
        learner.teacher = Teacher(Says(teacher), eyes, 20.0, until)  # type: ignore[arg-type]
    return learner


def test_the_weight_falls_to_nothing_and_stays_there() -> None:
    teacher = Teacher(Driver, DonkeyTask, 20.0, 0.5)  # type: ignore[arg-type]
    weights = [teacher.weight_at(done) for done in (0.0, 0.25, 0.5, 1.0)]
    assert weights == [20.0, 10.0, 0.0, 0.0]
    teacher.fade = 4.0
    weights = [teacher.weight_at(done) for done in (0.0, 0.25, 0.5, 1.0)]
    assert weights == [20.0, 1.25, 0.0, 0.0]


@pytest.mark.parametrize("stack", [1, 2])
def test_advice_is_on_the_world_that_is_seen_in_the_same_step(stack: int) -> None:
    """Told of its own eyes, which are the learner's: across endings, too."""
    learner = learner_of(teacher=lambda seen: seen[:, :2], stack=stack)
    learner.learn_segment(0, 0, 64)
    rollouts = learner.rollout_buffer
    newest = rollouts.observations[..., (stack - 1) * SEEN :][..., :2]
    assert rollouts.done.sum() >= 12 and float(newest.std()) > 0.01
    assert torch.equal(rollouts.advice, newest)


def test_minibatches_have_the_advice_of_their_own_samples() -> None:
    learner = learner_of(teacher=lambda seen: seen[:, :2])
    learner.learn_segment(0, 0, 64)
    rollouts = learner.rollout_buffer
    chosen = torch.tensor([3, 60, 17])
    seen = rollouts._get_samples(chosen).observations
    assert torch.equal(rollouts.advice_at(chosen), seen[:, :2])


def test_the_loss_grows_by_the_weight_times_the_squared_distance() -> None:
    learner = learner_of()
    learner.learn_segment(0, 0, 64)
    samples = learner.rollout_buffer._get_samples(torch.arange(16))
    loss = _Loss(learner, None)
    reach, advice = torch.tensor(0.2), torch.full((16, 2), 0.25)
    plain, _ = loss(*samples, reach)
    taught, told = loss(*samples, reach, None, advice, torch.tensor(3.0))
    said, _ = learner.policy.read(samples.observations)
    apart = (learner.policy.spread.mode(said) - advice).square().mean()
    assert told["astray"].item() == pytest.approx(apart.item())
    assert taught.item() == pytest.approx((plain + 3.0 * apart).item(), rel=1e-5)


@pytest.mark.parametrize("policy", ["gaussian", "squashed", "beta"])
def test_a_learner_with_a_camera_comes_to_do_what_it_is_told(policy: str) -> None:
    wanted = torch.tensor([0.4, 0.3])
    road = DonkeyConfig(camera=SMALL, start="random", max_steps=50)
    off = []
    for teacher in (None, wanted):
        learner = learner_of(road, 10_000, teacher, policy=policy, learning_rate=3e-3, epochs=8)
        learner.learn_segment(0, 0, 64)
        seen = learner.rollout_buffer._get_samples(torch.arange(64)).observations
        with torch.no_grad():
            acts = learner.policy._predict(seen, deterministic=True)
        off.append(float((acts - wanted).abs().mean()))
    assert off[0] > 0.15 and off[1] < off[0] / 2


def test_after_its_time_a_teacher_changes_nothing() -> None:
    """The only update comes when all of the training is done."""
    found = []
    for teacher in (None, torch.tensor([0.4, 0.3])):
        learner = learner_of(total=64, teacher=teacher, until=0.5)
        learner.learn_segment(0, 0, 64)
        found.append(learner.policy.state_dict())
    for name, value in found[0].items():
        torch.testing.assert_close(found[1][name], value, rtol=1e-5, atol=1e-7)


def test_a_taught_model_opens_with_the_stock_class_and_without_its_teacher(tmp_path: Path) -> None:
    road = DonkeyConfig(camera=SMALL, start="random", max_steps=5)
    learner = learner_of(road, teacher=torch.tensor([0.4, 0.3]), standardise=True)
    learner.learn_segment(0, 0, 64)
    learner.save(tmp_path / "model.zip")
    stock = stable_baselines3.PPO.load(tmp_path / "model.zip")
    assert type(stock) is stable_baselines3.PPO and not hasattr(stock, "teacher")
    seen = learner.env.reset()
    acts = [model.predict(seen, deterministic=True)[0] for model in (learner, stock)]
    assert np.array_equal(*acts)
    assert stock.policy.features_extractor.standardise
