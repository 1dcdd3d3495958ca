"""TQC: truncation and its loss worked out by hand, and problems it solves."""

from typing import Any

import pytest
import sb3_contrib
import torch
from sb3_contrib.common.utils import quantile_huber_loss
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.logger import configure

from hotlap.config.learners import TQCConfig
from hotlap.learning.critics import values_of
from hotlap.learning.replay import Samples
from hotlap.learning.tqc import TQC, QuantileHuber, make_tqc, without_rosiest

torch.set_num_threads(1)


def samples(count: int, **given: Any) -> Samples:
    columns = {
        "observations": torch.rand(count, 3),
        "actions": 2 * torch.rand(count, 1) - 1,
        "next_observations": torch.rand(count, 3),
        "dones": torch.zeros(count, 1),
        "rewards": torch.rand(count, 1),
        "discounts": torch.full((count, 1), 0.9),
    }
    return Samples(**columns | given)


def small(**settings: Any) -> TQC:
    config = {"net": (32, 32), "batch_size": 64, "warm_up": 64, "envs": 2, "replay_size": 4000}
    return make_tqc(
        TQCConfig(**config | settings), make_vec_env("Pendulum-v1", 2), "cpu", 0, total_steps=4000
    )


# --- truncation ----------------------------------------------------------------------------------


def test_the_highest_of_all_critics_are_dropped_together() -> None:
    values = torch.tensor([[[4.0, 1.0, 9.0], [8.0, 2.0, 7.0]]])  # one sample, two critics
    assert without_rosiest(values, 0).tolist() == [[1, 2, 4, 7, 8, 9]]
    assert without_rosiest(values, 1).tolist() == [[1, 2, 4, 7]]
    assert without_rosiest(values, 2).tolist() == [[1, 2]]


def test_a_rosy_critic_is_left_out_altogether() -> None:
    values = torch.stack([torch.zeros(4, 5), torch.full((4, 5), 100.0)], 1)
    assert float(without_rosiest(values, 2).mean()) == pytest.approx(100 / 6)  # one of six is left
    assert float(without_rosiest(values, 3).max()) == 0.0


def test_a_backup_by_hand() -> None:
    model = small(quantiles=3, critics=2, drop=1, learn_entropy=False, entropy=0.01)
    given = ((4.0, 1.0, 9.0), (8.0, 2.0, 7.0))
    for critic, quantiles in zip(model.critic_target.q_networks, given, strict=True):
        critic[-1].weight.data.zero_()
        critic[-1].bias.data.copy_(torch.tensor(quantiles))
    batch = samples(2, rewards=torch.ones(2, 1), dones=torch.tensor([[0.0], [1.0]]))
    backup, _ = model._back_up(batch, torch.tensor(0.0))
    expected = torch.tensor([[1.9, 2.8, 4.6, 7.3], [1.0, 1.0, 1.0, 1.0]])  # 1 + 0.9 z
    torch.testing.assert_close(backup, expected)


# --- the loss ------------------------------------------------------------------------------------


def test_the_loss_by_hand() -> None:
    # Two quantiles (shares 1/4 and 3/4), one number to be taught.
    values, backup = torch.tensor([[[0.0, 3.0]]]), torch.tensor([[0.5]])
    # 0.5 too low: 1/4 * 0.5 * 0.25; 2.5 too high: (1 - 3/4) * (2.5 - 0.5)
    expected = (0.25 * 0.125 + 0.25 * 2.0) / 2
    assert float(QuantileHuber.apply(values, backup)) == pytest.approx(expected)


def test_the_loss_and_its_slope_are_those_of_sb3_contrib() -> None:
    torch.manual_seed(0)
    found = []
    for loss in (
        QuantileHuber.apply,
        lambda v, b: quantile_huber_loss(v, b.unsqueeze(1), sum_over_quantiles=False),
    ):
        torch.manual_seed(1)
        values, backup = (2 * torch.randn(16, 3, 7)).requires_grad_(), 2 * torch.randn(16, 18)
        value = loss(values, backup)
        (3 * value).backward()
        found.append((value.detach(), values.grad))
    torch.testing.assert_close(found[0][0], found[1][0])
    torch.testing.assert_close(found[0][1], found[1][1])


def test_quantiles_of_a_known_spread_are_learned() -> None:
    torch.manual_seed(0)
    values = torch.zeros(1, 1, 5, requires_grad=True)
    optimiser = torch.optim.Adam([values], lr=0.05)
    for _ in range(800):
        optimiser.zero_grad()
        QuantileHuber.apply(values, 20 * torch.rand(1, 200)).backward()
        optimiser.step()
    torch.testing.assert_close(values[0, 0], torch.tensor([2.0, 6, 10, 14, 18]), atol=0.8, rtol=0)


def test_an_update_is_that_of_sb3_contrib() -> None:
    batch = samples(64)
    moved = []
    for kind in (TQC, sb3_contrib.TQC):
        model: Any = kind(
            "MlpPolicy", make_vec_env("Pendulum-v1", 1), seed=1, ent_coef="auto_0.1",
            policy_kwargs={"net_arch": [32, 32]},
        )  # fmt: skip
        model.set_logger(configure(None, []))
        model.replay_buffer.sample = lambda *_, **__: batch
        torch.manual_seed(0)
        model.train(gradient_steps=5, batch_size=64)
        moved.append(model)
    for mine, theirs in zip(*(m.policy.state_dict().values() for m in moved), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=2e-5)


def test_critics_are_taught_at_the_action_that_was_replayed() -> None:
    model = small(learning_rate=5e-3)
    actions = torch.tensor([[-0.8], [0.8]]).repeat(32, 1)
    batch = samples(64, actions=actions, rewards=-actions.sign(), dones=torch.ones(64, 1))
    for _ in range(150):
        model._update(batch)
    values = values_of(model.critic, torch.rand(2, 3), torch.tensor([[-0.8], [0.8]])).mean(2)
    assert (values[0] > 0.8).all() and (values[1] < -0.8).all()


def test_all_critics_differ_and_are_told() -> None:
    model = small(critics=3)
    firsts = [net[0].weight for net in model.critic.q_networks]
    assert not torch.equal(firsts[0], firsts[1]) and not torch.equal(firsts[1], firsts[2])
    told = model._update(samples(8))
    assert {"debug/q1", "debug/q2", "debug/q3", "debug/q_difference"} <= set(told)
    alone = small(critics=1)._update(samples(8))
    assert "debug/q1" in alone and "debug/q_difference" not in alone


# --- problems ------------------------------------------------------------------------------------
