"""A strip below the pictures that shows what was commanded."""

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import Tensor

from hotlap.config.interface import InterfaceConfig
from hotlap.config.sensors import CameraConfig
from hotlap.tasks.batch import BatchEnv
from hotlap.tasks.dashboard import BRIGHT, DARK, MEMORY, ROWS, Dashboard
from hotlap.tasks.interface import Interface
from hotlap.tasks.registry import make_task

torch.set_num_threads(1)
WORLD = 3
CAMERA = CameraConfig(width=50, height=16, colour=False)
PICTURES = spaces.Box(0, 255, (16, 50, 1), np.uint8)
PAIR = spaces.Box(np.array([-1.0, 0.0], np.float32), np.array([1.0, 1.0], np.float32))


def interface(**config: Any) -> Interface:
    task = make_task("donkey", start="random", max_steps=7, camera=CAMERA)
    return Interface(BatchEnv(task, WORLD), InterfaceConfig(**config))


def commands(seed: int = 0) -> Tensor:
    draws = torch.Generator().manual_seed(seed)
    return torch.rand(20, WORLD, 2, generator=draws) * torch.tensor([2.0, 1.0]) - torch.tensor(
        [1.0, 0.0]
    )


def shares(seen: Tensor) -> Tensor:
    """How far each bar of the newest frame is filled (B, bars)."""
    row = (seen[:, -1, :48, -1].float() - DARK) / (BRIGHT - DARK)
    return row.unflatten(1, (6, 8)).mean(-1)


def test_bars_are_means_of_the_commands() -> None:
    env = interface(dashboard=True)
    env.reset(0)
    kept = torch.tensor([0.5, 0.0]).repeat(WORLD, 1).unsqueeze(-1).repeat(1, 1, len(MEMORY))
    for action in commands()[:6]:
        step = env.step(action)
        assert not step.done.any()
        told = torch.stack([(action[:, 0] + 1) / 2, action[:, 1]], -1).unsqueeze(-1)
        kept += (told - kept) / torch.tensor(MEMORY)
        assert torch.allclose(shares(step.observation), kept.flatten(1), atol=0.01)
    assert torch.equal(step.observation[:, -ROWS:], step.observation[:, -1:].repeat(1, ROWS, 1, 1))
    assert (step.observation[:, -ROWS:, 48:] == DARK).all()


def test_it_changes_nothing_but_what_is_seen() -> None:
    with_strip, without = interface(dashboard=True, stack=2), interface(stack=2)
    assert with_strip.observation_space.shape == (16 + ROWS, 50, 2)
    seen = [env.reset(0) for env in (with_strip, without)]
    for action in commands():
        assert seen[0].shape[1:] == with_strip.observation_space.shape
        assert torch.equal(seen[0][:, :-ROWS], seen[1])
        steps = [env.step(action) for env in (with_strip, without)]
        assert torch.equal(steps[0].reward, steps[1].reward)
        seen = [step.observation for step in steps]


def test_an_episode_begins_with_nothing_commanded() -> None:
    env = interface(dashboard=True, stack=2)
    first = env.reset(0)
    rest = torch.tensor([0.5] * 3 + [0.0] * 3).repeat(WORLD, 1)
    assert torch.allclose(shares(first), rest)
    for action in commands()[:7]:
        step = env.step(action)
    assert step.done.all()
    assert torch.allclose(shares(step.observation), rest)
    ended = env.final_observation(torch.tensor([2, 0]))
    last = torch.stack([(action[:, 0] + 1) / 2, action[:, 1]], -1)[[2, 0]]
    assert torch.allclose(shares(ended)[:, [0, 3]], last, atol=0.01)
    env.step(commands()[0])
    again = env.reset(mask=torch.tensor([True, False, False]))
    assert torch.allclose(shares(again)[0], rest[0])
    assert not torch.allclose(shares(again)[1], rest[1])


def test_worlds_looked_at_show_the_strip_of_the_step_before() -> None:
    env = interface(dashboard=True, stack=2)
    env.reset(0)
    before = env.step(commands()[0]).observation
    env.step(commands()[1])
    seen = env.look(env.batch.ended_world, before)
    assert seen.shape == before.shape
    assert torch.equal(seen[:, -ROWS:, :, 1:], before[:, -ROWS:, :, 1:])


@pytest.mark.parametrize("stack", [1, 3])
def test_it_is_saved_and_goes_on(stack: int) -> None:
    env, other = (interface(dashboard=True, stack=stack) for _ in range(2))
    env.reset(0)
    for action in commands()[:4]:
        seen = env.step(action).observation
    assert torch.equal(other.load_state(env.save_state()), seen)
    for action in commands(1):
        assert torch.equal(env.step(action).observation, other.step(action).observation)


def test_chosen_actions_are_shown_as_what_they_command() -> None:
    env = interface(dashboard=True, actions="discrete")
    env.reset(0)
    seen = env.step(torch.tensor([0, 7, 14])).observation
    assert torch.allclose(
        shares(seen)[:, [0, 3]], torch.tensor([[0.0, 0.0], [0.5, 0.5], [1.0, 1.0]]), atol=0.01
    )


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(ValueError, match="a dashboard is for pictures"):
        Dashboard(PAIR, spaces.Box(-1.0, 1.0, (4,), np.float32), torch.device("cpu"))
    narrow = spaces.Box(0, 255, (16, 20, 1), np.uint8)
    with pytest.raises(ValueError, match="6 bars need 24 columns, got 20"):
        Dashboard(PAIR, narrow, torch.device("cpu"))
