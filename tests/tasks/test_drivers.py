"""Scripted drivers get round: they are the yardsticks that others are measured with."""

import pytest
import torch

from hotlap.sim.lap_records import lap_limit
from hotlap.sim.tracks import NAMES, find_track
from hotlap.tasks.batch import BatchEnv
from hotlap.tasks.donkey import DonkeyTask
from hotlap.tasks.drivers import DRIVERS, make_driver
from hotlap.tasks.registry import make_task

CLOSED = [name for name in NAMES if find_track(name).closed]
RANDOM = [f"{family}:{seed}" for family in ("circuit", "hills") for seed in range(100)]


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
@pytest.mark.parametrize("driver", list(DRIVERS))
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
@pytest.mark.parametrize("driver", list(DRIVERS))
def test_every_driver_laps_200_random_tracks(driver: str) -> None:
    assert len(lap_times(driver, RANDOM, max_steps=6000)) == len(RANDOM)


@pytest.mark.parametrize("driver", list(DRIVERS))
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
