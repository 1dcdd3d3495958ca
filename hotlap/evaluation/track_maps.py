"""What a track measures, and what it looks like from above.

left, right  edges of the road (M, 2), metres
line         a driven or optimal line, drawn over the road (K, 2), metres
speed        speed along that line, shown as its colour (K,), m/s
"""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.figure import Figure
from matplotlib.path import Path as Path2D
from matplotlib.transforms import Affine2D
from rich.console import Console
from rich.table import Table

from hotlap.sim.lap_records import racing_line
from hotlap.sim.racing_line import RacingLine
from hotlap.sim.tracks.curves import headings, tightest_radius
from hotlap.sim.tracks.track import Array, Track

LAND, ROAD, EDGE, CENTRE = "#edf0e6", "#4b515a", "#ffffff", "#f4c534"
WALL, CONE, ARROW, INK = "#8c3b2e", "#f26b21", "#e5383b", "#2b2f36"
_MOST_POINTS = 3000  # more cannot be told apart on paper
_CHEVRONS = 8  # for the direction of travel, besides the one at the start
_LONG_SIDE = 8.0  # inches
_TITLE = 0.75  # inches


def facts(track: Track) -> dict[str, Any]:
    """Measure a track, in metres, as plain JSON values; a straight has no tightest radius."""
    width = track.width_left + track.width_right
    radius = tightest_radius(track.xy, track.closed)
    height = np.append(track.z, track.z[0]) if track.closed else track.z
    return {
        "name": track.name,
        "length": track.length,
        "narrowest": float(width.min()),
        "widest": float(width.max()),
        "tightest_radius": radius if np.isfinite(radius) else None,
        "closed": track.closed,
        "climb": float(np.diff(height).clip(min=0).sum()),
        "style": track.style,
    }


def print_table(rows: list[dict[str, Any]]) -> None:
    """Print facts, one track per row."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("track", no_wrap=True)
    for title in ("length m", "width m", "tightest m", "climb m"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("shape")
    table.add_column("style")
    for row in rows:
        radius = row["tightest_radius"]
        table.add_row(
            row["name"],
            f"{row['length']:.1f}",
            _range(row["narrowest"], row["widest"]),
            "-" if radius is None else f"{radius:.2f}",
            f"{row['climb']:.1f}",
            "closed" if row["closed"] else "open",
            row["style"],
        )
    console = Console()
    # A file or a pipe has no width of its own; names must not be cut there.
    console.print(table, width=None if console.is_terminal else 120)


def draw_map(
    track: Track, path: Path, line: Array | None = None, speed: Array | None = None
) -> Path:
    """Draw a track from above into a PNG file, with a line over it if one is given."""
    figure = _sheet(track)
    height = 1 - _TITLE / figure.get_figheight()
    axes = figure.add_axes((0.03, 0.02, 0.94 if speed is None else 0.82, height - 0.02))
    axes.set_aspect("equal")
    axes.axis("off")
    _draw_road(axes, track)
    _draw_start(axes, track)
    if line is not None:
        _draw_line(figure, axes, line, speed)
    axes.autoscale_view()
    axes.margins(0.04)
    _draw_scale(axes)
    _write_title(figure, track)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150, facecolor=LAND)
    return path


def fast_line(track: Track) -> tuple[Array, Array]:
    """The line to drive (K, 2) and its speed (K,): solved where shipped, else a quick one."""
    line = racing_line(track)
    return places_on(track, line), line.speed


def places_on(track: Track, line: RacingLine) -> Array:
    """Where a line leads (K, 2), metres."""
    heading = np.unwrap(headings(track.xy, track.closed))
    along = np.arange(track.num_points) * track.spacing
    x, y, turn = (np.interp(line.s, along, column) for column in (*track.xy.T, heading))
    return np.stack([x - line.n * np.sin(turn), y + line.n * np.cos(turn)], axis=1)


def road_edges(track: Track, beyond: float = 0.0) -> tuple[Array, Array]:
    """Left and right edge of the road (M, 2), or lines `beyond` metres outside of them."""
    heading = headings(track.xy, track.closed)
    to_left = np.stack([-np.sin(heading), np.cos(heading)], axis=1)
    left = track.xy + (track.width_left + beyond)[:, None] * to_left
    right = track.xy - (track.width_right + beyond)[:, None] * to_left
    return left, right


def _sheet(track: Track) -> Figure:
    """Make a sheet of paper of about the track's proportions."""
    width, height = np.ptp(track.xy, axis=0) + 2 * track.width_left.max()
    scale = _LONG_SIDE / max(width, height)
    return Figure(figsize=(max(scale * width, 5.2), max(scale * height, 2.5) + _TITLE))


