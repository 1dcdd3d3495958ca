"""What is shown of a run: plain lines where nobody watches, and shares of time that add up."""

import io
import re
import time

import pytest
from rich.console import Console

from hotlap.research import progress as module
from hotlap.research.progress import Progress

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds that the program believes to have passed."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def test_there_are_plain_lines_where_there_is_no_terminal(
    capsys: Captured, clock: list[float]
) -> None:
    with Progress("ppo on donkey", 1000) as progress:
        progress.note("going on")
        progress.move(100, **{"return": 5.0})
        assert capsys.readouterr().out == "going on\n"  # ten seconds have not passed
        clock[0] += 10.5
        progress.move(420, evaluation=7.25)
        progress.move(430)
    output = capsys.readouterr().out
    assert output == "420 of 1,000 steps  40/s  return 5.00  evaluation 7.25  \n"
    assert "\x1b" not in output


def test_speed_counts_only_steps_made_here(clock: list[float]) -> None:
    progress = Progress("", 1000, done=600)
    clock[0] += 4.0
    progress.move(800)
    assert progress.rate == 50.0


def test_what_was_told_stays_until_it_is_told_anew(clock: list[float]) -> None:
    progress = Progress("", 10)
    progress.move(1, **{"return": 3.0, "evaluation": 1.0})
    progress.move(2, **{"return": None, "evaluation": 2.0})
    assert progress.told == {"return": 3.0, "evaluation": 2.0}


def test_shares_of_time_add_up(clock: list[float]) -> None:
    progress = Progress("", 10)
    for on, seconds in (("driving", 1.5), ("learning", 5.0), ("judging", 1.0), ("driving", 2.5)):
        progress.spend(on, seconds)
    assert progress.line().endswith("driving 40% learning 50% judging 10%")
    assert sum(int(n) for n in re.findall(r"(\d+)%", progress.line())) == 100


def test_a_panel_shows_the_same_where_somebody_watches(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=120)
    monkeypatch.setattr(module, "Console", lambda: console)
    with Progress("ppo on donkey", 1000, live=True) as progress:
        progress.spend("driving", 3.0)
        clock[0] += 2.0
        progress.move(500, **{"return": 5.0})
        for number in range(8):
            progress.note(f"note {number}")
    shown = screen.getvalue()
    for text in ("ppo on donkey", "50%", "2 s left", "500 of 1,000", "250/s", "5.00", "note 7"):
        assert text in shown
    assert progress.notes == [f"note {number}" for number in range(2, 8)]


def test_words_in_brackets_are_shown_as_they_are(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(module, "Console", lambda: Console(file=screen, width=120))
    with Progress("ppo on [bold]donkey", 10, live=True) as progress:
        progress.note("failed: shapes [/4] differ, got [red]")
    assert "shapes [/4] differ, got [red]" in screen.getvalue()
    assert "[bold]donkey" in screen.getvalue()
