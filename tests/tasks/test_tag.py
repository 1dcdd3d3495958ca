"""Who catches whom, and what it earns."""

import math

import pytest
import torch
from torch import Tensor

from hotlap.tasks.batch import BatchEnv
from hotlap.tasks.registry import make_task
from hotlap.tasks.tag import CHASER, RUNNER, TagTask
from hotlap.tasks.task import State


def tag(**settings: object) -> TagTask:
    task = make_task("tag", **settings)
    assert isinstance(task, TagTask)
    return task


def placed(task: TagTask, chaser: tuple[float, ...], runner: tuple[float, ...]) -> State:
    """One game with both players at x, y, heading, at rest."""
    state = task.begin(0, torch.zeros(1).long(), torch.zeros(1).long())
    for row, name in enumerate(("x", "y", "heading")):
        state["car"][name] = torch.tensor([[chaser[row], runner[row]]])
    return state


STAY = torch.zeros(1, 1, 2)
BOTH_STAY = torch.zeros(1, 2, 2)


@pytest.mark.parametrize(("gap", "caught"), [(0.24, True), (0.26, False)])
def test_the_runner_is_caught_within_reach(gap: float, caught: bool) -> None:
    task = tag(seats=2)
    outcome = task.advance(placed(task, (0, 0, 0), (gap, 0, 0)), BOTH_STAY)
    assert outcome.terminated.tolist() == [caught]
    assert outcome.terms["caught"].tolist() == [[1.0, -1.0] if caught else [0.0, 0.0]]
    assert outcome.metrics["distance"].item() == pytest.approx(gap)


def test_the_chaser_earns_what_it_gains() -> None:
    task = tag(seats=2)
    ahead = torch.tensor([[[1.0, 0.0], [0.0, 0.0]]])
    state = placed(task, (0, 0, 0), (1, 0, 0))
    outcome = task.advance(state, ahead)
    moved = outcome.state["car"]["x"][0, CHASER].item()
    assert 0 < moved < 0.22 * task.control_dt  # no faster than its top speed
    assert outcome.terms["gained"][0].tolist() == pytest.approx([moved, -moved], abs=1e-6)


def test_two_seats_earn_opposite_rewards_and_see_each_other() -> None:
    task = tag(seats=2, max_steps=30)
    batch = BatchEnv(task, 64, seed=3)
    seen = batch.reset()
    assert seen.shape == (64, 2, 12)
    assert torch.equal(seen[:, 0, :4], seen[:, 1, 4:8]) and torch.equal(
        seen[:, 0, 8], seen[:, 1, 8]
    )
    generator = torch.Generator().manual_seed(0)
    for _ in range(60):
        step = batch.step(torch.rand(64, 2, 2, generator=generator) * 2 - 1)
        assert step.reward.shape == (64, 2)
        assert torch.equal(step.reward[:, 0], -step.reward[:, 1])


@pytest.mark.parametrize("heading", [0.0, math.pi / 2, math.pi, -math.pi / 2])
def test_walls_hold_both_players(heading: float) -> None:
    task = tag(seats=2)
    state = placed(task, (1.85, 1.85, heading), (-1.85, -1.85, heading))
    for _ in range(40):
        state = task.advance(state, torch.tensor([[[1.0, 0.0], [1.0, 0.0]]])).state
    room = 2.0 - task.vehicle.width / 2 + 1e-6
    for name in ("x", "y"):
        assert float(state["car"][name].abs().max()) <= room


def test_the_scripted_runner_flees_and_keeps_away_from_walls() -> None:
    task = tag()
    state = placed(task, (0, 0, 0), (0.6, 0, 0))
    gaps = []
    for _ in range(200):
        outcome = task.advance(state, STAY)
        state = outcome.state
        gaps.append(outcome.metrics["distance"].item())
    assert gaps[40] > 0.6 + 0.3  # it gets away from one who stays
    assert min(gaps[40:]) > 0.6
    x, y = (state["car"][name][0, RUNNER].item() for name in ("x", "y"))
    assert max(abs(x), abs(y)) < 2.0


def chase(seen: Tensor) -> Tensor:
    """Turn towards the runner and go: columns 9 and 10 tell where it is from the chaser's seat."""
    bearing = torch.atan2(seen[:, 10], seen[:, 9])
    return torch.stack([torch.ones_like(bearing), (2 * bearing).clamp(-1, 1)], -1)


def test_a_faster_chaser_that_aims_catches_the_runner() -> None:
    batch = BatchEnv(tag(runner_speed=0.5), 8, seed=1)
    seen, caught = batch.reset(), torch.zeros(8, dtype=torch.bool)
    for _ in range(400):
        step = batch.step(chase(seen))
        seen = step.observation
        caught |= step.terminated
    assert caught.all()


def test_games_begin_inside_the_arena_and_out_of_reach() -> None:
    task = tag()
    state = task.begin(5, torch.arange(2000), torch.zeros(2000).long())
    x, y = state["car"]["x"], state["car"]["y"]
    assert float(torch.maximum(x.abs(), y.abs()).max()) <= 2.0 - task.config.capture
    gap = torch.hypot(x[:, 0] - x[:, 1], y[:, 0] - y[:, 1])
    assert float(gap.min()) > 2 * task.config.capture


def test_the_clock_ends_a_game_nobody_wins() -> None:
    batch = BatchEnv(tag(max_steps=3), 2)
    batch.reset()
    steps = [batch.step(torch.zeros(2, 2)) for _ in range(3)]
    assert [step.truncated.tolist() for step in steps] == [[False] * 2, [False] * 2, [True] * 2]
    assert not any(step.terminated.any() for step in steps)
