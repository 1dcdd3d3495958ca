"""Keeping the best, and going back to it after a collapse.

first   score of the first evaluation
best    best score so far
bad     evaluations in a row that lost most of what was gained since the first
"""

from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from hotlap.config.runs import RollbackConfig

BEFORE = -1
"""Segment of the model that a run begins with."""
Verdict = Literal["best", "hold", "collapsed"]


@dataclass(frozen=True)
class Keeper:
    """The books of a run's evaluations; plain numbers, saved with every checkpoint."""

    first: float | None = None
    best: float | None = None
    best_segment: int = -2
    bad: int = 0
    rolled_back: int = -1
    """Segment after which training went back to the best; -1 while it never did."""

    def note(self, score: float, segment: int, config: RollbackConfig) -> tuple["Keeper", Verdict]:
        """The books after an evaluation, and what it means."""
        if self.first is None or self.best is None or score > self.best:
            first = score if self.first is None else self.first
            return replace(self, first=first, best=score, best_segment=segment, bad=0), "best"
        # A good start can be lost without a gain; after one, a small gain may be luck.
        has_something = self.best > self.first or self.best_segment == BEFORE
        floor = self.best - config.lost * max(self.best - self.first, abs(self.best))
        bad = self.bad + 1 if has_something and score < floor else 0
        if bad >= config.patience and self.rolled_back < 0:
            return replace(self, bad=0, rolled_back=segment), "collapsed"
        return replace(self, bad=bad), "hold"

    def to_table(self) -> dict[str, Any]:
        """As plain JSON."""
        return asdict(self)
