"""A race of two drivers, as a table to read."""

from rich.console import Console
from rich.table import Table

from hotlap.evaluation.racing import Difference, Duel, Race
from hotlap.records import Summary

PIPE_WIDTH = 200
"""Columns where the output is no terminal: nothing must be cut there."""


def print_race(race: Race, a: str, b: str) -> None:
    """Print a row per track, and who wins."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = PIPE_WIDTH
    console.print(f"A {a}\nB {b}", style="bold", markup=False)
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


def verdict_line(race: Race) -> str:
    """Who wins, in a sentence."""
    within = race.pace.interval
    beside = "" if within is None else f" ({within[0]:+.3f} to {within[1]:+.3f}, 95 %)"
    lead = f"pace A - B {race.pace.mean:+.3f} m/s{beside} over {race.pace.pairs} pairs"
    words = {"a": "A wins", "b": "B wins", "even": "even"}
    return f"{words[race.winner]}: {lead}"


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