def _draw_road(axes: Axes, track: Track) -> None:
    left, right = (_thin(edge, track.closed) for edge in road_edges(track))
    # One quadrangle per piece: a single polygon would punch holes where the road crosses itself.
    quads = np.stack([left[:-1], left[1:], right[1:], right[:-1]], axis=1)  # (M, 4, 2)
    # The casing lies below all of the road, so that a crossing stays open.
    axes.add_collection(PolyCollection(quads, facecolor=INK, edgecolor=INK, linewidth=3.0))  # type: ignore[arg-type]
    axes.add_collection(PolyCollection(quads, facecolor=ROAD, edgecolor=ROAD, linewidth=0.4))  # type: ignore[arg-type]
    for edge in (left, right):
        axes.plot(*edge.T, color=EDGE, linewidth=1.1)
    axes.plot(*_thin(track.xy, track.closed).T, color=CENTRE, linewidth=0.9, dashes=(6, 5))
    if track.wall_gap is not None:
        for wall in road_edges(track, beyond=track.wall_gap):
            axes.plot(*_thin(wall, track.closed).T, color=WALL, linewidth=2.2)
    if track.cones is not None:
        axes.plot(*track.cones.T, "o", color=CONE, markeredgecolor=EDGE, markersize=5, zorder=4)


def _draw_start(axes: Axes, track: Track) -> None:
    """Draw a chequered line and an arrow at the start, and chevrons on the way round."""
    left, right = road_edges(track)
    start = round(track.starts[0].s / track.spacing) % track.num_points
    heading = headings(track.xy, track.closed)
    forward = np.array([np.cos(heading[start]), np.sin(heading[start])])
    across = (right[start] - left[start]) / 8
    depth = forward * np.linalg.norm(across)
    square = np.stack([np.zeros(2), across, across + depth, depth])
    cells = [(row, column) for row in (0, 1) for column in range(8)]
    squares = [left[start] + column * across - row * depth + square for row, column in cells]
    shades = [(INK, EDGE)[(row + column) % 2] for row, column in cells]
    axes.add_collection(PolyCollection(squares, facecolor=shades, zorder=5))
    middle = (left[start] + right[start]) / 2
    width = float(np.linalg.norm(right[start] - left[start]))
    length = max(1.3 * width, 0.05 * float(np.ptp(track.xy, axis=0).max()))
    axes.annotate(
        "",
        xy=tuple(middle + (0.3 * width + length) * forward),
        xytext=tuple(middle + 0.3 * width * forward),
        arrowprops={"arrowstyle": "-|>", "color": ARROW, "lw": 2.5, "mutation_scale": 18},
        zorder=6,
    )
    for step in range(1, _CHEVRONS + 1):
        i = start + step * track.num_points // (_CHEVRONS + 1)
        if track.closed or i < track.num_points:
            i %= track.num_points
            _draw_chevron(axes, (left[i] + right[i]) / 2, heading[i])


def _draw_chevron(axes: Axes, place: Array, heading: float) -> None:
    shape = Path2D(np.array([[-0.6, -0.6], [0.7, 0.0], [-0.6, 0.6], [-0.25, 0.0], [-0.6, -0.6]]))
    marker = shape.transformed(Affine2D().rotate(heading))
    axes.plot(*place, marker=marker, markersize=8, color=EDGE, markeredgewidth=0, zorder=4)


def _draw_line(figure: Figure, axes: Axes, line: Array, speed: Array | None) -> None:
    if speed is None:
        axes.plot(*line.T, color=ARROW, linewidth=1.8, zorder=3)
        return
    pieces = np.stack([line[:-1], line[1:]], axis=1)  # (K - 1, 2, 2)
    coloured = LineCollection(list(pieces), cmap="turbo", linewidth=2.2, zorder=3)
    coloured.set_array((speed[:-1] + speed[1:]) / 2)
    axes.add_collection(coloured)
    bar = figure.colorbar(coloured, cax=figure.add_axes((0.88, 0.2, 0.018, 0.5)))
    bar.set_label("speed, m/s", color=INK)


def _draw_scale(axes: Axes) -> None:
    """Draw a bar of a round number of metres in the lower left corner."""
    left, right = axes.get_xlim()
    bottom, top = axes.get_ylim()
    wanted = (right - left) / 6
    decade = 10.0 ** np.floor(np.log10(wanted))
    length = decade * max(step for step in (1, 2, 5) if step * decade <= wanted)
    height = bottom + 0.015 * (top - bottom)
    axes.plot([left, left + length], [height, height], color=INK, linewidth=2.5)
    axes.text(left, height + 0.012 * (top - bottom), f"{length:g} m", color=INK, fontsize=8)


def _write_title(figure: Figure, track: Track) -> None:
    row = facts(track)
    details = [
        f"{row['length']:.1f} m {'round' if track.closed else 'long'}",
        f"{_range(row['narrowest'], row['widest'])} m wide",
    ]
    if row["tightest_radius"] is not None:
        details.append(f"tightest radius {row['tightest_radius']:.2f} m")
    if row["climb"] > 0:
        details.append(f"climbs {row['climb']:.1f} m")
    title = track.name.replace("_", " ")
    inch = 1 / figure.get_figheight()
    figure.text(0.03, 1 - 0.12 * inch, title, fontsize=15, weight="bold", color=INK, va="top")
    figure.text(0.03, 1 - 0.46 * inch, "  ·  ".join(details), fontsize=8.5, color=INK, va="top")


def _thin(points: Array, closed: bool) -> Array:
    """Leave out points that would not show; close a closed line."""
    kept = points[:: 1 + len(points) // _MOST_POINTS]
    return np.vstack([kept, points[:1] if closed else points[-1:]])


def _range(low: float, high: float) -> str:
    return f"{low:.2f}" if high - low < 0.005 else f"{low:.2f} to {high:.2f}"
