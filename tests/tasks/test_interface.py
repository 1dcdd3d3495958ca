"""How a learner meets a batch: discrete actions, stacked frames, and nothing else changed."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import Tensor

from hotlap.config.interface import InterfaceConfig
from hotlap.config.sensors import CameraConfig
from hotlap.tasks.batch import BatchEnv, Step
from hotlap.tasks.interface import (
    Interface,
    Reel,
    action_table,
    encode_action,
    find_frames,
    find_frames_by_words,
    stacked_space,
)
from hotlap.tasks.registry import make_task
from hotlap.tasks.task import Task

torch.set_num_threads(1)
SMALL = CameraConfig(width=20, height=16, colour=False)
TASKS = pytest.mark.parametrize("name", ["donkey-telemetry", "donkey"])
WORLD = 5
"""Environments; episodes of at most 7 steps, so that they end at once and by crashes in between."""


def task(name: str = "donkey-telemetry", **settings: Any) -> Task:
    return make_task(name, start="random", max_steps=7, camera=SMALL, max_cte=1.0, **settings)


def interface(name: str = "donkey-telemetry", **config: Any) -> Interface:
    return Interface(BatchEnv(task(name), WORLD), InterfaceConfig(**config))


def box(low: list[float], high: list[float]) -> spaces.Box:
    return spaces.Box(np.array(low, np.float32), np.array(high, np.float32))


def actions(steps: int, seed: int = 0) -> Iterator[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        yield torch.rand(WORLD, 2, generator=generator) * torch.tensor([2.0, 1.0]) - torch.tensor(
            [1.0, 0.0]
        )


def same(mine: Step, other: Step) -> bool:
    names = ("reward", "terminated", "truncated", "episode_return", "episode_length")
    return all(torch.equal(getattr(mine, name), getattr(other, name)) for name in names)


# --- discrete actions ----------------------------------------------------------------------------


def test_index_7_of_5_by_3_is_straight_on_at_half_throttle() -> None:
    table = action_table(task().action_space, InterfaceConfig(n_steer=5, n_throttle=3))
    assert table.shape == (15, 2)
    assert table[7].tolist() == [0.0, 0.5]
    assert table[0].tolist() == [-1.0, 0.0] and table[14].tolist() == [1.0, 1.0]
    assert table[:4].tolist() == [[-1.0, 0.0], [-1.0, 0.5], [-1.0, 1.0], [-0.5, 0.0]]


@pytest.mark.parametrize(("steer", "throttle"), [(5, 3), (1, 1), (2, 1), (1, 4), (101, 21)])
def test_every_action_is_found_again(steer: int, throttle: int) -> None:
    space = box([-1.0, 0.0], [1.0, 0.25])
    table = action_table(space, InterfaceConfig(n_steer=steer, n_throttle=throttle))
    assert len(table) == steer * throttle == len(table.unique(dim=0))
    assert torch.equal(encode_action(table, table), torch.arange(len(table)))
    low, high = torch.as_tensor(space.low), torch.as_tensor(space.high)
    assert (table >= low).all() and (table <= high).all()


def test_a_single_command_is_the_middle_one() -> None:
    table = action_table(task().action_space, InterfaceConfig(n_steer=1, n_throttle=1))
    assert table.tolist() == [[0.0, 0.5]]


def test_a_continuous_action_becomes_the_nearest() -> None:
    table = action_table(task().action_space, InterfaceConfig())
    near = torch.tensor([[0.2, 0.6], [-0.9, 0.1], [0.3, 1.0]])
    assert encode_action(table, near).tolist() == [7, 0, 11]


def test_an_index_drives_as_the_action_it_stands_for() -> None:
    chosen, plain = interface(actions="discrete"), interface()
    assert chosen.action_space == spaces.Discrete(15)
    assert torch.equal(chosen.reset(seed=4), plain.reset(seed=4))
    for index in (7, 11, 14):
        steps = chosen.step(torch.full((WORLD,), index)), plain.step(chosen.table[[index] * WORLD])
        assert torch.equal(steps[0].observation, steps[1].observation) and same(*steps)


@pytest.mark.parametrize("count", [1, 3])
def test_actions_of_other_than_two_numbers_are_refused(count: int) -> None:
    space = spaces.Box(-1.0, 1.0, (count,))
    with pytest.raises(ValueError, match=rf"two numbers.*got shape \({count},\)"):
        action_table(space, InterfaceConfig(actions="discrete"))


# --- stacks --------------------------------------------------------------------------------------


@TASKS
@pytest.mark.parametrize(("stack", "every"), [(2, 1), (3, 1), (2, 3), (3, 2)])
def test_a_stack_is_what_single_frames_give_stacked_by_hand(
    name: str, stack: int, every: int
) -> None:
    """Oldest first; where an episode began, its first frame is repeated."""
    stacked = interface(name, stack=stack, stack_every=every)
    single = BatchEnv(task(name), WORLD)
    frames = [single.reset(seed=2)] * ((stack - 1) * every + 1)
    assert torch.equal(stacked.reset(seed=2), torch.cat(frames[::every], -1))
    ended = 0
    for action in actions(20):
        step, alone = stacked.step(action), single.step(action)
        assert same(step, alone)
        over = alone.done.nonzero().flatten()
        ended += len(over)
        if len(over):
            last = [frame[over] for frame in frames[1:]] + [single.final_observation(over)]
            assert torch.equal(stacked.final_observation(over), torch.cat(last[::every], -1))
        begun = alone.done.view(-1, *[1] * (frames[0].dim() - 1))
        older = [torch.where(begun, alone.observation, frame) for frame in frames[1:]]
        frames = [*older, alone.observation]
        assert torch.equal(step.observation, torch.cat(frames[::every], -1))
        assert step.observation.shape[1:] == stacked.observation_space.shape
    assert ended > 2 * WORLD


@pytest.mark.parametrize(("channels", "stack"), [(1, 4), (3, 2), (3, 1), (3, 3)])
def test_frames_woven_in_words_are_those_woven_in_bytes(channels: int, stack: int) -> None:
    generator = torch.Generator().manual_seed(0)
    shape = (5, WORLD, 6, 8, channels)
    ring = torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator)
    back = torch.arange(stack - 1, -1, -1).unsqueeze(-1)
    given = torch.tensor(3), back, torch.arange(WORLD), torch.arange(WORLD) % 3
    assert torch.equal(find_frames_by_words(ring, *given), find_frames(ring, *given))


@pytest.mark.slow
@pytest.mark.parametrize("width", [20, 18])
def test_frames_found_in_one_compiled_pass_are_the_same(width: int) -> None:
    """And compiled once, wherever in its ring the newest frame lies."""
    torch._dynamo.reset()
    generator = torch.Generator().manual_seed(0)
    shape = (12, WORLD, 16, width, 3)
    frames = torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator)
    ends = torch.rand(12, WORLD, generator=generator) < 0.2
    plain, fused = Reel(3, 2), Reel(3, 2, fused=True)
    assert torch.equal(plain.begin(frames[0]), fused.begin(frames[0]))
    with torch.compiler.set_stance("fail_on_recompile"):
        for frame, ended in zip(frames[1:], ends[1:], strict=True):
            assert torch.equal(plain.add(frame, ended), fused.add(frame, ended))
    who = torch.tensor([3, 1])
    assert torch.equal(plain.before(who), fused.before(who))


def test_what_a_cut_off_world_shows_is_the_step_befores_with_the_newest_frame() -> None:
    """With frames in a row exactly what would be seen; further apart, a step older but for one."""
    for every, ages in ((1, (1, 0)), (3, (4, 0))):
        env = interface(stack=2, stack_every=every)
        bare = BatchEnv(task(), WORLD)
        seen, frames = env.reset(seed=4), [bare.reset(seed=4)]
        for action in actions(4, seed=2):
            seen = env.step(action).observation
            frames.append(bare.step(action).observation)
        env.step(next(actions(1, seed=3)))
        bare.step(next(actions(1, seed=3)))
        frames.append(bare.look(bare.ended_world))
        found = env.look(env.batch.ended_world, seen)
        assert torch.equal(found, torch.cat([frames[-1 - age] for age in ages], -1))


def test_the_space_of_a_stack_is_its_frames_side_by_side() -> None:
    picture = spaces.Box(0, 255, (4, 6, 3), np.uint8)
    assert stacked_space(picture, 2) == spaces.Box(0, 255, (4, 6, 6), np.uint8)
    row = box([-1.0, 0.0], [1.0, np.inf])
    assert stacked_space(row, 2).high.tolist() == [1.0, np.inf, 1.0, np.inf]
    assert stacked_space(row, 1) == row


@pytest.mark.parametrize("stack", [1, 3])
def test_looking_back_needs_a_step(stack: int) -> None:
    env = interface(stack=stack)
    env.reset()
    with pytest.raises(RuntimeError, match="no step to look back on"):
        env.final_observation(torch.tensor([0]))


@pytest.mark.parametrize("stack", [1, 2])
def test_it_does_not_step_before_it_began(stack: int) -> None:
    with pytest.raises(RuntimeError, match="call reset first"):
        interface(stack=stack).step(torch.zeros(WORLD, 2))


# --- all else as the batch has it ----------------------------------------------------------------


@TASKS
def test_without_settings_it_is_the_batch(name: str) -> None:
    env, bare = interface(name), BatchEnv(task(name), WORLD)
    assert env.observation_space == bare.observation_space
    assert env.action_space == bare.action_space and env.num_envs == bare.num_envs
    assert torch.equal(env.reset(seed=1), bare.reset(seed=1))
    for action in actions(15):
        steps = env.step(action), bare.step(action)
        assert torch.equal(steps[0].observation, steps[1].observation) and same(*steps)
        index = torch.arange(WORLD)
        assert torch.equal(env.final_observation(index), bare.final_observation(index))


@pytest.mark.parametrize(("stack", "every"), [(1, 1), (3, 1), (3, 2)])
def test_a_masked_reset_shows_the_others_as_they_are(stack: int, every: int) -> None:
    env, bare = interface(stack=stack, stack_every=every), BatchEnv(task(), WORLD)
    env.reset(seed=1), bare.reset(seed=1)
    for action in actions(3):
        before, alone = env.step(action).observation, bare.step(action).observation
    mask = torch.tensor([True, False, False, True, False])
    seen, fresh = env.reset(mask=mask), bare.reset(mask=mask)
    assert torch.equal(seen[~mask], before[~mask]) and torch.equal(fresh[~mask], alone[~mask])
    assert torch.equal(seen[mask], torch.cat([fresh[mask]] * stack, -1))
    for action in actions(4, seed=9):
        assert same(env.step(action), bare.step(action))


@TASKS
@pytest.mark.parametrize(("stack", "every"), [(1, 1), (3, 1), (3, 2)])
def test_a_saved_state_leads_to_the_same_future(name: str, stack: int, every: int) -> None:
    env = interface(name, stack=stack, stack_every=every)
    env.reset(seed=6)
    for action in actions(4):
        seen = env.step(action).observation
    saved = env.save_state()
    future = [env.step(action) for action in actions(9, seed=1)]
    other = interface(name, stack=stack, stack_every=every)
    assert torch.equal(other.load_state(saved), seen)
    with pytest.raises(RuntimeError, match="no step to look back on"):
        other.final_observation(torch.tensor([0]))
    for step, action in zip(future, actions(9, seed=1), strict=True):
        again = other.step(action)
        assert torch.equal(again.observation, step.observation) and same(again, step)
    assert torch.equal(env.load_state(saved), seen)  # what was saved is not what went on


def test_two_seats_are_refused() -> None:
    with pytest.raises(ValueError, match="tag has 2 seats"):
        Interface(BatchEnv(make_task("tag", seats=2), 2), InterfaceConfig())


@pytest.mark.parametrize("name", ["n_steer", "n_throttle", "stack", "stack_every"])
def test_settings_that_cannot_be_driven_with_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be at least 1, got 0"):
        InterfaceConfig(**{name: 0})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="continuous or discrete, got 'some'"):
        InterfaceConfig(actions="some")  # type: ignore[arg-type]
