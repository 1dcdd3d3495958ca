"""How a run is going, on the screen: a live panel, or plain lines where nobody watches."""

import math
import os
import sys
import time
from types import TracebackType
from typing import Any, Self

import torch
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from hotlap.research.engines import processes

EVERY = 10.0
"""Seconds between plain lines."""
LOOK_EVERY = 1.0
"""Seconds between looks at the memory."""


class Progress:
    """Shows steps, return, speed, memory and where the time goes.

    Args:
        title: What is running.
        total: Steps to go, in all.
        done: Steps that were done before.
        live: Whether to draw a panel; None does on a terminal.
    """

    def __init__(self, title: str, total: int, done: int = 0, live: bool | None = None) -> None:
        self.title, self.total = title, total
        self.began, self.first, self.steps = time.monotonic(), done, done
        self.told: dict[str, float] = {}
        self.spent: dict[str, float] = {}
        self.notes: list[str] = []
        self._said = self.began
        self._looked, self._memory = -math.inf, ""
        self._live: Live | None = None
        if sys.stdout.isatty() if live is None else live:
            self._live = Live(self._panel(), console=Console(), refresh_per_second=4)

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.update(self._panel())
            self._live.__exit__(kind, error, trace)

    def spend(self, on: str, seconds: float) -> None:
        """Book time."""
        self.spent[on] = self.spent.get(on, 0.0) + seconds

    def move(self, steps: int, **told: float | None) -> None:
        """Show where it is; what is told stays until told anew."""
        self.steps = steps
        self.told |= {name: value for name, value in told.items() if value is not None}
        if self._live is not None:
            self._live.update(self._panel())
        elif time.monotonic() - self._said > EVERY:
            self._said = time.monotonic()
            print(self.line(), flush=True)

    def note(self, text: str) -> None:
        """Say something that is worth keeping on the screen."""
        if self._live is None:
            print(text, flush=True)
        else:
            self.notes = [*self.notes[-5:], text]
            self._live.update(self._panel())

    @property
    def rate(self) -> float:
        """Steps per second, all that is spent included."""
        return (self.steps - self.first) / max(time.monotonic() - self.began, 1e-9)

    @property
    def memory(self) -> str:
        """What this process holds of the machine's memory, and the most it held of a GPU's."""
        now = time.monotonic()
        if now - self._looked >= LOOK_EVERY:
            self._looked, self._memory = now, _memory_now()
        return self._memory

    def line(self) -> str:
        """All of it in one line."""
        facts = [f"{self.steps:,} of {self.total:,} steps", f"{self.rate:,.0f}/s"]
        facts += [f"{name} {value:.2f}" for name, value in self.told.items()]
        return "  ".join([*facts, f"memory {self.memory}", self._where()])

    def _where(self) -> str:
        total = sum(self.spent.values())
        if not total:
            return ""
        return " ".join(f"{name} {value / total:.0%}" for name, value in self.spent.items())

    def _panel(self) -> Any:
        table = Table.grid(padding=(0, 2))
        share = min(self.steps / max(self.total, 1), 1.0)
        bar = "━" * round(30 * share) + "╌" * (30 - round(30 * share))
        left = max(self.total - self.steps, 0) / self.rate if self.rate > 0 else 0.0
        title = Text(self.title, style="bold")
        table.add_row(title, f"{bar} {share:.0%}  {left:.0f} s left")
        table.add_row("steps", f"{self.steps:,} of {self.total:,}   {self.rate:,.0f}/s")
        for name, value in self.told.items():
            table.add_row(name, f"{value:.2f}")
        table.add_row("memory", self.memory)
        table.add_row("time", self._where())
        for text in self.notes:
            table.add_row("", Text(text))  # an error may hold brackets, which are no markup
        return table


def _memory_now() -> str:
    process = processes.look(os.getpid())
    words = f"{process.memory / 1e9:.2f} GB" if process is not None else "unknown"
    if not torch.cuda.is_initialized():  # asking would take a GPU that nobody uses
        return words
    held = max(map(torch.cuda.max_memory_allocated, range(torch.cuda.device_count())), default=0)
    return f"{words}, {held / 1e9:.2f} GB at most on the GPU"
