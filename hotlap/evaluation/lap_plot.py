"""The best laps of two drivers, laid side by side: who gains where, and what is lost to the limit.

A map on which the road between the lines is coloured by who gains there, both speeds over the road,
and how far either is behind the fastest lap there can be.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from hotlap.evaluation.lap_traces import Trace
from hotlap.evaluation.track_maps import INK, LAND
from hotlap.evaluation.trajectory_plot import draw_road, draw_start
from hotlap.sim.tracks.track import Array, Track

PLACES = 800
"""Places along the road at which laps are compared."""
STRETCH = 0.02
"""Share of the lap over which gains are averaged on the map."""
A, B = "#1e60c8", "#e25822"
"""Colours of the two drivers, here and in films of a race."""
WHO_GAINS = LinearSegmentedColormap.from_list("gains", [B, "#edede6", A])
LIMIT = "#8a8f98"
_SIZE = (13.0, 6.4)  # inches


def draw_laps(
    track: Track, laps: Mapping[str, Trace], limit: Trace, is_least: bool, path: Path
) -> Path:
    """Draw one or two laps of a track into a PNG file.

    Args:
        track: The road.
        laps: The best lap of each driver by the name it is shown with, which begins with A or B.
        limit: What they are compared with.
        is_least: Whether no lap can be faster; otherwise it is just a fast one.
        path: Where the picture goes; its folder is made.
    """
    if not 1 <= len(laps) <= 2:
        raise ValueError(f"one lap or two can be drawn, got {len(laps)}")
    s = np.linspace(0.0, min(limit.s[-1], *(lap.s[-1] for lap in laps.values())), PLACES)
    driven = [lap.at(s) for lap in laps.values()]
    fastest, what = limit.at(s), "least possible" if is_least else "a fast line"
    figure = Figure(figsize=_SIZE)
    figure.text(0.02, 0.95, track.name.replace("_", " "), color=INK, fontsize=15, weight="bold")
    told = [f"{name}  {lap.lap_time:.2f} s" for name, lap in laps.items()]
    told.append(f"{what}  {limit.lap_time:.2f} s")
    colours = [B if name.startswith("B") else A for name in laps]
    for place, (text, colour) in enumerate(zip(told, [*colours, LIMIT], strict=True)):
        figure.text(0.02, 0.905 - 0.04 * place, text, color=colour, fontsize=11, weight="bold")
    _draw_map(figure, track, driven, colours)
    speeds = figure.add_axes((0.5, 0.55, 0.48, 0.38))
    behind = figure.add_axes((0.5, 0.09, 0.48, 0.38), sharex=speeds)
    speeds.plot(s, fastest.speed, color=LIMIT, linewidth=1.4)
    for lap, colour in zip(driven, colours, strict=True):
        speeds.plot(s, lap.speed, color=colour, linewidth=1.6)
        behind.plot(s, lap.time - fastest.time, color=colour, linewidth=1.6)
    behind.axhline(0.0, color=LIMIT, linewidth=1.4)
    speeds.set_ylim(bottom=0.0)
    _dress(speeds, "speed, m/s")
    speeds.tick_params(labelbottom=False)
    _dress(behind, f"behind {what}, s")
    behind.set_xlabel("along the road, m", color=INK)
    behind.set_xlim(0.0, float(s[-1]))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130, facecolor=LAND)
    return path


def gains(a: Trace, b: Trace, stretch: float = STRETCH) -> Array:
    """Seconds per metre that a gains on b, averaged a little, between places of both (K - 1,)."""
    gained = np.diff(b.time - a.time) / np.diff(a.s)
    width = max(1, round(stretch * len(gained)))
    return np.convolve(np.pad(gained, width, mode="edge"), np.ones(width) / width, "same")[
        width:-width
    ]


def _draw_map(figure: Figure, track: Track, driven: list[Trace], colours: list[str]) -> None:
    axes = figure.add_axes((0.02, 0.11, 0.43, 0.67))
    axes.set_aspect("equal")
    axes.axis("off")
    draw_road(axes, track)
    draw_start(axes, track)
    if len(driven) == 1:
        axes.plot(*driven[0].xy.T, color=colours[0], linewidth=2.0, zorder=3)
        return
    a, b = driven
    gained = gains(a, b)
    # A twentieth of the lap is beyond the ends of the colours: standing starts would take them all.
    most = float(np.quantile(np.abs(gained), 0.95)) or 1.0
    axes.plot(*b.xy.T, color=B, linewidth=0.9, zorder=3)
    line = LineCollection(
        list(np.stack([a.xy[:-1], a.xy[1:]], axis=1)),
        cmap=WHO_GAINS,
        linewidth=3.2,
        capstyle="round",
        zorder=4,
    )
    line.set_array(gained)
    line.set_clim(-most, most)
    axes.add_collection(line, autolim=False)
    bar = figure.colorbar(
        line, cax=figure.add_axes((0.08, 0.075, 0.3, 0.014)), orientation="horizontal"
    )
    bar.set_label(
        "B gains      seconds per metre, on the line of A      A gains", color=INK, fontsize=8
    )
    bar.ax.tick_params(colors=INK, labelsize=7)
    bar.outline.set_visible(False)


def _dress(axes: Axes, label: str) -> None:
    axes.set_ylabel(label, color=INK)
    axes.set_facecolor(LAND)
    axes.tick_params(colors=INK, labelsize=8)
    axes.grid(color="#00000018")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
