from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from hotlap.config.runs import EvaluationConfig
from hotlap.evaluation.judge import Drive, judge_drives
from hotlap.evaluation.lap_plot import draw_laps, gains
from hotlap.evaluation.lap_traces import Trace, best_trace, fast_trace
from hotlap.records import EpisodeResult
from hotlap.sim.lap_records import limit_time
from hotlap.sim.tracks import find_track

from ..sim.roads_drawn import circle, straight
from .scripted import Scripted

TIMED_OUT = EpisodeResult(identity=0, seed=0, episode_return=1.0, length=9, end="time")
WIDTH, DT = 0.2, 0.5


def on(s: list[float], speed: list[float], over: float = -1.0, end: str = "time") -> Drive:
    place = np.array(s)
    episode = replace(TIMED_OUT, end=end)  # type: ignore[arg-type]
    return Drive(episode, np.stack([place, 0 * place], 1), np.array(speed), place, 0 * place + over)


def steps(length: float, pace: list[float], begin: float) -> Drive:
    """A drive round a road, `pace` metres a step."""
    ahead = begin + np.cumsum(pace)
    return on((ahead % length).tolist(), pace)


def test_a_lap_goes_from_line_to_line_and_the_fastest_counts() -> None:
    track = circle()
    tenth = track.length / 10
    slow_then_fast = [tenth / 2] * 25 + [tenth] * 25
    lap = best_trace([steps(track.length, slow_then_fast, -tenth)], track, WIDTH, DT)
    assert lap is not None
    assert lap.s[0] == 0 and lap.s[-1] == pytest.approx(track.length)
    assert lap.lap_time == pytest.approx(10 * DT)
    assert np.diff(lap.time).min() >= 0


def test_the_crossing_of_the_line_is_between_two_steps() -> None:
    track = circle()
    pace = [track.length / 7.3] * 20
    lap = best_trace([steps(track.length, pace, 0.4)], track, WIDTH, DT)
    assert lap is not None and lap.lap_time == pytest.approx(7.3 * DT)


def test_a_lap_beside_the_road_does_not_count() -> None:
    track = circle()
    drive = steps(track.length, [track.length / 10] * 25, 0.4)
    assert best_trace([drive], track, WIDTH, DT) is not None
    beside = replace(drive, over_edge=np.where(np.arange(25) == 12, WIDTH, -1.0))
    assert best_trace([beside], track, WIDTH, DT) is None


def test_half_a_lap_is_none_and_neither_is_one_driven_backwards() -> None:
    track = circle()
    tenth = track.length / 10
    for pace in ([tenth] * 9, [-tenth] * 30, [tenth, -tenth] * 30):
        assert best_trace([steps(track.length, pace, 0.0)], track, WIDTH, DT) is None


def test_an_open_road_is_driven_from_its_start_to_its_end() -> None:
    track = straight()
    s, speed = np.linspace(0.1, track.length, 11).tolist(), np.linspace(0.1, 2, 11).tolist()
    whole = best_trace([on(s, speed, end="road end")], track, WIDTH, DT)
    assert whole is not None and whole.lap_time == pytest.approx(11 * DT)
    assert best_trace([on(s, speed)], track, WIDTH, DT) is None  # time was up
    assert best_trace([on(s[5:], speed[5:], end="road end")], track, WIDTH, DT) is None


def test_a_first_lap_from_rest_counts_from_the_start() -> None:
    track = circle()
    pace = [0.1, 0.3, *[track.length / 10] * 12]
    lap = best_trace([steps(track.length, pace, 0.0)], track, WIDTH, DT)
    assert lap is not None and lap.s[-1] == pytest.approx(track.length)
    assert lap.lap_time == pytest.approx((2 + (track.length - 0.4) / (track.length / 10)) * DT)
    rolling = [0.6, *[track.length / 10] * 12]  # it may have begun anywhere
    assert best_trace([steps(track.length, rolling, 0.0)], track, WIDTH, DT) is None


def test_the_least_possible_lap_takes_its_shipped_time() -> None:
    track = find_track("warren")
    trace, is_least = fast_trace(track)
    assert is_least and trace.lap_time == pytest.approx(limit_time("warren"), rel=1e-3)
    assert trace.s[-1] == pytest.approx(track.length)
    unknown, is_least = fast_trace(find_track("circuit:90001"))  # its time is shipped, no line
    assert not is_least and unknown.lap_time > 0.95 * (limit_time("circuit:90001") or 0.0)


def test_no_scripted_lap_beats_the_least_possible_and_traces_agree_with_the_judge() -> None:
    pilot = Scripted("racing_line", ("waveshare",), max_steps=240)
    asked = EvaluationConfig(episodes=2)
    result, drives = judge_drives(pilot, pilot.make_env, ("waveshare",), asked)
    track = find_track("waveshare")
    task = pilot.task
    lap = best_trace(drives, track, task.vehicle.width, task.control_dt)
    assert lap is not None
    assert lap.lap_time > fast_trace(track)[0].lap_time
    flying = [time for row in result.episodes for time in row.flying_lap_times or ()]
    assert lap.lap_time == pytest.approx(min(flying), abs=0.1)


def test_who_is_twice_as_fast_gains_by_the_metre() -> None:
    s = np.linspace(0.0, 10.0, 101)
    xy, speed = np.stack([s, s], 1), 0 * s + 1
    quick, slow = Trace(s, xy, speed, s / 2), Trace(s, xy, speed, s)
    np.testing.assert_allclose(gains(quick, slow), 0.5)
    np.testing.assert_allclose(gains(slow, quick), -0.5)


def test_laps_are_drawn_and_those_who_gain_have_their_colour(tmp_path: Path) -> None:
    track = find_track("waveshare")
    fast, is_least = fast_trace(track)
    slow = Trace(fast.s, fast.xy, fast.speed / 2, fast.time * 2)

    def blue(path: Path) -> int:
        with Image.open(path) as picture:
            pixels = np.asarray(picture.convert("RGB"))[:, :760]  # the map
        return int((pixels == (30, 96, 200)).all(-1).sum())

    wins = draw_laps(track, {"A x": fast, "B y": slow}, fast, is_least, tmp_path / "wins.png")
    loses = draw_laps(track, {"A x": slow, "B y": fast}, fast, is_least, tmp_path / "loses.png")
    assert blue(wins) > 2 * blue(loses)
    alone = draw_laps(track, {"A x": fast}, fast, is_least, tmp_path / "new" / "alone.png")
    other = draw_laps(track, {"B y": fast}, fast, is_least, tmp_path / "other.png")
    assert blue(alone) > 1000 and blue(other) == 0
    with pytest.raises(ValueError, match="one lap or two"):
        draw_laps(track, {}, fast, is_least, tmp_path / "none.png")
