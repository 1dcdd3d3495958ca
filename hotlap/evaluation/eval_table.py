"""A judged policy, as a table to read."""

from collections.abc import Callable, Mapping
from typing import TypeVar

from rich.console import Console
from rich.table import Table

from hotlap.records import EpisodeResult, EvalResult, Interval, Summary

MOST_ROWS = 20
"""Most episodes that have a row each; of more, every track has one."""
Row = TypeVar("Row")
Columns = Mapping[str, Callable[[Row], str | None]]
"""What is written under each title; a column without a single entry is left out."""


def print_result(result: EvalResult, title: str = "") -> None:
    """Print the episodes or, if they are many, the tracks; then what they say together."""
    if len(result.episodes) <= MOST_ROWS:
        table = _table(EPISODE_COLUMNS, {str(row.identity): row for row in result.episodes}, "#")
    else:
        table = _table(TRACK_COLUMNS, result.tracks, "track")
    console = Console(highlight=False)
    if not console.is_terminal:  # a file or a pipe has no width; nothing must be cut there
        console.width = 200
    if title:
        console.print(title, style="bold", markup=False)
    if table.row_count:
        console.print(table)
        console.print()
    for line in summary_lines(result):
        console.print(line, markup=False)


def summary_lines(summary: Summary) -> list[str]:
    """What episodes say together, a few lines of plain text."""
    number = f"{summary.count} episode{'' if summary.count == 1 else 's'}"
    lines = [
        f"return    {summary.mean_return:.2f} ± {summary.std_return:.2f} over {number}"
        f"{interval_words(summary.interval, ', mean')}",
        f"IQM       {summary.iqm:.2f}{interval_words(summary.iqm_interval)}",
    ]
    if summary.lap_rate is not None:
        lines.append(f"lap rate  {summary.lap_rate:.0%} of the episodes with a clean lap")
    if summary.laps_finished is not None:
        lines.append(f"laps      {summary.laps_finished:.0%} of those begun were finished")
    if summary.over_edge is not None:
        lines.append(f"over edge {summary.over_edge:.1%} of the steps, in part or in whole")
    if summary.tiles is not None:
        lines.append(f"tiles     {summary.tiles:.1%} of a track's, on average")
    if summary.best_lap_time is not None:
        ratio = summary.lap_time_ratio
        beside = "" if ratio is None else f", {ratio:.2f} x the least possible"
        lines.append(
            f"best lap  {summary.best_lap_time:.2f} s{beside} (mean {summary.mean_lap_time:.2f} s)"
        )
    return lines


def interval_words(interval: Interval | None, of: str = "") -> str:
    """What follows a value; nothing where its interval is not known."""
    return "" if interval is None else f"{of} within {interval[0]:.2f} to {interval[1]:.2f} (95 %)"


def _table(columns: Columns[Row], rows: Mapping[str, Row], first: str) -> Table:
    """Rows by name, the name in a column titled `first`."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column(first, justify="right" if first == "#" else "left", no_wrap=True)
    cells = {title: [write(row) for row in rows.values()] for title, write in columns.items()}
    cells = {title: column for title, column in cells.items() if any(column)}
    for title in cells:
        words = title in ("track", "end")
        table.add_column(title, justify="left" if words else "right", no_wrap=True)
    for name, *entries in zip(rows, *cells.values(), strict=True):
        table.add_row(name, *(entry or "-" for entry in entries))
    return table


def _number(value: float | None, digits: int = 2) -> str | None:
    return None if value is None else f"{value:.{digits}f}"


def _share(value: float | None) -> str | None:
    return None if value is None else f"{value:.0%}"


def _fine_share(value: float | None) -> str | None:
    return None if value is None else f"{value:.1%}"


def _end(row: EpisodeResult) -> str:
    return row.end if row.crash_s is None else f"{row.end} at {row.crash_s:.1f} m"


EPISODE_COLUMNS: Columns[EpisodeResult] = {
    "track": lambda row: row.track,
    "return": lambda row: _number(row.episode_return),
    "steps": lambda row: str(row.length),
    "time s": lambda row: _number(row.seconds),
    "laps": lambda row: None if row.laps is None else str(row.laps),
    "best lap s": lambda row: _number(min(row.lap_times or (), default=None)),
    "speed m/s": lambda row: _number(row.mean_speed),
    "tiles": lambda row: _fine_share(row.tiles),
    "|cte|": lambda row: _number(row.mean_abs_cte),
    "road m": lambda row: _number(row.progress, 1),
    "over edge": lambda row: _share(row.over_edge),
    "end": _end,
}
TRACK_COLUMNS: Columns[Summary] = {
    "episodes": lambda row: str(row.count),
    "return": lambda row: f"{row.mean_return:.2f} ± {row.std_return:.2f}",
    "IQM": lambda row: _number(row.iqm),
    "95 %": lambda row: (
        row.iqm_interval and f"{row.iqm_interval[0]:.2f} to {row.iqm_interval[1]:.2f}"
    ),
    "lap rate": lambda row: _share(row.lap_rate),
    "laps": lambda row: _share(row.laps_finished),
    "tiles": lambda row: _fine_share(row.tiles),
    "mean lap s": lambda row: _number(row.mean_lap_time),
    "best lap s": lambda row: _number(row.best_lap_time),
    "x limit": lambda row: _number(row.lap_time_ratio),
    "mean x": lambda row: _number(row.mean_lap_ratio),
    "flying x": lambda row: _number(row.flying_lap_ratio),
    "over edge": lambda row: _share(row.over_edge),
}
