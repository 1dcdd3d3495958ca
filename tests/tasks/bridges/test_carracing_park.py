"""Processes full of cars: what they do, and what is said where one is lost."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hotlap.config.carracing import CarRacingConfig
from hotlap.tasks.bridges.carracing_park import CarPark, CarsGone

pytest.importorskip("Box2D")

SHORT = CarRacingConfig(backend="gymnasium", repeat=4, max_frames=12)
Parks = Callable[..., CarPark]


@pytest.fixture
def parks() -> Iterator[Parks]:
    """Cars that have begun, and are let go of with the test."""
    made: list[CarPark] = []

    def make(num_envs: int = 1, **more: Any) -> CarPark:
        made.append(CarPark(SHORT, num_envs, **more))
        made[-1].begin([(place, place, None) for place in range(num_envs)])
        return made[-1]

    yield make
    for park in made:
        park.close()


def test_what_goes_wrong_in_a_process_is_told_with_its_traceback(parks: Parks) -> None:
    park = parks()
    with pytest.raises(CarsGone, match=r"Traceback(.|\n)*2 finite numbers"):
        park.drive(np.full((1, 2), np.nan, np.float32))
    with pytest.raises(CarsGone, match="make them anew"):
        park.drive(np.zeros((1, 2)))


def test_an_interrupted_step_leaves_no_answer_for_the_next(
    parks: Parks, monkeypatch: pytest.MonkeyPatch
) -> None:
    park = parks()

    def interrupted(worker: int, timeout: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(park, "_answer", interrupted)
    with pytest.raises(KeyboardInterrupt):
        park.drive(np.zeros((1, 2)))
    with pytest.raises(CarsGone, match="make them anew"):
        park.drive(np.zeros((1, 2)))


def test_a_process_that_dies_ends_the_step_and_the_others(parks: Parks) -> None:
    park = parks(2, workers=2)
    victim, other = (worker.pid for worker in park._workers)
    os.kill(victim, signal.SIGKILL)
    with pytest.raises(CarsGone, match="code -9"):
        park.drive(np.zeros((2, 2)))
    assert not _lives(other)


def test_a_process_that_hangs_is_ended_in_time(parks: Parks) -> None:
    park = parks()
    park.timeout = 0.5
    (stopped,) = (worker.pid for worker in park._workers)
    os.kill(stopped, signal.SIGSTOP)
    with pytest.raises(CarsGone, match=r"within 0\.5 s"):
        park.drive(np.zeros((1, 2)))
    assert not _lives(stopped)


@pytest.mark.slow
def test_a_process_that_dies_while_it_starts_is_told_of(tmp_path: Path) -> None:
    script = tmp_path / "script.py"  # without a guard: every process would start processes
    script.write_text("""
from hotlap.config.carracing import CarRacingConfig
from hotlap.sim.carracing.catalogue import find_tile_tracks
from hotlap.tasks.bridges.carracing_park import CarPark
tracks = tuple(find_tile_tracks(("carracing:0-31",)))
CarPark(CarRacingConfig(backend="gymnasium"), 2, tracks, workers=2)
""")
    told = _run(script)
    assert told.returncode == 1
    assert "CarsGone: process 0 of CarRacing ended with code 1" in told.stderr


@pytest.mark.slow
@pytest.mark.parametrize("how", ["exit", "killed"])
def test_processes_end_with_the_one_that_began_them(how: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(f"""
import os, signal
from hotlap.config.carracing import CarRacingConfig
from hotlap.tasks.bridges.carracing_park import CarPark
if __name__ == "__main__":
    park = CarPark(CarRacingConfig(backend="gymnasium"), 2, workers=2)
    print(*(worker.pid for worker in park._workers), flush=True)
    if {how!r} == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
""")
    told = _run(script)
    workers = [int(word) for word in told.stdout.split()]
    assert len(workers) == 2, told.stderr
    deadline = time.monotonic() + 10
    while any(_lives(worker) for worker in workers) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(_lives(worker) for worker in workers)


def _run(script: Path) -> subprocess.CompletedProcess[str]:
    root = Path(__file__).parents[3]
    return subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=120,
        env=os.environ | {"PYTHONPATH": str(root)},
    )  # fmt: skip


def _lives(pid: int) -> bool:
    """Whether a process is there and more than a name that nobody has fetched."""
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
