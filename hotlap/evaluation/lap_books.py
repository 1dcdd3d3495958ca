"""Which laps of an episode count, and which were begun.

A lap is a full length of the road from wherever the episode began, some part of the car on the road
throughout. An open road is a single lap: driven to its end, and no less than `ENOUGH` of it. Steps
are told by name, each (length,):
    lap_time   seconds of the lap that ended in this step and counts, 0 where none did
    passed     whole lengths of the road until then, whether they count or not
    progress   net distance along the road, metres
    over_edge  how far the car's side is beyond the road's edge, metres; below zero is inside
"""

from dataclasses import dataclass

import numpy as np

from hotlap.records import End
from hotlap.tasks.adapters.arrays import Array

SLOWEST = 1.5
"""Mean speed of the slowest lap that there is time for, m/s."""
ENOUGH = 0.8
"""Share of an open road that must be driven for its end to count; less says nothing of the rest."""


@dataclass(frozen=True)
class Road:
    """What laps are counted by."""

    length: float
    closed: bool
    from_rest: bool
    """Whether episodes begin at rest on the line."""
    car_width: float
    control_dt: float


@dataclass(frozen=True)
class LapBook:
    """The laps of an episode."""

    laps: int
    """Those that count."""
    begun: int
    """Those that were begun and had time to finish."""
    times: tuple[float, ...]
    """Seconds of those that count; an open road has one only where it began at rest on the line."""
    flying: tuple[float, ...]
    """Of these, the ones that began in motion: the second and later laps of an episode."""


def read_laps(own: dict[str, Array], end: End, road: Road) -> LapBook:
    """The laps of the episode with these steps."""
    return _closed(own, end, road) if road.closed else _open(own, end, road)


def read_crossings(own: dict[str, Array], end: End, least: int = 0) -> LapBook:
    """The same where only the line is told of, as simulators do: to cross it begins a lap.

    Args:
        own: The steps.
        end: Why the episode ended.
        least: Laps that any episode begins.
    """
    times = tuple(own["lap_time"][own["lap_time"] > 0].tolist())
    begun = max(least, len(times) + (end == "crashed"))
    return LapBook(len(times), begun, times, times[1:])


def _closed(own: dict[str, Array], end: End, road: Road) -> LapBook:
    steps = np.flatnonzero(own["lap_time"] > 0)
    times = own["lap_time"][steps]
    # A first lap lasts from the episode's first step to this one; any other is shorter by a lap.
    flying = times < (steps - 1) * road.control_dt
    passed = int(own["passed"][-1])
    return LapBook(
        laps=len(times),
        begun=passed + _lost(end, len(own["passed"]) - _last_pass(own), road),
        times=tuple(times.tolist()),
        flying=tuple(times[flying].tolist()),
    )


def _open(own: dict[str, Array], end: End, road: Road) -> LapBook:
    steps = len(own["progress"])
    if end != "road end":
        return LapBook(0, int(_lost(end, steps, road)), (), ())
    if own["progress"][-1] < ENOUGH * road.length:
        return LapBook(0, 0, (), ())
    clean = bool((own["over_edge"] < road.car_width).all())
    timed = (steps * road.control_dt,) if clean and road.from_rest else ()
    return LapBook(int(clean), 1, timed, ())


def _lost(end: End, steps: int, road: Road) -> bool:
    """Whether the lap that an episode ended in is lost: by a crash, a spin, a stop, or dawdling.

    Args:
        end: Why the episode ended.
        steps: Control steps since the lap began.
        road: Its road.
    """
    had_time = steps * road.control_dt >= road.length / SLOWEST
    return end in ("crashed", "spun", "stopped") or (end == "time" and had_time)


def _last_pass(own: dict[str, Array]) -> int:
    """Steps taken until the last lap began."""
    passes = np.flatnonzero(np.diff(own["passed"], prepend=0.0) > 0)
    return int(passes[-1]) + 1 if len(passes) else 0
