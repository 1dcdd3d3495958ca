"""Centre lines in CSV files.

    row   x, y, width to the right, width to the left: four numbers in metres, in driving order; or
          x and y alone, where whoever reads them knows a width
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
_COLUMNS = {2: "x, y", 4: "x, y, width right, width left"}


@dataclass(frozen=True)
class CsvLine:
    """What a file says."""

    path: Path
    points: Array
    """Places along the line (K, 2); a closed one does not repeat its first."""
    widths: Array | None
    """To the right and to the left (K, 2), if it tells them."""
    lines: list[int]
    """The line of each row."""
    closed: bool

    def refuse(self, row: int, problem: str) -> ValueError:
        """What to say of a row that is wrong."""
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
    line = read_line(path, closed)
    track, where = lay_road(line, spacing)
    _refuse_crossing(line, track.xy, where)
    return track


def read_line(path: str | Path, closed: bool = True) -> CsvLine:
    """Read and check what a file says; the line may cross itself, and may have no widths.

    Raises:
        ValueError: As `load_csv`, but for crossings.
    """
    line = _read(Path(path), closed)
    _check(line)
    return line


def lay_road(line: CsvLine, spacing: float | None = None) -> tuple[Track, Array]:
    """Lay a spline through the points, and say where among them each of its samples lies.

    Raises:
        ValueError: The file tells no widths, or there would be too many samples.
    """
    points, widths, closed = line.points, line.widths, line.closed
    if widths is None:
        raise line.refuse(
            0,
            f"expected 4 numbers ({_COLUMNS[4]}), found x and y alone; add how far the road "
            "reaches to either side (only CarRacing, whose roads are all alike, needs no widths)",
        )
    spacing = float(widths.mean()) / 10 if spacing is None else spacing
    length = curves.cumulative_length(points, closed)[-1]
    if not spacing > 0 or length / spacing > MAX_SAMPLES:
        raise ValueError(
            f"{line.path}: {length:.4g} m in samples of {spacing:.4g} m would be more than "
            f"{MAX_SAMPLES:,}; use a larger spacing"
        )
    xy, where = curves.resample(points, spacing, closed)
    padded = np.vstack([widths, widths[:1]])
    index = np.arange(len(padded))
    track = Track(
        name=line.path.stem,
        xy=xy,
        width_left=np.interp(where, index, padded[:, 1]),
        width_right=np.interp(where, index, padded[:, 0]),
        z=np.zeros(len(xy)),
        closed=closed,
        style="circuit",
    )
    return track, where


def save_csv(track: Track, path: str | Path) -> None:
    """Write a track's line and widths as `load_csv` reads them; height and grip are lost."""
    columns = np.column_stack([track.xy, track.width_right, track.width_left])
    header = f"{track.name}\nx_m, y_m, width_right_m, width_left_m"
    np.savetxt(path, columns, fmt="%.9g", delimiter=",", header=header)


def _read(path: Path, closed: bool) -> CsvLine:
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
        columns = len(values[0]) if values else None
        values.append(_parse(fields, columns, f"{path}, line {number}"))
        lines.append(number)
    if closed and len(values) > 1 and values[0][:2] == values[-1][:2]:
        del values[-1], lines[-1]
    rows = np.array(values).reshape(len(values), -1 if values else 2)
    widths = rows[:, 2:] if rows.shape[1] > 2 else None
    return CsvLine(path, rows[:, :2], widths, lines, closed)


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _parse(fields: list[str], columns: int | None, place: str) -> list[float]:
    """The numbers of a row, of which there are as many as in the rows before."""
    allowed = _COLUMNS if columns is None else {columns: _COLUMNS[columns]}
    if len(fields) not in allowed:
        expected = " or ".join(f"{count} numbers ({names})" for count, names in allowed.items())
        raise ValueError(f"{place}: expected {expected}, found {len(fields)}")
    for field in fields:
        if not _is_number(field) or not math.isfinite(float(field)):
            raise ValueError(f"{place}: {field.strip()!r} is not a finite number")
    return [float(field) for field in fields]


def _check(line: CsvLine) -> None:
    """Refuse too few points, points that repeat the one before, and widths of nothing."""
    least = _MIN_POINTS_CLOSED if line.closed else _MIN_POINTS_OPEN
    if len(line.points) < least:
        kind = "a closed track" if line.closed else "an open road"
        last = f", line {line.lines[-1]}" if line.lines else ""
        raise ValueError(
            f"{line.path}{last}: {kind} needs at least {least} points, found {len(line.points)}"
        )
    same = np.all(np.diff(line.points, axis=0) == 0, axis=1)
    if same.any():
        row = int(same.argmax()) + 1
        raise line.refuse(row, f"repeats the point of line {line.lines[row - 1]}")
    if line.widths is None:
        return
    narrow = np.any(line.widths <= 0, axis=1)
    if narrow.any():
        raise line.refuse(int(narrow.argmax()), "a width must be above zero")


def _refuse_crossing(line: CsvLine, xy: Array, where: Array) -> None:
    found = curves.crossings(xy, line.closed)
    if not len(found):
        return
    gap = curves.why_open(line.points) if line.closed else None
    if gap is not None:  # what leads back to the first point crosses the rest
        raise line.refuse(-1, gap)
    first, second = (line.lines[int(where[piece])] for piece in found[0])
    raise ValueError(
        f"{line.path}, line {first}: the road from here crosses the road from line {second}"
    )
