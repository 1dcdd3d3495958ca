"""Judging: which episodes count, and what is written down of them."""

import math
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from hotlap.config.interface import InterfaceConfig
from hotlap.config.runs import EvaluationConfig
from hotlap.config.tasks import DonkeyConfig
from hotlap.evaluation.first_episodes import tell
from hotlap.evaluation.judge import HELD_OUT, judge, judge_drives, judge_gym
from hotlap.records import EpisodeResult, EvalResult
from hotlap.sim.lap_records import lap_limit
from hotlap.sim.tracks import Start, Track
from hotlap.tasks.batch import BatchEnv
from hotlap.tasks.donkey import DonkeyTask
from hotlap.tasks.drivers import make_driver
from hotlap.tasks.registry import make_task

from ..sim.roads_drawn import circle, straight
from .scripted import Scripted, always, interface

TRACKS = ("generated_track", "waveshare")
SEVEN = EvaluationConfig(episodes=7, seed=1)


def scripted() -> Scripted:
    """Laps the second track, and crashes on the first: its line is not in the road's middle."""
    return Scripted("pure_pursuit", TRACKS, max_steps=250, start="random", max_cte=2.0)


@pytest.fixture(scope="module")
def judged() -> EvalResult:
    pilot = scripted()
    return judge(pilot, pilot.make_env, TRACKS, SEVEN)


def alone(identity: int, seed: int) -> tuple[float, int, list[float]]:
    """Return, length and lap times of one episode, driven by itself."""
    pilot = scripted()
    env = BatchEnv(pilot.task, 1, HELD_OUT + seed, torch.tensor([identity]))
    env.reset()
    driver, laps = make_driver("pure_pursuit", pilot.task), []
    while True:
        step = env.step(driver(env.world))
        laps += [float(lap) for lap in step.metrics["lap_time"] if lap > 0]
        if bool(step.done):
            return float(step.episode_return), int(step.episode_length), laps


def test_a_batch_is_judged_as_its_members_are_alone(judged: EvalResult) -> None:
    # Those who crash begin again while the others drive on; that must not count.
    assert {episode.end for episode in judged.episodes} == {"crashed", "time"}
    for episode in judged.episodes:
        earned, length, laps = alone(episode.identity, SEVEN.seed)
        assert episode.episode_return == pytest.approx(earned, rel=1e-5)
        assert episode.length == length
        assert episode.laps == len(laps)
        assert episode.lap_times == pytest.approx(laps)


@pytest.mark.parametrize(("at_once", "size", "rounds"), [(1, 1, 7), (3, 3, 3), (5, 4, 2)])
def test_a_result_does_not_depend_on_how_many_are_played_at_once(
    judged: EvalResult, at_once: int, size: int, rounds: int
) -> None:
    pilot = scripted()
    assert judge(pilot, pilot.make_env, TRACKS, SEVEN, at_once) == judged
    assert [made[0] for made in pilot.made] == [size] * rounds


def test_episodes_are_shared_out_among_the_tracks_and_held_out() -> None:
    pilot = scripted()
    result = judge(pilot, pilot.make_env, TRACKS, SEVEN)
    assert [episode.identity for episode in result.episodes] == list(range(7))
    assert [episode.track for episode in result.episodes] == [TRACKS[i % 2] for i in range(7)]
    assert {name: row.count for name, row in result.tracks.items()} == dict(
        zip(TRACKS, (4, 3), strict=True)
    )
    assert pilot.made == [(7, list(range(7)), (1 << 40) + 1)]


def test_the_same_seed_gives_the_same_result_and_another_does_not(judged: EvalResult) -> None:
    pilot = scripted()
    assert judge(pilot, pilot.make_env, TRACKS, SEVEN) == judged
    other = judge(pilot, pilot.make_env, TRACKS, replace(SEVEN, seed=2))
    assert {e.episode_return for e in judged.episodes}.isdisjoint(
        {e.episode_return for e in other.episodes}
    )


