"""Races: episodes are compared pair by pair, and who is faster is told with an interval."""

from dataclasses import replace
from pathlib import Path

import imageio_ffmpeg
import pytest
import torch

from hotlap.evaluation.race_film import COLOURS, Racer, film_race
from hotlap.evaluation.race_table import match_line, print_match, print_race, verdict_line
from hotlap.evaluation.racing import match_on, pace, race_on
from hotlap.records import EpisodeResult
from hotlap.sim.tracks import find_track
from hotlap.tasks.batch import BatchEnv
from hotlap.tasks.registry import make_task

from .scripted import always


def drive(number: int, speed: float, lap: float | None = None) -> EpisodeResult:
    return EpisodeResult(
        identity=number,
        seed=7,
        track="warren",
        episode_return=speed,
        length=200,
        seconds=10.0,
        end="time",
        laps=0 if lap is None else 1,
        lap_times=() if lap is None else (lap,),
        progress=10.0 * speed,
    )


SLOW = [drive(i, 1.0 + i, lap=20.0 + i) for i in range(5)]
FAST = [drive(i, 1.1 + i, lap=19.0 + i) for i in range(5)]


def raced(a: list[EpisodeResult], b: list[EpisodeResult]) -> tuple[str, float, tuple[float, ...]]:
    race = race_on({"warren": a}, {"warren": b}, {"warren": 10.0}, {})
    assert race.pace.interval is not None
    return race.winner, race.pace.mean, race.pace.interval


def test_a_driver_against_itself_is_even_to_the_last_digit() -> None:
    assert raced(SLOW, SLOW) == ("even", 0.0, (0.0, 0.0))


def test_pairs_show_what_means_would_hide() -> None:
    # Episodes differ by up to 4 m/s and the drivers by 0.1, the same in every pair.
    winner, mean, interval = raced(FAST, SLOW)
    assert winner == "a" and mean == pytest.approx(0.1)
    assert interval == pytest.approx((0.1, 0.1))
    assert raced(SLOW, FAST)[0] == "b"


def test_an_interval_that_holds_zero_is_even() -> None:
    mixed = [drive(i, 1.0 + i + (-1) ** i) for i in range(5)]
    winner, _, (low, high) = raced(mixed, SLOW)
    assert winner == "even" and low < 0 < high


def test_lap_times_are_compared_where_both_have_one() -> None:
    some = [replace(row, laps=0, lap_times=()) if row.identity else row for row in FAST]
    race = race_on({"warren": some}, {"warren": SLOW}, {"warren": 10.0}, {})
    assert race.lap_time is not None and race.lap_time.pairs == 1
    assert race.lap_time.mean == pytest.approx(-1.0) and race.lap_time.interval is None
    none = race_on({"warren": [drive(0, 1.0)]}, {"warren": SLOW[:1]}, {"warren": 10.0}, {})
    assert none.lap_time is None and none.winner == "even"


def test_a_crashed_car_stands_until_time_is_up_and_an_open_road_has_an_end() -> None:
    row = replace(drive(0, 2.0), seconds=4.0, progress=8.0)
    assert pace(replace(row, end="crashed"), 10.0) == pytest.approx(0.8)
    assert pace(replace(row, end="road end"), 10.0) == pytest.approx(2.0)


def test_episodes_of_other_seeds_are_no_pairs() -> None:
    with pytest.raises(ValueError, match="no pairs"):
        raced(SLOW, [replace(row, seed=8) for row in SLOW])


def test_the_table_names_the_winner(capsys: pytest.CaptureFixture[str]) -> None:
    race = race_on({"warren": FAST}, {"warren": SLOW}, {"warren": 10.0}, {})
    print_race(race, "me", "you")
    printed = capsys.readouterr().out
    assert "A me" in printed and "-1.00 [-1.00, -1.00]" in printed
    assert verdict_line(race).startswith("A wins: pace A - B +0.100 m/s")


def test_both_are_filmed_until_the_last_is_over(tmp_path: Path) -> None:
    racers = []
    for throttle, steps, colour in zip((0.0, 0.3), (6, 9), COLOURS, strict=True):
        task = make_task("donkey-telemetry", tracks=("waveshare",), max_steps=steps)
        env = BatchEnv(task, 1, seed=0, who=torch.zeros(1, dtype=torch.int64))
        racers.append(Racer("someone", always(0.0, throttle), env, colour))
    film = film_race(tmp_path / "a.mp4", find_track("waveshare"), (racers[0], racers[1]))
    frames, _ = imageio_ffmpeg.count_frames_and_secs(str(film))
    assert frames == 9 + 20  # and the last one for a second
    assert [racer.end for racer in racers] == ["ended after 0.30 s", "ended after 0.45 s"]


def test_in_carracing_the_score_decides_and_laps_are_compared_where_both_are_whole(
    capsys: pytest.CaptureFixture[str],
) -> None:
    ours = [drive(0, 900.0, lap=15.0), drive(1, 910.0), drive(2, 930.0, lap=12.0)]
    theirs = [drive(0, 890.0, lap=16.0), drive(1, 905.0, lap=14.0), drive(2, 927.0)]
    match = match_on(ours, theirs)
    assert match.winner == "a" and match.episode_return.mean == pytest.approx((10 + 5 + 3) / 3)
    assert match.lap_time is not None
    assert (match.lap_time.mean, match.lap_time.pairs) == (-1.0, 1)
    assert match.a.lap_rate == match.b.lap_rate == pytest.approx(2 / 3)
    print_match(match, "one", "two")
    told = capsys.readouterr().out
    assert "A one" in told and "67%" in told
    assert match_line(match).startswith("A wins: score A - B +6.0 (+3.0 to +10.0, 95 %) over 3")
    assert match_on(theirs, ours).winner == "b"
    with pytest.raises(ValueError, match="no pairs"):
        match_on(ours, theirs[::-1])
