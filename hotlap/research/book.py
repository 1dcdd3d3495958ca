"""Where a study is written down, and what is written of a run: its plan and its finish."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

from hotlap.research.space import Params, identity

LARGEST = 1e100
"""What is beyond this, either way, is no score: its square could not be worked with."""
SCORED = ("ok", "pruned")
"""States of a run whose score counts."""


class Book(Protocol):
    """Where a study is written down."""

    def records(self, kind: str | None = None) -> list[dict[str, Any]]:
        """All records, or those of one kind, in order."""

    def append(self, kind: str, **fields: Any) -> dict[str, Any]:
        """Write one down."""


class MemoryBook:
    """A book for studies that need not outlive their process."""

    def __init__(self) -> None:
        self._records: list[dict[str, Any]] = []

    def records(self, kind: str | None = None) -> list[dict[str, Any]]:
        """All records, or those of one kind, in order."""
        return [r for r in self._records if kind is None or r["kind"] == kind]

    def append(self, kind: str, **fields: Any) -> dict[str, Any]:
        """Write one down."""
        self._records.append({"kind": kind, **fields})
        return self._records[-1]


@dataclass(frozen=True)
class Plan:
    """A run to make."""

    trial: int
    params: Params
    seed: int
    role: str
    """explore: something new; replicate, confirm: something again; seal: whoever is to have the
    title, when nothing is left to be chosen; test: the last test."""

    @cached_property
    def config(self) -> str:
        """The configuration's name."""
        return identity(self.params)


@dataclass(frozen=True)
class Finish:
    """How a run ended."""

    status: str = "ok"
    """ok, failed, timeout, killed or pruned."""
    score: float | None = None
    std: float | None = None
    elapsed: float = 0.0
    model: str | None = None
    reason: str | None = None
    more: Mapping[str, Any] = field(default_factory=dict)
    """Further facts for the record."""