def test_laps_are_counted_and_held_against_the_limit() -> None:
    pilot = Scripted("racing_line", ("generated_track",), max_steps=400)
    result = judge(pilot, pilot.make_env, ("generated_track",), EvaluationConfig(episodes=1))
    (episode,) = result.episodes
    length, limit = float(pilot.task.roads.length), lap_limit("generated_track")
    assert limit is not None and episode.progress is not None and episode.lap_times is not None
    assert episode.end == "time" and episode.crash_s is None
    assert episode.laps == len(episode.lap_times) == int(episode.progress / length) >= 2
    assert episode.seconds == pytest.approx(20.0)
    assert sum(episode.lap_times) <= episode.seconds
    assert episode.mean_speed == pytest.approx(episode.progress / 20.0, rel=0.1)
    assert result.lap_rate == 1.0
    assert result.best_lap_time == min(episode.lap_times)
    assert result.lap_time_ratio == pytest.approx(min(episode.lap_times) / limit.time)
    assert 1.0 < result.lap_time_ratio < 1.3
    assert result.interval is result.iqm_interval is None and result.std_return == 0.0


def one_drive(track: Track, *action: float, **settings: Any) -> EpisodeResult:
    """A single episode of the same action over and over."""
    task = DonkeyTask(DonkeyConfig(sensor="telemetry", **settings), tracks=(track,))
    config = EvaluationConfig(episodes=1)

    def make_env(num_envs: int, who: torch.Tensor, seed: int) -> BatchEnv:
        return BatchEnv(task, num_envs, seed, who)

    return judge(always(*action), make_env, ("drawn",), config).episodes[0]


def test_a_car_that_goes_straight_on_crashes_where_geometry_says() -> None:
    # On a circle of 3 m, the tangent is 1 m (8 units) outside of it after acos(3 / 4) radians.
    episode = one_drive(circle(radius=3.0), 0.0, 0.4, max_cte=8.0)
    assert episode.end == "crashed"
    assert episode.crash_s == pytest.approx(3 * math.acos(3 / 4), abs=0.15)
    assert episode.progress == pytest.approx(episode.crash_s, rel=1e-4)
    assert episode.laps == 0 and episode.lap_times == ()


def test_an_open_road_ends() -> None:
    # From 20 m of 40 m to a quarter metre (two units) before the end.
    track = replace(straight(40.0), starts=(Start(s=20.0),))
    episode = one_drive(track, 0.0, 0.5)
    assert episode.end == "road end" and episode.crash_s is None
    assert episode.progress == pytest.approx(19.75, abs=0.25)
    assert episode.mean_abs_cte == pytest.approx(0.0, abs=1e-3)


def test_a_car_that_stands_still_runs_out_of_time() -> None:
    episode = one_drive(circle(), 0.0, 0.0, max_steps=30)
    assert (episode.end, episode.length, episode.laps) == ("time", 30, 0)
    assert episode.seconds == pytest.approx(1.5)
    assert (episode.progress, episode.mean_speed) == pytest.approx((0.0, 0.0))


def test_a_car_that_stands_where_that_ends_its_episode_has_stopped_and_not_crashed() -> None:
    for command, end in ((0.0, "stopped"), (1.0, "crashed")):
        pilot = Scripted("pure_pursuit", ("waveshare",), max_steps=400, end="road")
        push = torch.tensor([command, command])
        asked = EvaluationConfig(episodes=2, start="line")
        result = judge(
            lambda seen, push=push: push.expand(len(seen), 2), pilot.make_env, ("waveshare",), asked
        )
        assert [episode.end for episode in result.episodes] == [end] * 2
        assert [episode.crash_s is None for episode in result.episodes] == [end == "stopped"] * 2
        assert [episode.laps_begun for episode in result.episodes] == [1] * 2  # and lost


@pytest.mark.parametrize(
    ("forward", "speed", "end"), [(0.1, 1.5, "spun"), (0.1, 0.3, "stopped"), (-0.6, 0.6, "stopped")]
)
def test_a_car_that_slides_sideways_on_the_road_has_spun_and_has_a_place(
    forward: float, speed: float, end: str
) -> None:
    task = make_task("donkey-telemetry", tracks=("waveshare",), end="road", start="line")
    last = {"forward_vel": forward, "speed": speed, "cte": 0.5, "over_edge": 0.0, "hit": 0.0,
            "s": 3.0, "laps": 0.0, "lap_time": 0.0, "progress": 2.0, "passed": 0.0, "return": 1.0,
            "terminated": 1.0, "done": 1.0}  # fmt: skip
    steps = {name: np.full(60, value) for name, value in last.items()}
    episode = tell(steps, task, 0, 7, "waveshare")
    assert episode.end == end and episode.crash_s == (3.0 if end == "spun" else None)
    assert (episode.laps, episode.laps_begun) == (0, 1)  # and lost


