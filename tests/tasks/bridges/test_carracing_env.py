"""Gymnasium's CarRacing under our settings, against Gymnasium's CarRacing itself."""

import math
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from hotlap.config.carracing import FIVE_ACTIONS, CarRacingConfig
from hotlap.sim.carracing.generator import generate
from hotlap.sim.carracing.tile_track import STEP, TileTrack

pytest.importorskip("Box2D")
from gymnasium.envs.box2d.car_racing import CarRacing

from hotlap.tasks.bridges import carracing_env
from hotlap.tasks.bridges.carracing_env import CarRacingEnv, GymnasiumCar
from hotlap.tasks.bridges.carracing_frames import LOOKS, crop, to_gray

FULL = CarRacingConfig(backend="gymnasium", view="full", colour=True, actions="triple")
PAIR = CarRacingConfig(backend="gymnasium")


def restless(seed: int) -> Iterator[np.ndarray]:
    """Steering, gas and brake that wander, skid and leave the road."""
    draws, triple = np.random.default_rng(seed), np.array([0.0, 0.3, 0.0])
    while True:
        push = draws.normal(0.0, [0.15, 0.3, 0.08])
        triple = np.clip(triple * 0.95 + push + [0.0, 0.03, 0.0], [-1, 0, 0], 1)
        yield triple.astype(np.float32)


def circle(radius: float = 20.0, nodes: int = 36) -> TileTrack:
    """A round track, counter-clockwise from the east."""
    around = np.arange(nodes) * 2 * math.pi / nodes
    kerb = np.zeros(nodes, np.int8)
    return TileTrack("circle", radius * np.cos(around), radius * np.sin(around), around, kerb)


def follow(env: CarRacingEnv, speed: float = 15.0) -> np.ndarray:
    """An action (steering, pedal) towards the road ahead."""
    hull, nodes = env.car.car.hull, np.array(env.car.track)[:, 2:]
    here = int(np.linalg.norm(nodes - hull.position, axis=1).argmin())
    ahead = nodes[(here + 3) % len(nodes)] - hull.position
    off = math.atan2(-ahead[0], ahead[1]) - hull.angle
    off = (off + math.pi) % (2 * math.pi) - math.pi
    pedal = 0.05 * (speed - hull.linearVelocity.length)
    return np.array([np.clip(-2.0 * off, -1, 1), np.clip(pedal, -0.5, 0.5)], np.float32)


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


def test_a_larger_picture_is_there_for_videos() -> None:
    env, theirs = CarRacingEnv(PAIR), CarRacing(render_mode="rgb_array")
    env.reset(seed=2)
    theirs.reset(seed=2)
    assert np.array_equal(env.render(), theirs.render())


def test_the_version_line_names_what_was_driven_in() -> None:
    import Box2D
    import gymnasium

    assert gymnasium.__version__ in carracing_env.version_line()
    assert Box2D.__version__ in carracing_env.version_line()
    assert CarRacingEnv(PAIR).version_line == carracing_env.version_line()


@pytest.mark.parametrize(
    ("module", "backend", "advice"),
    [
        ("Box2D", "gymnasium", "pip install 'hotlap[carracing]'"),
        ("envpool", "envpool", "pip install 'hotlap[envpool]'"),
    ],
)
def test_what_is_missing_is_told_when_it_is_needed(module: str, backend: str, advice: str) -> None:
    script = f"""
import sys
sys.modules[{module!r}] = None
from hotlap.config.carracing import CarRacingConfig
from hotlap.tasks.bridges.carracing_env import CarRacingEnv
assert "torch" not in sys.modules
try:
    CarRacingEnv(CarRacingConfig(backend={backend!r}))
except ImportError as error:
    print(error)
"""
    told = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert advice in told.stdout


def test_the_twin_is_not_driven_here() -> None:
    with pytest.raises(ValueError, match="twin"):
        CarRacingEnv(CarRacingConfig(backend="twin"))


def test_envpools_car_is_driven_in_the_same_way() -> None:
    pytest.importorskip("envpool")
    config = CarRacingConfig(backend="envpool", repeat=4, max_frames=10, look="bars")
    env, again = CarRacingEnv(config), CarRacingEnv(config)
    first, _ = env.reset(seed=7)
    assert first.shape == (84, 84, 1) and first.std() > 5
    assert not first[:, :6].any()
    assert not np.array_equal(env.reset(seed=8)[0], first)
    assert np.array_equal(env.reset(seed=7)[0], first)
    again.reset(seed=7)
    earned = 0.0
    for frames in (4, 8, 10):
        seen, reward, terminated, truncated, info = env.step(np.array([0.1, 0.5]))
        assert np.array_equal(seen, again.step(np.array([0.1, 0.5]))[0])
        earned += reward
        assert info["frames"] == frames
        assert info["share"] == pytest.approx((earned + 0.1 * frames) / 1000, abs=1e-6)
        assert 2 <= info["share"] * 350 <= 10, "a few of some 300 tiles"
        assert (terminated, truncated) == (False, frames == 10)
    with pytest.raises(ValueError, match="tracks of its own"):
        env.reset(seed=7, options={"track": circle()})


def test_nodes_of_the_round_track_lie_a_step_apart() -> None:
    track = circle()
    gaps = np.hypot(np.diff(track.x), np.diff(track.y))
    assert gaps == pytest.approx(STEP, rel=0.01)
