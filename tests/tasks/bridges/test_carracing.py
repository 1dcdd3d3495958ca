"""Real CarRacing environments as a batch, for whatever takes a batch of our own."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from hotlap.config.carracing import CarRacingConfig
from hotlap.config.interface import InterfaceConfig
from hotlap.config.runs import EvaluationConfig
from hotlap.evaluation.judge import HELD_OUT, judge
from hotlap.sim.carracing.tile_track import STEP, TileTrack
from hotlap.tasks.bridges.carracing import CarRacingBatch, CarRacingBridge
from hotlap.tasks.carracing import CarRacingTask
from hotlap.tasks.interface import Interface

pytest.importorskip("Box2D")
from hotlap.tasks.bridges.carracing_backends import version_line
from hotlap.tasks.bridges.carracing_env import CarRacingEnv

SHORT = CarRacingConfig(backend="gymnasium", repeat=4, max_frames=12)


@pytest.fixture(scope="module")
def shared() -> Iterator[CarRacingBridge]:
    """Three cars in two processes, which take a second to begin."""
    task = CarRacingBridge(SHORT, 3, tracks=(), workers=2)
    yield task
    task.close()


@pytest.fixture
def made() -> Iterator[Any]:
    """Tasks that are closed with the test."""
    tasks: list[CarRacingBridge] = []

    def make(config: CarRacingConfig = SHORT, num_envs: int = 1, **more: Any) -> CarRacingBridge:
        tasks.append(CarRacingBridge(config, num_envs, **more))
        return tasks[-1]

    yield make
    for task in tasks:
        task.close()


def _first_seen(seed: int, config: CarRacingConfig = SHORT) -> torch.Tensor:
    return torch.from_numpy(CarRacingEnv(config).reset(seed=seed)[0])


def test_a_batch_is_its_environments_one_by_one(shared: CarRacingBridge) -> None:
    batch = CarRacingBatch(shared, 3, seed=40)
    assert shared.cars.shares == [[0, 1], [2]]
    alone = [CarRacingEnv(SHORT) for _ in range(3)]
    first = [env.reset(seed=40 + place)[0] for place, env in enumerate(alone)]
    assert torch.equal(batch.reset(), torch.from_numpy(np.stack(first)))
    actions = torch.tensor([[0.1, 0.5], [-0.3, 0.2], [0.9, -0.4]])
    earned = np.zeros(3)
    for number in range(1, 4):
        step = batch.step(actions)
        own = [env.step(act) for env, act in zip(alone, actions.numpy(), strict=True)]
        infos = [info for *_, info in own]
        earned += [reward for _, reward, *_ in own]
        assert step.reward.tolist() == pytest.approx([reward for _, reward, *_ in own], abs=1e-5)
        assert step.episode_return.tolist() == pytest.approx(earned, abs=1e-4)
        assert step.episode_length.tolist() == [number] * 3
        assert step.metrics["frames"].tolist() == [4 * number] * 3
        shares = [info["visited"] / info["tiles"] for info in infos]
        assert step.metrics["tiles"].tolist() == pytest.approx(shares)
        assert step.metrics["progress"].tolist() == pytest.approx(
            [info["visited"] * STEP for info in infos]
        )
        assert step.metrics["speed"].tolist() == pytest.approx([info["speed"] for info in infos])
        assert set(step.terms) == {"tiles", "time", "left"}
        if number < 3:
            pictures = torch.from_numpy(np.stack([seen for seen, *_ in own]))
            assert torch.equal(step.observation, pictures)
            assert not step.done.any()
    # The twelfth frame is the last; each goes on with the seed that is three further.
    assert step.truncated.all() and not step.terminated.any()
    assert not step.metrics["laps"].any() and not step.metrics["lap_time"].any()
    following = torch.stack([_first_seen(43 + place) for place in range(3)])
    assert torch.equal(step.observation, following)
    assert torch.equal(batch.final_observation(torch.tensor([2]))[0], torch.from_numpy(own[2][0]))


def test_identities_decide_the_seeds_in_any_batch(shared: CarRacingBridge) -> None:
    seen = CarRacingBatch(shared, 3, seed=100, who=torch.tensor([5, 6, 7])).reset()
    assert torch.equal(seen[1], _first_seen(106))
    held_out = CarRacingBatch(shared, 3, seed=HELD_OUT + 100, who=torch.tensor([5, 6, 7]))
    assert torch.equal(held_out.reset(), seen), "judged seeds are the plain ones"


def test_some_can_begin_anew(shared: CarRacingBridge) -> None:
    batch = CarRacingBatch(shared, 3, seed=40)
    batch.reset()
    before = batch.step(torch.zeros(3, 2)).observation
    after = batch.reset(mask=torch.tensor([False, True, False]))
    assert torch.equal(after[[0, 2]], before[[0, 2]])
    assert torch.equal(after[1], _first_seen(44))
    assert batch.step(torch.zeros(3, 2)).episode_length.tolist() == [2, 1, 2]


def test_a_saved_state_cannot_be_gone_back_to(shared: CarRacingBridge) -> None:
    batch = CarRacingBatch(shared, 3)
    batch.reset()
    with pytest.raises(RuntimeError, match="cannot be put back"):
        batch.load_state(batch.save_state())


def test_actions_that_are_no_numbers_and_other_sizes_are_refused(shared: CarRacingBridge) -> None:
    with pytest.raises(ValueError, match="3 cars"):
        CarRacingBatch(shared, 2)
    batch = CarRacingBatch(shared, 3)
    batch.reset()
    with pytest.raises(ValueError, match="not a finite number"):
        batch.step(torch.full((3, 2), math.nan))
    with pytest.raises(ValueError, match="own reward"):
        CarRacingBridge(replace(SHORT, reward="thorough"), 1, tracks=())


def test_a_policy_is_judged_on_the_seeds_that_the_user_names(shared: CarRacingBridge) -> None:
    def make(num_envs: int, who: torch.Tensor, seed: int) -> Interface:
        return Interface(CarRacingBatch(shared, num_envs, seed, who), InterfaceConfig(stack=2))

    def straight_on(seen: torch.Tensor) -> torch.Tensor:
        assert seen.shape == (3, 84, 84, 2)
        return torch.tensor([[0.0, 0.5]]).expand(len(seen), 2)

    config = EvaluationConfig(episodes=6, seed=10_000)
    rows = judge(straight_on, make, (), config, at_once=3).episodes
    for row, seed in zip(rows, range(10_000, 10_006), strict=True):
        env, paid = CarRacingEnv(SHORT), 0.0
        env.reset(seed=seed)
        for _ in range(3):
            _, reward, *_ = env.step(np.array([0.0, 0.5]))
            paid += reward
        assert row.episode_return == pytest.approx(paid, abs=1e-4)
        assert (row.length, row.end, row.laps) == (3, "time", 0)
        assert row.seconds == pytest.approx(12 / 50)
    assert shared.version_line == version_line()


def _ring(radius: float) -> TileTrack:
    """A round track; the car starts on its first tile and touches two or three of them."""
    around = np.arange(40) * 2 * math.pi / 40
    x, y = radius * np.cos(around), radius * np.sin(around)
    return TileTrack(f"ring {radius}", x, y, around, np.zeros(40, np.int8))


def test_given_tracks_are_driven_in_turn(made: Any) -> None:
    rings = [_ring(radius) for radius in (22.0, 30.0, 40.0)]
    batch = CarRacingBatch(made(replace(SHORT, max_frames=4), 2, tracks=rings), 2)
    env = CarRacingEnv(SHORT)
    expected = [torch.from_numpy(env.reset(seed=0, options={"track": ring})[0]) for ring in rings]
    seen = [*batch.reset(), *batch.step(torch.zeros(2, 2)).observation]
    for number, picture in enumerate(seen):
        assert torch.equal(picture, expected[number % 3]), number


def test_drawn_tracks_are_those_that_the_twin_draws(made: Any) -> None:
    rings = tuple(_ring(radius) for radius in (22.0, 30.0, 40.0, 50.0))
    settings = replace(SHORT, max_frames=4)
    real = made(settings, 2, tracks=rings)
    real.draw_tracks()
    twin = CarRacingTask(replace(settings, backend="twin"), tracks=rings)
    twin.draw_tracks()
    batch, env = CarRacingBatch(real, 2, seed=9), CarRacingEnv(SHORT)
    expected = [torch.from_numpy(env.reset(seed=0, options={"track": ring})[0]) for ring in rings]
    seen, drawn = batch.reset(), set()
    for episode in range(4):
        tracks = twin.begin(9, batch.who, torch.full((2,), episode))["track"].tolist()
        for picture, track in zip(seen, tracks, strict=True):
            assert torch.equal(picture, expected[track]), (episode, track)
        drawn |= set(tracks)
        seen = batch.step(torch.zeros(2, 2)).observation
    assert len(drawn) > 2


def test_without_tracks_none_are_drawn(shared: CarRacingBridge) -> None:
    with pytest.raises(ValueError, match="there are none"):
        shared.draw_tracks()


def test_a_lap_is_told_when_it_is_finished(made: Any) -> None:
    # Four tiles, all of them under the front wheels (1.06 to 2.14 ahead) where the car begins.
    y = np.array([0.0, 1.5, 2.0, 1.5])
    patch = TileTrack("patch", np.zeros(4), y, np.zeros(4), np.zeros(4, np.int8))
    batch = CarRacingBatch(made(tracks=[patch]), 1)
    batch.reset()
    step = batch.step(torch.tensor([[0.0, 1.0]]))
    assert step.terminated.all() and not step.truncated.any()
    assert step.metrics["laps"].tolist() == [1.0]
    assert step.metrics["tiles"].tolist() == [1.0]
    assert step.metrics["lap_time"].tolist() == pytest.approx([1 / 50])
    assert step.reward.tolist() == pytest.approx([1000 - 0.1])
