"""The checker passes what is right and names what is wrong."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import Tensor

from hotlap.sim.random import Stream, make_key, uniform
from hotlap.tasks.batch import BatchEnv
from hotlap.tasks.task import Outcome, State, Task
from hotlap.testing import ContractError, check_batch_env


class Walk(Task):
    """A walker on a line that ends far out or late, with a fault of choice."""

    name = "walk"
    control_dt = 0.1
    max_steps = 20
    device = torch.device("cpu")
    observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float32)
    action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self, fault: str = "") -> None:
        self.fault = fault
        self.hidden = 0.0

    def begin(self, seed: int | Tensor, who: Tensor, episode: Tensor) -> State:
        key = make_key(who, seed, episode)
        place = uniform(make_key(key, Stream.START), 1)
        if self.fault == "seed unused":
            place = uniform(make_key(who, episode), 1)
        if self.fault == "shared generator":
            place = torch.rand(len(who), 1)
        if self.fault == "place in the batch":
            place = torch.arange(len(who)).unsqueeze(-1) / 64
        return {"key": key, "x": place}

    def advance(self, state: State, action: Tensor) -> Outcome:
        x = state["x"] + 0.3 * action[:, :, 0]
        if self.fault == "sums over the batch":
            x = x - 0.1 * x.mean()
        if self.fault == "hidden state":
            self.hidden += 0.01
            x = x + 0.001 * self.hidden
        over = (x > 1.2).squeeze(-1)
        terms = {"out": x * 0.1}
        return Outcome(state | {"x": x}, terms, over, torch.zeros_like(over), {"x": x.squeeze(-1)})

    def observe(self, state: State) -> Tensor:
        x = state["x"].unsqueeze(-1)
        return x.double() if self.fault == "type" else x


class ForgetfulBatch(BatchEnv):
    def final_observation(self, index: Tensor) -> Tensor:
        return self.task.observe(self.world)[index].squeeze(1)


class MuddledBatch(BatchEnv):
    def step(self, action: Tensor):  # type: ignore[no-untyped-def]
        step = super().step(action)
        return replace(step, truncated=step.truncated | step.terminated)


class ThoroughBatch(BatchEnv):
    def reset(self, seed: int | None = None, mask: Tensor | None = None) -> Tensor:
        return super().reset(seed, None if mask is None else torch.ones_like(mask))


def check(task: Task, kind: type[BatchEnv] = BatchEnv) -> list[str]:
    return check_batch_env(lambda n, seed, who: kind(task, n, seed, who), steps=60)


def test_a_right_task_passes() -> None:
    assert len(check(Walk())) == 7


@pytest.mark.parametrize(
    ("fault", "complaint"),
    [
        ("type", "observations torch.float32"),
        ("seed unused", "another seed"),
        ("shared generator", "the same seed"),
        ("place in the batch", "to begin the same|another seed"),
        ("sums over the batch", "to go the same way"),
        ("hidden state", "the same"),
    ],
)
def test_a_fault_of_the_task_is_named(fault: str, complaint: str) -> None:
    with pytest.raises(ContractError, match=complaint):
        check(Walk(fault))


@pytest.mark.parametrize(
    ("kind", "complaint"),
    [
        (ForgetfulBatch, "final_observation after step"),
        (MuddledBatch, "terminated or truncated"),
        (ThoroughBatch, "to change no other bit"),
    ],
)
def test_a_fault_of_the_batch_is_named(kind: type[BatchEnv], complaint: str) -> None:
    with pytest.raises(ContractError, match=complaint):
        check(Walk(), kind)


def test_it_says_when_nothing_ended() -> None:
    task = Walk()
    with pytest.raises(ContractError, match="smaller max_steps"):
        check_batch_env(lambda n, seed, who: BatchEnv(task, n, seed, who), steps=2)
