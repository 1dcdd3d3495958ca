"""Values from a critic that knows the state, while the policy sees pictures."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
import torch
from torch.nn.functional import mse_loss

from hotlap.config.carracing import CarRacingConfig
from hotlap.config.learners import PPOConfig
from hotlap.config.randomisation import RandomisationConfig
from hotlap.config.training import TrainConfig
from hotlap.learning.advantages import estimate_advantages
from hotlap.research.experiment import prepare
from hotlap.research.insight import make_insight
from hotlap.research.worlds import known_tasks
from hotlap.tasks.batch import BatchEnv
from hotlap.tasks.carracing import COURSE, CarRacingTask
from hotlap.tasks.donkey import DonkeyTask
from hotlap.tasks.registry import make_task
from tests.research.tiny import ROAD, tiny_run

torch.set_num_threads(1)


def made(**own: Any) -> Any:
    settings = replace(ROAD, sensor="camera", randomise=RandomisationConfig(friction=(0.5, 0.9)))
    return prepare(tiny_run(sensor="camera", settings=settings, knowing=True, **own), print)


def test_it_knows_the_state_and_the_cars_own_grip() -> None:
    one = made()
    one.env.reset()
    world = one.env.batch.world
    seen = one.learner.knowing.see(world)
    settings = replace(one.env.task.config, sensor="state")
    eyes = DonkeyTask(settings, tracks=one.env.task.roads.tracks)
    numbers = eyes.observe(world).flatten(1)
    assert torch.equal(seen[:, : numbers.shape[1]], numbers)
    names = sorted(world["params"])
    grip = seen[:, numbers.shape[1] + names.index("mu")]
    assert torch.equal(grip, world["params"]["mu"][:, 0])
    assert grip.unique().numel() == 4


def test_advantages_are_worked_out_from_its_values() -> None:
    learner = made().learner
    learner.knowing._net.values = lambda seen: torch.full((len(seen),), 7.0)
    learner.knowing.improve = lambda *given: {}
    learner.learn_segment(0, 0, 32)
    rollouts = learner.rollout_buffer
    assert (rollouts.values == 7).all()
    wanted = estimate_advantages(
        rollouts.rewards, rollouts.values, torch.full((4,), 7.0), rollouts.done,
        learner.gamma, learner.gae_lambda,
    )  # fmt: skip
    assert torch.allclose(rollouts.advantages, wanted)


def test_it_learns_the_returns() -> None:
    learner = made(steps=32, learning_rate=3e-3).learner
    learner.learn_segment(0, 0, 128)
    knowing, rollouts = learner.knowing, learner.rollout_buffer
    first = knowing.improve(1, 16, 3e-3)["knowing_loss"]
    for _ in range(30):
        last = knowing.improve(1, 16, 3e-3)["knowing_loss"]
    assert last < 0.3 * first
    knowing.judge()
    left = (rollouts.returns - rollouts.values).var() / rollouts.returns.var()
    assert float(left) < 0.3


def test_what_the_clock_cut_off_is_worth_what_it_says() -> None:
    one = made(steps=16)  # episodes last 12 steps
    learner, paid = one.learner, []
    value = learner.knowing.value
    learner.knowing.value = lambda world: paid.append(len(world["key"])) or value(world) + 1000.0
    learner.learn_segment(0, 0, 64)
    late = learner.rollout_buffer.truncated
    assert late.any()
    assert (learner.rollout_buffer.rewards[late] > 900).all()
    assert sum(paid) >= int(late.sum())


def test_it_is_saved_with_a_run_and_goes_on_as_it_was() -> None:
    one, other = made(), made()
    one.learner.learn_segment(0, 0, 32)
    other.learner.load_state(*one.learner.state())
    for each in (one, other):
        each.learner.learn_segment(0, 1, 32)
    states = [each.learner.state()[0] for each in (one, other)]
    assert any(name.startswith("knowing/net") for name in states[0])
    for name, value in states[0].items():
        assert torch.equal(value, states[1][name]), name


# --- describing ------------------------------------------------------------------------------


def describing(weight: float = 1.0, **own: Any) -> Any:
    return made(describing=weight, steps=32, learning_rate=3e-3, **own).learner


def test_a_fixed_mix_can_tell_the_state() -> None:
    learner = describing()
    learner.learn_segment(0, 0, 128)
    optimizer, losses = learner.policy.optimizer, []
    optimizer.param_groups[0]["lr"] = 1e-3
    for _ in range(100):
        losses.append(undescribed(learner))
        optimizer.zero_grad()
        losses[-1].backward()
        optimizer.step()
    assert losses[-1].item() < 0.65 * losses[0].item()


def test_the_loss_grows_by_what_is_not_described() -> None:
    told = []
    for weight in (1.0, 3.0):
        learner = describing(weight)
        learner.learn_segment(0, 0, 128)
        descend = learner._gradient_step(learner.rollout_buffer)
        _, metrics = descend.module(*descend.fetch(EVERYTHING, torch.tensor(0.2)))
        told.append({name: metric.item() for name, metric in metrics.items()})
        rest = told[-1]["loss"] - weight * told[-1]["undescribed"]
        value = learner.vf_coef * told[-1]["value_loss"]
        assert rest == pytest.approx(told[-1]["policy_gradient_loss"] + value, abs=1e-5)


def test_without_a_weight_nobody_asks_for_the_state() -> None:
    learner = made(steps=32).learner
    learner.learn_segment(0, 0, 128)
    names = learner._gradient_step(learner.rollout_buffer).names
    assert "undescribed" not in names and "policy_gradient_loss" in names


def test_what_is_asked_reaches_the_encoder_and_not_the_actor() -> None:
    learner = describing()
    learner.learn_segment(0, 0, 128)
    learner.policy.optimizer.zero_grad()
    undescribed(learner).backward()
    assert learner.policy.features_extractor.cnn[0].weight.grad.abs().max() > 0
    assert learner.policy.action_net.weight.grad is None


def test_a_model_that_describes_has_the_weights_of_one_that_does_not() -> None:
    plain, other = made().learner.policy.state_dict(), describing().policy.state_dict()
    assert {k: v.shape for k, v in plain.items()} == {k: v.shape for k, v in other.items()}


def test_one_that_describes_goes_on_as_it_was() -> None:
    one, other = describing(), describing()
    one.learn_segment(0, 0, 128)
    other.load_state(*one.state())
    for each in (one, other):
        each.learn_segment(0, 1, 128)
    states = [each.state()[0] for each in (one, other)]
    for name, value in states[0].items():
        assert torch.equal(value, states[1][name]), name


def test_what_nobody_knows_cannot_be_described() -> None:
    with pytest.raises(ValueError, match=r"describing needs .* knowing"):
        PPOConfig(describing=1.0)
    with pytest.raises(ValueError, match="describing must be 0 or more"):
        PPOConfig(describing=-1.0, knowing=True)


EVERYTHING = torch.arange(128)


def undescribed(learner: Any) -> torch.Tensor:
    """How far the account of the last rollout is from what is known."""
    account = learner._gradient_step(learner.rollout_buffer).module.account
    seen = learner.rollout_buffer._get_samples(EVERYTHING).observations
    latent = learner.policy.read_closely(seen)[2]
    return mse_loss(account(latent), learner.knowing.told_at(EVERYTHING))


def test_one_that_knew_other_numbers_is_refused_in_words() -> None:
    one = made()
    tensors, numbers = one.learner.state()
    tensors["knowing/net/scale.mean"] = torch.zeros(3)
    with pytest.raises(ValueError, match=r"knows 3 numbers .* another version .* --init-from"):
        one.learner.load_state(tensors, numbers)


def test_a_model_holds_nothing_of_it(tmp_path: Path) -> None:
    made().learner.save(tmp_path / "model.zip")
    assert "knowing" not in json.loads(ZipFile(tmp_path / "model.zip").read("data"))


def test_by_default_there_is_none() -> None:
    assert prepare(tiny_run(), print).learner.knowing is None


def test_a_critic_of_carracing_knows_the_road_ahead_and_what_is_left() -> None:
    settings = CarRacingConfig(tracks=("carracing:3",), repeat=4)
    run = tiny_run(settings=settings, task="carracing", knowing=True)
    learner = prepare(run, print).learner
    learner.learn_segment(0, 0, 32)
    task = CarRacingTask(settings)
    batch = BatchEnv(task, 1)
    batch.reset()
    for _ in range(12):
        batch.step(torch.tensor([[0.0, 0.5]]))
    world = batch.world
    known = learner.knowing.see(world)[0]
    count, ahead = len(COURSE), 5 + 4 + 4
    forward, left = known[ahead : ahead + count], known[ahead + count : ahead + 2 * count]
    # From node to node it is 3.5 units; the car is about on the road and looks along it.
    assert forward[0].item() == pytest.approx(3.5, abs=3.5)
    assert forward[3].item() == pytest.approx(forward[0].item() + 3 * 3.5, abs=1.0)
    assert left[:3].abs().max() < 4.0
    tiles = int(task.tiles.count[0])
    assert known[-4].item() == pytest.approx(1 - int(world["count"][0]) / tiles)
    assert known[-3].item() == pytest.approx(48 / 1000)
    assert known[-1].item() == 0
    spoiled = learner.knowing.see(world | {"spoiled": torch.tensor([True])})[0]
    assert spoiled[-1].item() == 1
    unseen = known[ahead + 2 * count : ahead + 3 * count]
    assert unseen.tolist()[1:] == [1.0] * (count - 1)


def test_only_tasks_that_are_known_have_one() -> None:
    config = TrainConfig(task="CartPole-v1")
    config = replace(config, ppo=replace(config.ppo, knowing=True))
    with pytest.raises(ValueError, match=r"ppo\.knowing is for hotlap's own tasks only"):
        config.settle("cpu", False, known_tasks())
    with pytest.raises(ValueError, match="for donkey and carracing only, not tag"):
        make_insight(make_task("tag"))
