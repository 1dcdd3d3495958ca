"""The real CarRacing under our settings."""

import numpy as np
import pytest

from hotlap.config.carracing import FIVE_ACTIONS, CarRacingConfig

pytest.importorskip("Box2D")
from gymnasium.envs.box2d.car_racing import CarRacing

from hotlap.tasks.bridges.carracing_env import CarRacingEnv
from hotlap.tasks.bridges.carracing_frames import LOOKS, crop, to_gray

FULL = CarRacingConfig(backend="gymnasium", view="full", colour=True, actions="triple")


def test_a_pair_is_steering_and_gas_or_brake() -> None:
    config = CarRacingConfig(backend="gymnasium", brake=0.5, view="full", colour=True)
    pair, triple = CarRacingEnv(config), CarRacingEnv(FULL)
    pair.reset(seed=1)
    triple.reset(seed=1)
    told = [([0.25, 0.5], [0.25, 0.5, 0.0]), ([-3.0, -0.5], [-1.0, 0.0, 0.25])]
    for short, long in told * 10:
        seen, *_ = pair.step(np.array(short))
        assert np.array_equal(seen, triple.step(np.array(long))[0])
    with pytest.raises(ValueError, match="2 finite numbers"):
        pair.step(np.array([0.0, np.nan]))
    with pytest.raises(ValueError, match="3 finite numbers"):
        triple.step(np.array([0.0, 1.0]))


def test_five_actions_are_gymnasiums_five() -> None:
    ours, theirs = CarRacingEnv(FULL, discrete=True), CarRacing(continuous=False)
    assert ours.action_space == theirs.action_space
    assert len(FIVE_ACTIONS) == 5
    ours.reset(seed=1)
    theirs.reset(seed=1)
    for action in [3] * 8 + [1, 2, 0, 4, 3, 2, 1]:
        seen, reward, *_ = ours.step(action)
        expected, paid, *_ = theirs.step(action)
        assert np.array_equal(seen, expected)
        assert reward == paid


def test_what_is_seen_is_the_frame_in_its_look_and_view() -> None:
    frames = CarRacingEnv(FULL)
    first, _ = frames.reset(seed=5)
    second, *_ = frames.step(np.array([0.1, 0.4, 0.0]))
    for look in LOOKS:
        config = CarRacingConfig(backend="gymnasium", actions="triple", look=look)
        last, front = CarRacingEnv(config), CarRacingEnv(config, channels_first=True)
        assert last.observation_space.shape == (84, 84, 1)
        assert front.observation_space.shape == (1, 84, 84)
        for number, frame in enumerate((first, second)):
            expected = crop(to_gray(LOOKS[look](frame[None], [5], [number])))[0]
            if number:
                seen, front_seen = (env.step(np.array([0.1, 0.4, 0.0]))[0] for env in (last, front))
            else:
                seen, front_seen = (env.reset(seed=5)[0] for env in (last, front))
            assert np.array_equal(seen, expected)
            assert np.array_equal(front_seen[0], expected[..., 0])
            assert front.observation_space.contains(front_seen)


def test_the_clock_truncates_at_the_last_frame_even_amid_an_action() -> None:
    env = CarRacingEnv(CarRacingConfig(backend="gymnasium", repeat=4, max_frames=10))
    assert env.config.max_steps == 3
    env.reset(seed=0)
    ends = [env.step(np.zeros(2))[2:] for _ in range(3)]
    assert [(over, late) for over, late, _ in ends] == [(False, False)] * 2 + [(False, True)]
    assert [info["frames"] for *_, info in ends] == [4, 8, 10]
    assert ends[-1][-1]["lap_time"] == 0.0
    assert "lap_time" not in ends[0][-1]
    with pytest.raises(RuntimeError, match="reset"):
        env.step(np.zeros(2))


def test_leaving_the_field_costs_a_hundred_and_ends() -> None:
    env = CarRacingEnv(CarRacingConfig(backend="gymnasium", repeat=3))
    env.reset(seed=0)
    east = 333.2 - env.car.car.hull.position.x
    for body in (env.car.car.hull, *env.car.car.wheels):
        body.position += (east, 0.0)
        body.linearVelocity = (60.0, 0.0)
    _, reward, terminated, truncated, info = env.step(np.zeros(2))
    assert terminated and not truncated and not info["lap_finished"]
    assert info["terms"]["left"] == -100.0
    assert reward == pytest.approx(sum(info["terms"].values()))
    assert info["terms"]["time"] == pytest.approx(-0.1 * (info["frames"] - 1))


def test_resets_without_a_seed_go_on_as_gymnasiums_do() -> None:
    ours, theirs = CarRacingEnv(FULL), CarRacing()
    for seed in (2, None, None):
        assert np.array_equal(ours.reset(seed=seed)[0], theirs.reset(seed=seed)[0])