def test_a_car_that_leaves_the_line_too_far_on_a_wide_road_has_crashed() -> None:
    tracks = ("circuit:0@3.0",)
    pilot = Scripted("pure_pursuit", tracks, max_steps=400, end="road")
    push = torch.tensor([0.6, 0.4])
    asked = EvaluationConfig(episodes=1, start="line")
    result = judge(lambda seen: push.expand(len(seen), 2), pilot.make_env, tracks, asked)
    assert result.episodes[0].end == "crashed" and result.episodes[0].crash_s is not None


def test_a_policy_is_judged_through_its_interface() -> None:
    task = make_task("donkey-telemetry", max_steps=20)
    discrete = InterfaceConfig(actions="discrete", stack=3)
    seen = []

    def stand(observation: torch.Tensor) -> torch.Tensor:
        seen.append(observation.shape)
        return torch.full((len(observation),), 6)  # of 5 x 3: no steering, no throttle

    result = judge(
        stand,
        lambda *what: interface(task, *what, discrete),
        ("generated_track",),
        EvaluationConfig(episodes=2),
    )
    assert set(seen) == {(2, 3 * task.observation_space.shape[0])}
    assert [episode.end for episode in result.episodes] == ["time", "time"]


def test_a_task_without_roads_tells_what_it_can() -> None:
    task = make_task("tag", max_steps=40)
    result = judge(
        always(1.0, 0.2), lambda *what: interface(task, *what), (), EvaluationConfig(episodes=9)
    )
    assert {episode.end for episode in result.episodes} <= {"ended", "time"}
    assert result.tracks == {} and result.lap_rate is None and result.best_lap_time is None
    assert all(e.track is None and e.laps is None and e.seconds for e in result.episodes)


def test_drives_are_kept_step_by_step(judged: EvalResult) -> None:
    pilot = scripted()
    result, drives = judge_drives(pilot, pilot.make_env, TRACKS, SEVEN)
    assert result == judged
    assert [drive.episode for drive in drives] == list(result.episodes)
    for drive in drives:
        assert drive.xy.shape == (drive.episode.length, 2)
        assert drive.speed.mean() == pytest.approx(drive.episode.mean_speed)
        moved = np.linalg.norm(np.diff(drive.xy, axis=0), axis=1)
        assert moved == pytest.approx(drive.speed[1:] * 0.05, abs=0.02)


def test_tracks_that_the_environments_do_not_have_are_refused() -> None:
    pilot = scripted()
    with pytest.raises(ValueError, match="judged on 1 tracks, but the environments have 2"):
        judge(pilot, pilot.make_env, TRACKS[:1], SEVEN)


class Countdown(gym.Env[np.ndarray, int]):
    """Lasts 1 to 6 steps, as its seed decides; a step earns its action. It ends if that is 1."""

    observation_space = gym.spaces.Box(0, 6, (1,))
    action_space = gym.spaces.Discrete(3)
    closed = False

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        assert seed is not None and 2**30 <= seed < 2**31
        self.left = int(self.np_random.integers(1, 7))
        return np.array([self.left]), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        self.left -= 1
        over = self.left == 0
        return np.array([self.left]), float(action), over and action == 1, over and action != 1, {}

    def close(self) -> None:
        self.closed = True


def test_any_gymnasium_environment_can_be_judged() -> None:
    env = Countdown()
    result = judge_gym(lambda seen: 2, lambda: env, SEVEN)
    assert env.closed
    assert all(e.episode_return == 2 * e.length and e.end == "time" for e in result.episodes)
    assert len({e.length for e in result.episodes}) > 1
    assert result == judge_gym(lambda seen: 2, Countdown, SEVEN)
    assert result != judge_gym(lambda seen: 2, Countdown, replace(SEVEN, seed=2))
    ended = judge_gym(lambda seen: 1, Countdown, SEVEN)
    assert {e.end for e in ended.episodes} == {"ended"}
    assert [e.length for e in ended.episodes] == [e.length for e in result.episodes]


def test_an_environment_without_an_end_runs_out_of_time() -> None:
    class Endless(Countdown):
        def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
            return np.zeros(1), 1.0, False, False, {}

    result = judge_gym(lambda seen: 0, Endless, EvaluationConfig(episodes=1), longest=5)
    assert (result.episodes[0].length, result.episodes[0].end) == (5, "time")
