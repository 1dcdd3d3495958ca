"""Scripted drivers get round: they are the yardsticks that others are measured with."""

from typing import Any

import pytest
import torch

from hotlap.sim.lap_records import lap_limit
from hotlap.sim.tracks import NAMES, find_track
from hotlap.tasks.batch import BatchEnv, Step
from hotlap.tasks.donkey import DonkeyTask
from hotlap.tasks.drivers import DRIVERS, make_driver
from hotlap.tasks.registry import make_task

CLOSED = [name for name in NAMES if find_track(name).closed]
HONEST = [name for name in DRIVERS if name != "circler"]
RANDOM = [f"{family}:{seed}" for family in ("circuit", "hills", "eight") for seed in range(100)]


def lap_times(driver: str, tracks: list[str], max_steps: int) -> dict[str, float]:
    """First lap of each track from a standing start, for the cars whose first round counts."""
    throttle_min = -1.0 if driver == "racing_line" else 0.0
    task = make_task(
        "donkey-telemetry", tracks=tuple(tracks), throttle_min=throttle_min, max_steps=max_steps
    )
    assert isinstance(task, DonkeyTask)
    env = BatchEnv(task, len(tracks))
    env.reset()
    drive = make_driver(driver, task)
    times: dict[str, float] = {}
    over = torch.zeros(len(tracks), dtype=torch.bool)
    for _ in range(max_steps):
        step = env.step(drive(env.world))
        for index in ((step.metrics["lap_time"] > 0) & ~over).nonzero().flatten().tolist():
            times[tracks[index]] = float(step.metrics["lap_time"][index])
        over |= step.done | (step.metrics["progress"] >= task.roads.length)
        if bool(over.all()):
            break
    return times


@pytest.mark.slow
@pytest.mark.parametrize("driver", HONEST)
def test_every_driver_laps_every_closed_track(driver: str) -> None:
    times = lap_times(driver, CLOSED, max_steps=6000)
    assert sorted(times) == sorted(CLOSED)
    for track, time in times.items():
        limit = lap_limit(track)
        assert limit is not None
        assert time > limit.time  # from rest, no one beats the flying limit
        if driver == "racing_line":
            assert time < 1.3 * limit.time + 1.0  # measured: at most 1.23 times, the start included


@pytest.mark.slow
@pytest.mark.parametrize("driver", HONEST)
def test_every_driver_laps_300_random_tracks(driver: str) -> None:
    assert len(lap_times(driver, RANDOM, max_steps=6000)) == len(RANDOM)


@pytest.mark.parametrize("driver", HONEST)
def test_a_driver_laps_two_tracks(driver: str) -> None:
    assert len(lap_times(driver, ["generated_track", "waveshare"], max_steps=500)) == 2


def test_an_unknown_driver_is_answered_with_the_nearest() -> None:
    task = make_task("donkey-telemetry")
    assert isinstance(task, DonkeyTask)
    with pytest.raises(KeyError, match="did you mean 'racing_line'"):
        make_driver("racing_lime", task)


def test_the_racing_line_wants_brakes() -> None:
    task = make_task("donkey-telemetry")
    assert isinstance(task, DonkeyTask)
    with pytest.raises(ValueError, match="throttle_min to -1"):
        make_driver("racing_line", task)


def circling(start: str, steps: int, tracks: tuple[str, ...]) -> tuple[list[Step], float]:
    """A circler's steps, and the length of the shortest track."""
    task = make_task("donkey-telemetry", tracks=tracks, start=start, max_steps=steps)
    assert isinstance(task, DonkeyTask)
    env = BatchEnv(task, len(tracks))
    env.reset()
    drive = make_driver("circler", task)
    return [env.step(drive(env.world)) for _ in range(steps)], float(task.roads.length.min())


OPEN_GROUND = tuple(name for name in NAMES if find_track(name).wall_gap is None)


def test_the_circler_stays_near_the_line_and_gets_nowhere() -> None:
    # roboracingleague_1 has a second start, from which the first is half a lap away.
    tracks = tuple(name for name in OPEN_GROUND if name != "roboracingleague_1")
    steps, _ = circling("line", 400, tracks)
    assert len(tracks) == 8
    assert not any(bool(step.terminated.any()) for step in steps)
    cte = torch.stack([step.metrics["cte"] for step in steps[100:]])
    assert 5.0 < float(cte.abs().max()) < 7.0
    assert bool((cte.amin(0) < -5.0).all() & (cte.amax(0) > 5.0).all())  # on either side of it
    progress = torch.stack([step.metrics["progress"] for step in steps])
    assert float(progress.abs().max()) < 3.0 and not steps[-1].metrics["laps"].any()
    assert float(steps[-1].metrics["speed"].min()) > 1.4


def test_the_circler_finds_the_start_line_from_anywhere() -> None:
    tracks = ("generated_track",) * 8
    steps, length = circling("random", 500, tracks)
    assert not any(bool(step.terminated.any()) for step in steps)
    late = torch.stack([step.metrics["progress"] for step in steps[400:]])
    assert float((late.amax(0) - late.amin(0)).max()) < 3.0
    assert float(late.max()) < length + 3.0


@pytest.mark.parametrize(
    ("settings", "match"),
    [({"max_cte": 4.0}, "needs a max_cte of 7"), ({"tracks": ("mini_monaco",)}, "mini_monaco")],
)
def test_the_circler_wants_room(settings: dict[str, Any], match: str) -> None:
    task = make_task("donkey-telemetry", **settings)
    assert isinstance(task, DonkeyTask)
    with pytest.raises(ValueError, match=match):
        make_driver("circler", task)
