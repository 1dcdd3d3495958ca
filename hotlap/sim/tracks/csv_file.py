"""Centre lines in CSV files.

    row   x, y, width to the right, width to the left: four numbers in metres, in driving order
    line  number of a line in the file, from 1

Numbers are parted by commas or semicolons. Empty lines and lines that begin with `#` are skipped,
and so is a first row of words. A file comes from anywhere, so it is bounded and checked before any
of it is used; what is wrong is told with the file's name and the line.
"""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hotlap.sim.tracks import curves
from hotlap.sim.tracks.track import Array, Track

MAX_BYTES = 64 * 2**20
MAX_LINES = 1_000_000
MAX_SAMPLES = 1_000_000
"""Bounds on what is read and on what it may grow to once resampled."""

_MIN_POINTS_CLOSED, _MIN_POINTS_OPEN = 5, 4


@dataclass(frozen=True)
class _Rows:
    """What a file says: `values` (K, 4), and the line of each."""

    path: Path
    values: Array
    lines: list[int]

    def refuse(self, row: int, problem: str) -> ValueError:
        return ValueError(f"{self.path}, line {self.lines[row]}: {problem}")


def load_csv(path: str | Path, closed: bool = True, spacing: float | None = None) -> Track:
    """Read a centre line, lay a spline through it and check that it can be driven.

    Args:
        path: File of rows `x, y, width right, width left`.
        closed: Whether the last point leads back to the first; it may repeat it or not.
        spacing: Distance between samples, metres; by default a tenth of the mean half-width.

    Raises:
        ValueError: The file is too large, a row is not four finite numbers, a width is not above
            zero, a point repeats the one before, there are too few points, or the line crosses
            itself.
    """
    rows = _without_repeated_end(_read(Path(path)), closed)
    _check(rows, closed)
    points, widths = rows.values[:, :2], rows.values[:, 2:]
    spacing = float(widths.mean()) / 10 if spacing is None else spacing
    length = curves.cumulative_length(points, closed)[-1]
    if not spacing > 0 or length / spacing > MAX_SAMPLES:
        raise ValueError(
            f"{path}: {length:.4g} m in samples of {spacing:.4g} m would be more than "
            f"{MAX_SAMPLES:,}; use a larger spacing"
        )
    xy, where = curves.resample(points, spacing, closed)
    _refuse_crossing(rows, xy, where, closed)

    padded = np.vstack([widths, widths[:1]])
    index = np.arange(len(padded))
    return Track(
        name=Path(path).stem,
        xy=xy,
        width_left=np.interp(where, index, padded[:, 1]),
        width_right=np.interp(where, index, padded[:, 0]),
        z=np.zeros(len(xy)),
        closed=closed,
        style="circuit",
    )


def save_csv(track: Track, path: str | Path) -> None:
    """Write a track's line and widths as `load_csv` reads them; height and grip are lost."""
    columns = np.column_stack([track.xy, track.width_right, track.width_left])
    header = f"{track.name}\nx_m, y_m, width_right_m, width_left_m"
    np.savetxt(path, columns, fmt="%.9g", delimiter=",", header=header)


def _read(path: Path) -> _Rows:
    if not path.is_file():
        raise ValueError(f"{path}: there is no such track file")
    size = path.stat().st_size
    if size > MAX_BYTES:
        raise ValueError(f"{path}: {size:,} bytes; a track file may have {MAX_BYTES:,}")
    text = path.read_text(encoding="utf-8-sig", errors="replace").splitlines()
    if len(text) > MAX_LINES:
        raise ValueError(f"{path}: {len(text):,} lines; a track file may have {MAX_LINES:,}")
    values: list[list[float]] = []
    lines: list[int] = []
    header_allowed = True
    for number, line in enumerate(text, start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        fields = line.split(";" if ";" in line else ",")
        if header_allowed and not any(_is_number(field) for field in fields):
            header_allowed = False
            continue
        header_allowed = False
        values.append(_parse(fields, f"{path}, line {number}"))
        lines.append(number)
    return _Rows(path, np.array(values).reshape(-1, 4), lines)


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _parse(fields: list[str], place: str) -> list[float]:
    if len(fields) != 4:
        raise ValueError(
            f"{place}: expected 4 numbers (x, y, width right, width left), found {len(fields)}"
        )
    for field in fields:
        if not _is_number(field) or not math.isfinite(float(field)):
            raise ValueError(f"{place}: {field.strip()!r} is not a finite number")
    return [float(field) for field in fields]


def _without_repeated_end(rows: _Rows, closed: bool) -> _Rows:
    if closed and len(rows.values) > 1 and np.array_equal(rows.values[0, :2], rows.values[-1, :2]):
        return _Rows(rows.path, rows.values[:-1], rows.lines[:-1])
    return rows


def _check(rows: _Rows, closed: bool) -> None:
    """Refuse too few points, points that repeat the one before, and widths of nothing."""
    least = _MIN_POINTS_CLOSED if closed else _MIN_POINTS_OPEN
    if len(rows.values) < least:
        kind = "a closed track" if closed else "an open road"
        last = f", line {rows.lines[-1]}" if rows.lines else ""
        raise ValueError(
            f"{rows.path}{last}: {kind} needs at least {least} points, found {len(rows.values)}"
        )
    same = np.all(np.diff(rows.values[:, :2], axis=0) == 0, axis=1)
    if same.any():
        row = int(same.argmax()) + 1
        raise rows.refuse(row, f"repeats the point of line {rows.lines[row - 1]}")
    narrow = np.any(rows.values[:, 2:] <= 0, axis=1)
    if narrow.any():
        raise rows.refuse(int(narrow.argmax()), "a width must be above zero")


def _refuse_crossing(rows: _Rows, xy: Array, where: Array, closed: bool) -> None:
    found = curves.crossings(xy, closed)
    if len(found):
        first, second = (rows.lines[int(where[piece])] for piece in found[0])
        raise ValueError(
            f"{rows.path}, line {first}: the road from here crosses the road from line {second}"
        )
