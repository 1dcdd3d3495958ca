"""A report on many tracks, as a table to read."""

from rich.console import Console
from rich.table import Table

from hotlap.evaluation.crashes import Crashes
from hotlap.evaluation.eval_table import interval_words, summary_lines
from hotlap.evaluation.generalisation import DRIVES, FAILS, Gap, Report, TrackReport, Verdict
from hotlap.records import Summary

MARKS = {True: "trained", False: "zero-shot", None: "-"}
PIPE_WIDTH = 200
"""Columns where the output is no terminal: nothing must be cut there."""
STYLES: dict[Verdict, str] = {"drives": "green", "sometimes": "yellow", "fails": "red"}


def print_report(report: Report, title: str) -> None:
    """Print a row per track, a column per set, and what they say together."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = PIPE_WIDTH
    console.print(title, style="bold", markup=False)
    console.print(_table(report))
    console.print()
    for line in report_lines(report):
        console.print(line, markup=False)


def report_lines(report: Report) -> list[str]:
    """What all tracks say together, a few lines of plain text."""
    verdicts = [row.verdict for row in report.tracks.values()]
    counts = ", ".join(f"{verdicts.count(word)} {word}" for word in STYLES)
    lines = [line for line in summary_lines(report) if not line.startswith("best lap")]
    if report.mean_lap_ratio is not None:
        lines.append(
            f"mean lap  {report.mean_lap_ratio:.3f} x the least possible, mean over tracks "
            f"({_flying(report)}best laps {report.lap_time_ratio:.3f} x)"
        )
    lines.append(f"gap       {_gap(report.gap)}")
    rule = f"drives from {DRIVES:.0%} of the episodes with a lap, fails below {FAILS:.0%}"
    return [*lines, f"verdict   {report.verdict or 'none'}: {counts} ({rule})"]


def crash_words(crashes: Crashes, spots: int = 2) -> str:
    """How many crashes, and where."""
    if not crashes.count:
        return "-"
    where = ", ".join(f"{spot.count} at {spot.s:.1f} m" for spot in crashes.spots[:spots])
    pattern = f", {crashes.pattern}" if crashes.pattern in ("same spot", "spread") else ""
    return f"{crashes.count}{pattern}{f': {where}' if where else ''}"


def _table(report: Report) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("track", no_wrap=True)
    table.add_column("", no_wrap=True)
    numbered = [f"set {number}" for number in range(1, len(report.sets) + 1)]
    for heading in (
        *numbered,
        "mean",
        "95 %",
        "lap rate",
        "laps",
        "x limit",
        "flying",
        "over edge",
    ):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    table.add_column("crashes")
    for name, row in report.tracks.items():
        table.add_row(name, MARKS[row.trained], *_cells(row), style=None)
    return table


def _cells(row: TrackReport) -> list[str]:
    within = row.interval
    return [
        *(_set(own) for own in row.sets),
        f"{row.mean_return:.1f}",
        "-" if within is None else f"{within[0]:.1f} to {within[1]:.1f}",
        _share(row.lap_rate),
        _share(row.laps_finished),
        _ratio(row.mean_lap_ratio),
        _ratio(row.flying_lap_ratio),
        _share(row.over_edge),
        "-" if row.verdict is None else f"[{STYLES[row.verdict]}]{row.verdict}[/]",
        crash_words(row.crashes),
    ]


def _set(own: Summary) -> str:
    return f"{own.mean_return:.1f} {_share(own.lap_rate):>4}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _flying(report: Report) -> str:
    ratio = report.flying_lap_ratio
    return "" if ratio is None else f"flying laps {ratio:.3f} x, "


def _gap(gap: Gap | None) -> str:
    if gap is None:
        return "none: it takes trained and zero-shot tracks"
    laps = "" if gap.lap_rate is None else f", {100 * gap.lap_rate:+.0f} points of lap rate"
    return (
        f"{gap.mean_return:.2f} in return{interval_words(gap.interval)}, "
        f"{gap.return_per_step:+.3f} in return per step{laps} "
        f"({gap.trained} trained - {gap.zero_shot} zero-shot)"
    )
