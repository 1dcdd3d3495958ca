"""How a run fared on each of its tracks, and what it has forgotten since it was best there.

All of it is read from the run's table of evaluations, during the run or after it.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hotlap.store.run_folder import RunFolder

Row = Mapping[str, Any]
MEASURES = {"return": "mean return", "lap_rate": "share of episodes with a clean lap"}
NAMED = 10
"""Most tracks with a line and a name each; of more, those that forgot most are named."""


def tracks_report(folder: Path, picture: Path | None = None) -> dict[str, Any]:
    """Draw a run's tracks over its steps; say what each of them lost."""
    rows = [row for row in RunFolder(folder).rows("evaluations") if row.get("tracks")]
    if not rows:
        raise ValueError(
            f"{folder} has no evaluations by track: either it is no run of a task with tracks, "
            "or its first segment is not over"
        )
    picture = picture or folder / "report" / "tracks.png"
    picture.parent.mkdir(parents=True, exist_ok=True)
    draw_tracks(rows, picture)
    return {"run": str(folder), "picture": str(picture), "tracks": forgotten(rows)}


def forgotten(rows: Sequence[Row]) -> dict[str, dict[str, float]]:
    """Per track: the last and the best of each measure, and the best less the last.

    Args:
        rows: Evaluations in the order they were made, as a run's table holds them.
    """
    found: dict[str, dict[str, float]] = {}
    for measure in MEASURES:
        for track, points in histories(rows, measure).items():
            values = [value for _, value in points]
            own = found.setdefault(track, {})
            own[measure], own[f"best_{measure}"] = values[-1], max(values)
            own[f"forgotten_{measure}"] = max(values) - values[-1]
    return found


def histories(rows: Sequence[Row], measure: str) -> dict[str, list[tuple[int, float]]]:
    """Steps and values of a measure by track, where it is known."""
    found: dict[str, list[tuple[int, float]]] = {}
    for row in rows:
        for track, told in row["tracks"].items():
            if measure in told:
                found.setdefault(track, []).append((int(row["steps"]), float(told[measure])))
    return found


def draw_tracks(rows: Sequence[Row], path: Path) -> None:
    """A line per track over the steps of the training, for each measure."""
    from matplotlib.figure import Figure

    measures = [measure for measure in MEASURES if histories(rows, measure)]
    figure = Figure(figsize=(5.2 * len(measures), 3.8), layout="constrained")
    axes = figure.subplots(1, len(measures), squeeze=False)[0]
    for axis, measure in zip(axes, measures, strict=True):
        _draw_measure(axis, histories(rows, measure))
        axis.set(xlabel="environment steps", ylabel=MEASURES[measure])
        if measure == "lap_rate":
            axis.set_ylim(-0.03, 1.03)
        axis.xaxis.set_major_formatter(lambda steps, _: f"{steps / 1000:g}k")
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].legend(fontsize=8, frameon=False)
    figure.savefig(path, dpi=130)


def _draw_measure(axis: Any, lines: dict[str, list[tuple[int, float]]]) -> None:
    def lost(track: str) -> float:
        values = [value for _, value in lines[track]]
        return max(values) - values[-1]

    named = set(lines)
    if len(lines) > NAMED:
        named = set(sorted(lines, key=lost, reverse=True)[:NAMED])
    for track, points in lines.items():
        steps, values = zip(*points, strict=True)
        if track in named:
            axis.plot(steps, values, marker="o", markersize=2.5, linewidth=1.4, label=track)
        else:
            axis.plot(steps, values, color="#b0b0b0", linewidth=0.6, zorder=0)


def table_lines(tracks: Mapping[str, Mapping[str, float]]) -> list[str]:
    """What `forgotten` found, as lines of text."""
    wide = max(len("track"), *(len(track) for track in tracks))
    lines = [
        f"{'track':<{wide}}  {'return':>8} {'best':>8} {'lost':>8}  "
        f"{'lap rate':>8} {'best':>5} {'lost':>5}"
    ]
    for track, told in tracks.items():
        returns = [told[name] for name in ("return", "best_return", "forgotten_return")]
        laps = ""
        if "lap_rate" in told:
            laps = "  {:>8.0%} {:>5.0%} {:>5.0%}".format(
                told["lap_rate"], told["best_lap_rate"], told["forgotten_lap_rate"]
            )
        lines.append(f"{track:<{wide}}  {' '.join(f'{value:>8.1f}' for value in returns)}{laps}")
    return lines
