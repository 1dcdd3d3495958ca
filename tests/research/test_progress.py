"""What is shown of a run: plain lines where nobody watches, and shares of time that add up."""

import io
import os
import re
import time

import numpy as np
import pytest
import torch
from rich.console import Console

from hotlap.research import progress as module
from hotlap.research.engines import processes
from hotlap.research.engines.processes import Process
from hotlap.research.progress import Progress

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds that the program believes to have passed."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Bytes that the program believes to hold: one number per look, taken from the front."""
    looks = [2_500_000_000, 2_750_000_000, 3_000_000_000]

    def look(pid: int) -> Process:
        assert pid == os.getpid()
        return Process(pid, 1, 1, 0.0, looks.pop(0), True)

    monkeypatch.setattr(processes, "look", look)
    return looks


def test_there_are_plain_lines_where_there_is_no_terminal(
    capsys: Captured, clock: list[float], memory: list[int]
) -> None:
    with Progress("ppo on donkey", 1000) as progress:
        progress.note("going on")
        progress.move(100, **{"return": 5.0})
        assert capsys.readouterr().out == "going on\n"  # ten seconds have not passed
        clock[0] += 10.5
        progress.move(420, evaluation=7.25)
        progress.move(430)
    output = capsys.readouterr().out
    told = "420 of 1,000 steps  40/s  return 5.00  evaluation 7.25  memory 2.50 GB  \n"
    assert output == told
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


def test_memory_is_looked_at_once_a_second_at_most(clock: list[float], memory: list[int]) -> None:
    progress = Progress("", 10, live=False)
    assert [progress.memory for _ in range(3)] == ["2.50 GB"] * 3
    clock[0] += 0.75
    assert progress.memory == "2.50 GB" and len(memory) == 2
    clock[0] += 0.25
    assert progress.memory == "2.75 GB" and len(memory) == 1


def test_memory_grows_with_what_is_held(clock: list[float]) -> None:
    progress = Progress("", 10, live=False)
    before = float(progress.memory.removesuffix(" GB"))
    held = np.ones(50_000_000)  # 0.4 GB, every page of it written
    clock[0] += 1.0
    after = float(progress.memory.removesuffix(" GB"))
    assert after - before == pytest.approx(held.nbytes / 1e9, abs=0.1)


def test_memory_of_the_card_that_holds_most_is_told_too(
    clock: list[float], memory: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", [0, 1_250_000_000].__getitem__)
    assert Progress("", 10, live=False).memory == "2.50 GB, 1.25 GB at most on the GPU"


def test_a_panel_shows_the_same_where_somebody_watches(
    clock: list[float], memory: list[int], monkeypatch: pytest.MonkeyPatch
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
    for text in ("ppo on donkey", "50%", "2 s left", "500 of 1,000", "250/s", "5.00", "2.75 GB",
                 "note 7"):  # fmt: skip
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
