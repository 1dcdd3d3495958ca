"""Gymnasium's CarRacing, drawn only where somebody looks, against Gymnasium's CarRacing itself."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from hotlap.config.carracing import CarRacingConfig
from hotlap.sim.carracing.generator import generate
from hotlap.sim.carracing.tile_track import STEP

pytest.importorskip("Box2D")
from gymnasium.envs.box2d.car_racing import CarRacing

from hotlap.tasks.bridges.carracing_env import CarRacingEnv
from hotlap.tasks.bridges.gymnasium_car import GymnasiumCar

from .round_track import circle, follow, restless

FULL = CarRacingConfig(backend="gymnasium", view="full", colour=True, actions="triple")


@pytest.mark.parametrize(
    ("seed", "frames"), [(3, 70), pytest.param(4, 700, marks=pytest.mark.slow)]
)
def test_frames_and_rewards_are_gymnasiums_own(seed: int, frames: int) -> None:
    ours, theirs = CarRacingEnv(FULL), CarRacing()
    assert np.array_equal(ours.reset(seed=seed)[0], theirs.reset(seed=seed)[0])
    actions = restless(seed)
    for number in range(frames):
        action = next(actions)
        seen, reward, terminated, truncated, info = ours.step(action)
        expected, paid, over, _, _ = theirs.step(action)
        assert np.array_equal(seen, expected), number
        assert (reward, terminated, truncated) == (paid, over, False)
        assert info["visited"] == theirs.tile_visited_count
        assert sum(info["terms"].values()) == pytest.approx(paid, abs=1e-12)
    assert info["tiles"] == len(theirs.track)
    assert info["frames"] == frames


@pytest.mark.parametrize("repeat", [2, 5])
def test_frames_in_between_are_not_drawn_and_nothing_else_changes(
    repeat: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = CarRacingEnv(CarRacingConfig(**vars(FULL) | {"repeat": repeat})), CarRacing()
    ours.reset(seed=6)
    theirs.reset(seed=6)
    drawn = _count_drawings(monkeypatch)
    actions = restless(1)
    for number in range(1, 13):
        action = next(actions)
        seen, reward, *_ = ours.step(action)
        assert len(drawn) == number
        expected, rewards = _hold(theirs, action, repeat)
        drawn[:] = drawn[:number]  # theirs are no GymnasiumCar's
        assert np.array_equal(seen, expected)
        assert reward == sum(rewards)
        assert ours.car.car.hull.position == theirs.car.hull.position
        assert ours.car.car.hull.angle == theirs.car.hull.angle


def _count_drawings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    drawn: list[str] = []
    original: Callable[..., Any] = GymnasiumCar._render_road

    def noted(self: GymnasiumCar, *where: Any) -> None:
        drawn.append("road")
        original(self, *where)

    monkeypatch.setattr(GymnasiumCar, "_render_road", noted)
    return drawn


def _hold(env: Any, action: np.ndarray, frames: int) -> tuple[np.ndarray, list[float]]:
    """What is seen after an action was held, and what every frame paid."""
    rewards = []
    for _ in range(frames):
        seen, reward, terminated, *_ = env.step(action)
        rewards.append(reward)
        if terminated:
            break
    return seen, rewards


def test_a_lap_that_ends_amid_an_action_shows_its_own_last_frame() -> None:
    shape = {"view": "full", "colour": True, "repeat": 16}
    env, track = CarRacingEnv(CarRacingConfig(backend="gymnasium", **shape)), circle()  # type: ignore[arg-type]
    env.reset(seed=0, options={"track": track})
    paid, actions, over = [], [], False
    while not over:
        actions += [follow(env)] * 16
        seen, reward, over, truncated, info = env.step(actions[-1])
        paid.append(reward)
    assert info["lap_finished"] and not truncated
    assert info["frames"] % 16, "this lap was meant to end amid an action"
    assert info["visited"] == info["tiles"] == 36
    assert info["share"] == 1.0
    assert info["lap_time"] == info["frames"] / 50
    assert sum(paid) == pytest.approx(1000 - 0.1 * info["frames"])
    alone = GymnasiumCar()
    alone.reset(seed=0, options={"track": track})
    for number, (steer, pedal) in enumerate(actions[: info["frames"]], 1):
        alone.looking = number == info["frames"]
        expected, _, over, *_ = alone.step(np.array([steer, max(pedal, 0), max(-pedal, 0)]))
    assert over
    assert np.array_equal(seen, expected)


def test_a_given_track_is_laid_as_gymnasium_lays_it() -> None:
    config = CarRacingConfig(backend="gymnasium", view="full", colour=True, repeat=4)
    theirs, ours = CarRacingEnv(config), CarRacingEnv(config)
    first, _ = theirs.reset(seed=3)
    (track,) = generate([3])
    assert (track.kerb > 0).any() and (track.kerb < 0).any()
    second, _ = ours.reset(seed=99, options={"track": track})
    assert np.array_equal(first, second)
    for number in range(75):
        action = follow(theirs, speed=50.0)
        expected, paid, *_ = theirs.step(action)
        seen, reward, *_, info = ours.step(action)
        assert np.array_equal(seen, expected), number
        assert reward == paid
    assert info["visited"] > 50
    assert np.array_equal(ours.reset(seed=3)[0], first), "without options, the seed's own again"


def test_a_larger_picture_is_there_for_videos() -> None:
    env, theirs = (
        CarRacingEnv(CarRacingConfig(backend="gymnasium")),
        CarRacing(render_mode="rgb_array"),
    )
    env.reset(seed=2)
    theirs.reset(seed=2)
    assert np.array_equal(env.render(), theirs.render())


def test_nodes_of_the_round_track_lie_a_step_apart() -> None:
    track = circle()
    gaps = np.hypot(np.diff(track.x), np.diff(track.y))
    assert gaps == pytest.approx(STEP, rel=0.01)
