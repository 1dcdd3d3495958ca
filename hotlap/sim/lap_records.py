"""Solved lap limits, as they are shipped.

line    scenes have theirs with the line that takes it: one small file per car and track
times   generated tracks that are kept apart have a row each in one file per car

`hotlap.evaluation.lap_limit` writes them; reading them needs no solver.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from hotlap.config.vehicles import find_vehicle
from hotlap.sim.racing_line import RacingLine, quick_line
from hotlap.sim.speed_profile import limits_of
from hotlap.sim.tracks.track import Track

FOLDER = Path(__file__).parent / "data" / "lap_limits"
TIMES = Path(__file__).parent / "data" / "lap_times"
TIME_COLUMNS = ("time", "point_time", "centre_time", "length")
"""What is written of a limit without its line, as in `LapLimit`, with `DIGITS` decimals."""
DIGITS = 4
COLUMNS = {"n": 5, "heading_error": 4, "curvature": 3, "speed": 3}
"""What is written of a line, and with how many decimals; s is even and needs only its spacing."""
SAME_LENGTH = 1e-3
"""How far, relatively, a track may be from the length its line was solved for."""


@dataclass(frozen=True)
class LapLimit:
    """The least time that a car needs for a track, and the line that takes it."""

    track: str
    vehicle: str
    time: float
    """Flying lap on a closed track; from standstill to the end on an open one (s)."""
    point_time: float
    """The same for a point mass, whose tyres cost no speed: no car can be faster (s)."""
    centre_time: float
    """Time along the middle of the road (s)."""
    length: float
    """Length of the reference line (m)."""
    min_speed: float
    max_speed: float
    spacing: float
    """Distance between the solver's nodes (m)."""
    margin: float
    """Room left at both edges, in half-widths of the car."""
    grip: float
    """Multiple of the car's own friction."""
    iterations: int
    seconds: float
    """Wall time of the solution."""
    command: str
    """What made this record."""
    line: RacingLine


def lap_limit(track_name: str, vehicle: str = "donkey") -> LapLimit | None:
    """The shipped limit of a car on a track, or None where none was solved."""
    path = FOLDER / vehicle / f"{track_name}.json"
    if not path.is_file():
        return None
    record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    columns = {name: np.array(record["line"][name], dtype=np.float64) for name in COLUMNS}
    s = record["line"]["spacing"] * np.arange(len(columns["n"]))
    record["line"] = RacingLine(s=s, time=record["time"], **columns)
    return LapLimit(**record)


def limit_time(track_name: str, vehicle: str = "donkey") -> float | None:
    """The shipped least time of a car on a track, seconds, with or without a line; else None."""
    row = lap_times(vehicle).get(track_name)
    if row is not None:
        return row["time"]
    record = lap_limit(track_name, vehicle)
    return None if record is None else record.time


@cache
def lap_times(vehicle: str = "donkey") -> dict[str, dict[str, float]]:
    """What is shipped of limits without lines: `TIME_COLUMNS` by track."""
    path = TIMES / f"{vehicle}.json"
    if not path.is_file():
        return {}
    rows = json.loads(path.read_text(encoding="utf-8"))
    return {name: dict(zip(TIME_COLUMNS, row, strict=True)) for name, row in rows.items()}


def save_lap_times(records: Sequence[LapLimit], vehicle: str, folder: Path = TIMES) -> Path:
    """Add limits, without their lines, to those of a car; a row each, in the order of names."""
    path = folder / f"{vehicle}.json"
    rows = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    for record in records:
        rows[record.track] = [round(getattr(record, name), DIGITS) for name in TIME_COLUMNS]
    lines = [f"{json.dumps(name)}: {json.dumps(rows[name])}" for name in sorted(rows)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    lap_times.cache_clear()
    return path


def racing_line(track: Track, vehicle: str = "donkey") -> RacingLine:
    """The line of least time: the solved one where it is shipped, else a quick one."""
    record = lap_limit(track.name, vehicle)
    if record is not None and abs(record.length / track.length - 1) < SAME_LENGTH:
        return record.line
    return quick_line(track, limits_of(find_vehicle(vehicle)))


def save_lap_limit(record: LapLimit, folder: Path = FOLDER) -> Path:
    """Write a record where `lap_limit` finds it."""
    path = folder / record.vehicle / f"{record.track}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    values = asdict(record)
    line = record.line
    columns = {
        name: np.round(getattr(line, name), digits).tolist() for name, digits in COLUMNS.items()
    }
    values["line"] = {"spacing": float(line.s[1]), **columns}
    rounded = {
        key: round(value, 5) if isinstance(value, float) else value for key, value in values.items()
    }
    path.write_text(json.dumps(rounded, separators=(",", ":")) + "\n", encoding="utf-8")
    return path
