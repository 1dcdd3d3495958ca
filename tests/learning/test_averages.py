"""Weights averaged over updates: what is judged and kept, and what goes on learning."""

from pathlib import Path

import pytest
import torch
from torch import nn

from hotlap.learning.averages import Average
from hotlap.research.experiment import prepare
from hotlap.research.models import open_model, save_model
from tests.research.tiny import tiny_run

torch.set_num_threads(1)


def test_it_is_the_mean_of_the_first_and_then_fades() -> None:
    net = nn.Linear(1, 1, bias=False)
    average = Average(net, over=4)
    told = []
    for value in (2.0, 4.0, 6.0, 8.0, 10.0):
        net.weight.data.fill_(value)
        average.note()
        with average.lent():
            told.append(net.weight.item())
        assert net.weight.item() == value
    assert told == [2.0, 3.0, 4.0, 5.0, 5.0 + (10.0 - 5.0) / 4]


def test_before_the_first_update_nothing_is_lent() -> None:
    net = nn.Linear(1, 1, bias=False)
    average = Average(net, over=4)
    net.weight.data.fill_(3.0)  # loaded from elsewhere
    with average.lent():
        assert net.weight.item() == 3.0


def test_own_weights_come_back_after_an_error() -> None:
    net = nn.Linear(1, 1, bias=False)
    average = Average(net, over=4)
    for value in (1.0, 2.0):
        net.weight.data.fill_(value)
        average.note()
    with pytest.raises(KeyError), average.lent():
        raise KeyError
    assert net.weight.item() == 2.0


def test_a_model_is_the_average_and_a_state_holds_both(tmp_path: Path) -> None:
    config = tiny_run(average_over=8)
    made = prepare(config, print)
    made.learner.learn_segment(0, 0, 128)
    own = made.learner.policy.action_net.weight.detach().clone()
    save_model(tmp_path / "model", config, made.learner, made.env.observation_space, None)
    kept = open_model(str(tmp_path / "model")).policy.action_net.weight
    with made.learner.at_its_best():
        mean = made.learner.policy.action_net.weight.detach().clone()
    assert torch.equal(kept, mean) and not torch.equal(kept, own)
    assert torch.equal(made.learner.policy.action_net.weight, own)
    other = prepare(config, print).learner
    other.load_state(*made.learner.state())
    assert torch.equal(other.policy.action_net.weight, own)
    with other.at_its_best():
        assert torch.equal(other.policy.action_net.weight, mean)


def test_by_default_the_latest_weights_are_the_best() -> None:
    learner = prepare(tiny_run(), print).learner
    learner.learn_segment(0, 0, 64)
    own = learner.policy.action_net.weight.detach().clone()
    with learner.at_its_best():
        assert torch.equal(learner.policy.action_net.weight, own)
