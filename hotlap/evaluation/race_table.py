"""A race of two drivers, as a table to read."""

from rich.console import Console
from rich.table import Table

from hotlap.evaluation.racing import Difference, Duel, Match, Race
from hotlap.records import Summary

WINNERS = {"a": "A wins", "b": "B wins", "even": "even"}
PIPE_WIDTH = 200
"""Columns where the output is no terminal: nothing must be cut there."""


def print_race(race: Race, a: str, b: str) -> None:
    """Print a row per track, and who wins."""
    console = _console(a, b)
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("track", no_wrap=True)
    for title in ("lap s A", "B", "A - B", "return A", "B", "A - B", "pace m/s A", "B", "A - B"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("faster")
    for name, duel in race.tracks.items():
        table.add_row(name, *_cells(duel))
    if len(race.tracks) > 1:
        table.add_section()
        # Mean lap times of all tracks together would weigh each by how many laps were driven on it.
        table.add_row("together", "-", "-", *_cells(race)[2:])
    console.print(table)
    console.print()
    console.print(verdict_line(race), markup=False)


def print_match(match: Match, a: str, b: str) -> None:
    """Print how either scored in CarRacing, and who wins."""
    console = _console(a, b)
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("")
    for title in ("score", "spread", "IQM", "whole laps", "lap s", "tiles"):
        table.add_column(title, justify="right", no_wrap=True)
    for letter, side in (("A", match.a), ("B", match.b)):
        table.add_row(letter, f"{side.mean_return:.1f}", f"{side.std_return:.1f}",
                      f"{side.iqm:.1f}", _share(side.lap_rate, 0), _lap(side),
                      _share(side.tiles, 1))  # fmt: skip
    table.add_row("A - B", _apart(match.episode_return, 1), "", "", "", _apart(match.lap_time, 2))
    console.print(table)
    console.print()
    console.print(match_line(match), markup=False)


def verdict_line(race: Race) -> str:
    """Who wins, in a sentence."""
    return f"{WINNERS[race.winner]}: {_lead('pace', race.pace, 3, ' m/s')}"


def match_line(match: Match) -> str:
    """The same of CarRacing."""
    return f"{WINNERS[match.winner]}: {_lead('score', match.episode_return, 1)}"


def _lead(of: str, lead: Difference, digits: int, unit: str = "") -> str:
    beside = ""
    if lead.interval is not None:
        low, high = lead.interval
        beside = f" ({low:+.{digits}f} to {high:+.{digits}f}, 95 %)"
    return f"{of} A - B {lead.mean:+.{digits}f}{unit}{beside} over {lead.pairs} pairs"


def _console(a: str, b: str) -> Console:
    """Where a race is told, its drivers first."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = PIPE_WIDTH
    console.print(f"A {a}\nB {b}", style="bold", markup=False)
    return console


def _share(share: float | None, digits: int) -> str:
    return "-" if share is None else f"{share:.{digits}%}"


def _cells(duel: Duel) -> list[str]:
    return [
        *(_lap(side) for side in (duel.a, duel.b)),
        _apart(duel.lap_time, 2),
        *(f"{side.mean_return:.1f}" for side in (duel.a, duel.b)),
        _apart(duel.episode_return, 1),
        *(f"{pace:.2f}" for pace in (duel.pace_a, duel.pace_b)),
        _apart(duel.pace, 2),
        {"a": "A", "b": "B", "even": "even"}[duel.winner],
    ]


def _lap(side: Summary) -> str:
    return "-" if side.mean_lap_time is None else f"{side.mean_lap_time:.2f}"


def _apart(difference: Difference | None, digits: int) -> str:
    if difference is None:
        return "-"
    told = f"{difference.mean:+.{digits}f}"
    if difference.interval is None:
        return told
    low, high = difference.interval
    return f"{told} [{low:+.{digits}f}, {high:+.{digits}f}]"
