"""Where judged cars drove, from above: their lines coloured by speed, crashes marked.

xy      places of a car, one per control step  (T, 2), metres
speed   its speed there                        (T,), m/s
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.textpath import TextPath

from hotlap.evaluation.crashes import Crashes
from hotlap.evaluation.first_episodes import LOST
from hotlap.evaluation.judge import Drive
from hotlap.evaluation.track_maps import CONE, INK, LAND, WALL, road_edges
from hotlap.sim.lap_records import limit_time
from hotlap.sim.tracks import Track, find_track
from hotlap.sim.tracks.curves import headings
from hotlap.sim.tracks.track import Array

ROAD, EDGE, CRASH = "#33383f", "#f7f7f2", "#ff3b30"
# The ends of turbo are too dark for a dark road.
SPEEDS = ListedColormap(colormaps["turbo"](np.linspace(0.1, 0.9, 256)))
_SLOWEST = (
    0.05  # share of the steps below the coldest colour: standing starts would take half of it
)
MOST_SPOTS = 5
"""Most crash spots that are marked, the fullest."""
TOLD_SPOTS = 2
"""Most crash spots that the title names."""
_LONG_SIDE = 8.0  # inches
_TITLE = 0.8  # inches, with one line of details
_DETAILS = 9.5  # points
_LINE = 0.17  # inches from one line of details to the next
_BAR = 0.9  # inches at the right for the colour bar
_MARGIN = 0.25  # inches


def draw_every_track(drives: Sequence[Drive], folder: Path, vehicle: str = "donkey") -> list[Path]:
    """One PNG file in `folder` for each track that was driven."""
    by_track: dict[str, list[Drive]] = {}
    for drive in drives:
        if drive.episode.track is not None:
            by_track.setdefault(drive.episode.track, []).append(drive)
    paths = []
    for name, own in by_track.items():
        track = find_track(name)
        path = folder / f"{track.name.replace(':', '-')}.png"
        paths.append(draw_drives(track, own, path, vehicle))
    return paths


def draw_drives(
    track: Track,
    drives: Sequence[Drive],
    path: Path,
    vehicle: str = "donkey",
    crashes: Crashes | None = None,
) -> Path:
    """Draw drives on one track into a PNG file.

    Args:
        track: The road.
        drives: Those who drove on it.
        path: Where the picture goes; its folder is made.
        vehicle: Whose lap limit the best lap is compared with.
        crashes: Spots where cars crashed again and again, to be marked.
    """
    if not drives:
        raise ValueError(f"there are no drives on {track.name} to draw")
    details = _details(track, drives, vehicle, crashes)
    figure, axes = _sheet(track, drives, details)
    draw_road(axes, track)
    draw_start(axes, track)
    _draw_lines(figure, axes, drives)
    _draw_crashes(axes, drives)
    if crashes is not None:
        _mark_spots(axes, track, crashes)
    _draw_scale(axes)
    _draw_legend(figure)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150, facecolor=LAND)
    return path


def _sheet(track: Track, drives: Sequence[Drive], details: Sequence[str]) -> tuple[Figure, Axes]:
    """Paper of the proportions of the road and of all that was driven beside it, with a title."""
    around = np.vstack([*road_edges(track, beyond=track.wall_gap or 0.0), *(d.xy for d in drives)])
    low, high = around.min(0), around.max(0)
    room = 0.03 * float((high - low).max())
    middle, extent = (low + high) / 2, high - low + 2 * room
    scale = _LONG_SIDE / float(extent.max())
    width, height = size = np.maximum(scale * extent, (4.0, 2.0))
    lines = _lines(details, width + _BAR)
    title = _TITLE + _LINE * (len(lines) - 1)
    figure = Figure(figsize=(width + _BAR + 2 * _MARGIN, height + title + _MARGIN))
    whole = figure.get_size_inches()
    axes = figure.add_axes((_MARGIN / whole[0], _MARGIN / whole[1], *size / whole))
    # All of the paper's size, or a narrow road's limits would not fit an equal aspect.
    low, high = middle - size / scale / 2, middle + size / scale / 2
    axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
    axes.set_aspect("equal")
    axes.axis("off")
    left, inch = _MARGIN / whole[0], 1 / whole[1]
    name = track.name.replace("_", " ")
    figure.text(left, 1 - 0.16 * inch, name, fontsize=15, weight="bold", color=INK, va="top")
    for place, line in enumerate(lines):
        down = (0.5 + place * _LINE) * inch
        figure.text(left, 1 - down, line, fontsize=_DETAILS, color=INK, va="top")
    return figure, axes


def _lines(details: Sequence[str], room: float) -> list[str]:
    """As many details in each line as fit into so many inches."""
    lines = [details[0]]
    for detail in details[1:]:
        longer = f"{lines[-1]}  ·  {detail}"
        if TextPath((0, 0), longer, size=_DETAILS).get_extents().width <= 72 * room:
            lines[-1] = longer
        else:
            lines.append(detail)
    return lines


def draw_road(axes: Axes, track: Track) -> None:
    """The road in the dark colour that driven lines stand out from, its walls and cones."""
    left, right = (_closed(edge, track) for edge in road_edges(track))
    # One quadrangle per piece: a single polygon would punch holes where the road crosses itself.
    quads = np.stack([left[:-1], left[1:], right[1:], right[:-1]], axis=1)  # (M, 4, 2)
    road = PolyCollection(quads, facecolor=ROAD, edgecolor=ROAD, linewidth=0.5, snap=False)  # type: ignore[arg-type]
    axes.add_collection(road)
    for edge in (left, right):
        axes.plot(*edge.T, color=EDGE, linewidth=1.0, snap=False)
    if track.wall_gap is not None:
        for wall in road_edges(track, beyond=track.wall_gap):
            axes.plot(*_closed(wall, track).T, color=WALL, linewidth=1.8)
    if track.cones is not None:
        axes.plot(*track.cones.T, "o", color=CONE, markeredgecolor=EDGE, markersize=4)


def draw_start(axes: Axes, track: Track) -> None:
    """A line across the road where laps begin, and the way to go."""
    left, right = road_edges(track)
    at = round(track.starts[0].s / track.spacing) % track.num_points
    axes.plot(*np.stack([left[at], right[at]]).T, color=EDGE, linewidth=3.0, solid_capstyle="butt")
    heading = headings(track.xy, track.closed)[at]
    forward = np.array([np.cos(heading), np.sin(heading)])
    width = float(np.linalg.norm(right[at] - left[at]))
    extent = float(np.ptp(track.xy, axis=0).max())
    beside = right[at] + max(0.25, 0.02 * extent / width) * (right[at] - left[at])
    length = max(width, 0.05 * extent)
    axes.annotate(
        "",
        xy=tuple(beside + length * forward),
        xytext=tuple(beside),
        arrowprops={"arrowstyle": "-|>", "color": INK, "lw": 2.0, "mutation_scale": 16},
    )


def _draw_lines(figure: Figure, axes: Axes, drives: Sequence[Drive]) -> None:
    pieces = [np.stack([drive.xy[:-1], drive.xy[1:]], axis=1) for drive in drives]
    speeds = [(drive.speed[:-1] + drive.speed[1:]) / 2 for drive in drives]
    lines = LineCollection(
        list(np.concatenate(pieces)),
        cmap=SPEEDS,
        linewidth=2.4 if len(drives) == 1 else 1.5,
        capstyle="round",
        zorder=3,
    )
    lines.set_array(np.concatenate(speeds))
    low, high = np.quantile(np.concatenate([drive.speed for drive in drives]), [_SLOWEST, 1.0])
    lines.set_clim(float(low), float(max(high, low + 0.1)))  # cars that stand still have no range
    axes.add_collection(lines, autolim=False)
    starts = np.array([drive.xy[0] for drive in drives])
    axes.plot(
        *starts.T, "o", color=EDGE, markeredgecolor=INK, markersize=5, zorder=4, label="start"
    )
    box = axes.get_position()
    inch = 1 / figure.get_figwidth()
    tall = min(box.height, 4.0 / figure.get_figheight())
    place = (box.x1 + 0.2 * inch, box.y0 + (box.height - tall) / 2, 0.14 * inch, tall)
    bar = figure.colorbar(lines, cax=figure.add_axes(place), extend="min")
    bar.set_label("speed, m/s", color=INK)
    bar.ax.tick_params(colors=INK, labelsize=8)
    bar.outline.set_visible(False)


def _draw_crashes(axes: Axes, drives: Sequence[Drive]) -> None:
    spots = [drive.xy[-1] for drive in drives if drive.episode.end in LOST]
    if spots:
        x, y = np.array(spots).T
        axes.scatter(x, y, s=120, c=CRASH, marker="X", edgecolor="white", zorder=5, label="crash")


def _mark_spots(axes: Axes, track: Track, crashes: Crashes) -> None:
    """Paint the stretch of road of every spot, and how many of the crashes it holds."""
    left, right = road_edges(track)
    for spot in crashes.spots[:MOST_SPOTS]:
        half = round((spot.width / 2 + track.half_width / 2) / track.spacing)
        middle = round(spot.s / track.spacing)
        along = np.arange(middle - half, middle + half + 1)
        along = along % track.num_points if track.closed else along.clip(0, track.num_points - 1)
        outline = np.vstack([left[along], right[along][::-1]])
        axes.fill(*outline.T, color=CRASH, alpha=0.45, linewidth=0, zorder=2)
        x, y = track.xy[middle % track.num_points]
        axes.text(
            x, y, f"{spot.count}×", ha="center", va="center", fontsize=8, weight="bold",
            color=CRASH, zorder=6,
            bbox={"boxstyle": "round,pad=0.2", "facecolor": LAND, "edgecolor": CRASH},
        )  # fmt: skip


def _draw_scale(axes: Axes) -> None:
    """A bar of a round number of metres in the lower left corner."""
    left, right = axes.get_xlim()
    wanted = (right - left) / 6
    decade = 10.0 ** np.floor(np.log10(wanted))
    length = decade * max(step for step in (1, 2, 5) if step * decade <= wanted)
    across = axes.get_xaxis_transform()
    axes.plot([left, left + length], [0.005, 0.005], color=INK, linewidth=2.5, transform=across)
    axes.text(left, 0.015, f"{length:g} m", color=INK, fontsize=8, transform=across)


def _details(
    track: Track, drives: Sequence[Drive], vehicle: str, crashes: Crashes | None
) -> list[str]:
    """What is told below the name of the track."""
    episodes = [drive.episode for drive in drives]
    laps = [time for episode in episodes for time in episode.lap_times or ()]
    lost = [episode.end for episode in episodes if episode.end in LOST]
    earned = np.mean([episode.episode_return for episode in episodes])
    several = len(episodes) > 1
    details = [f"{len(episodes)} drives"] if several else []
    details.append(f"{'mean return' if several else 'return'} {earned:.1f}")
    if laps:
        limit = limit_time(track.name, vehicle)
        beside = "" if limit is None else f" ({min(laps) / limit:.2f} × the least possible)"
        details.append(f"{'best lap' if len(laps) > 1 else 'lap'} {min(laps):.2f} s{beside}")
    elif track.closed:
        details.append("no lap")
    if lost:
        how = " or ".join(end for end in LOST if end in lost)
        details.append(f"{len(lost)} of {len(episodes)} {how}" if several else how)
    if crashes is not None and crashes.spots:
        details += [f"{spot.count} at {spot.s:.1f} m" for spot in crashes.spots[:TOLD_SPOTS]]
    return details


def _draw_legend(figure: Figure) -> None:
    left = _MARGIN / figure.get_figwidth()
    inch = 1 / figure.get_figheight()
    figure.legend(
        loc="upper right", bbox_to_anchor=(1 - left, 1 - 0.08 * inch), ncols=2,
        frameon=False, labelcolor=INK, fontsize=9, handletextpad=0.1, columnspacing=1.2,
    )  # fmt: skip


def _closed(points: Array, track: Track) -> Array:
    return np.vstack([points, points[:1]]) if track.closed else points
