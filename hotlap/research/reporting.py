"""What a run tells while it trains: rows, the screen, and trackers."""

import math
import time

from hotlap.learning.track_metrics import few_or_quantiles
from hotlap.records import EvalResult
from hotlap.research.progress import Progress
from hotlap.research.trackers import Trackers
from hotlap.store.run_folder import RunFolder

QUIET = 1.0
"""Seconds between two rows of metrics, at least."""


class Reporter:
    """Hears a learner's metrics and its steps, and passes them on.

    Args:
        folder: The run's folder.
        progress: The screen.
        trackers: Others who want to know.
    """

    def __init__(
        self, folder: RunFolder, progress: Progress, trackers: Trackers | None = None
    ) -> None:
        self.folder, self.progress, self.trackers = folder, progress, trackers
        self.segment = 0
        self._last_row = -math.inf
        self._held: tuple[dict[str, float], int] | None = None
        self._began = time.monotonic()

    def segment_began(self, segment: int) -> None:
        """A segment is about to be trained."""
        self.segment, self._began = segment, time.monotonic()

    def driving_began(self) -> None:
        """The learner is about to drive."""
        self._book("learning")

    def driving_ended(self, steps: int, mean_return: float | None) -> None:
        """It has driven."""
        self._book("driving")
        self.progress.move(steps, **{"return": mean_return})

    def learning_ended(self) -> None:
        """A segment is over."""
        self._book("learning")
        if self._held is not None:
            self._write(*self._held)

    def _book(self, on: str) -> None:
        now = time.monotonic()
        self.progress.spend(on, now - self._began)
        self._began = now

    def metrics(self, row: dict[str, float], steps: int) -> None:
        """Write a row of the learner's metrics; of those that come thick and fast, the last."""
        evaluation = any(name.startswith("eval/") for name in row)
        if not evaluation and time.monotonic() - self._last_row < QUIET:
            self._held = (row, steps)
            return
        self._write(row, steps)

    def _write(self, row: dict[str, float], steps: int) -> None:
        self._last_row, self._held = time.monotonic(), None
        self.folder.append("metrics", {"segment": self.segment, "steps": steps, **row})
        if self.trackers is not None:
            self.trackers.log(row, steps)

    def evaluated(self, result: EvalResult, steps: int, verdict: str) -> dict[str, float]:
        """Show an evaluation; returns its numbers by the names that metrics go by."""
        row = {"eval/mean_return": result.mean_return, "eval/std_return": result.std_return}
        lapped = ""
        if result.lap_rate is not None:
            row["eval/lap_rate"] = result.lap_rate
            lapped = f", laps in {result.lap_rate:.0%} of episodes"
        if len(result.tracks) > 1:
            told = told_by_track(result)
            for of_track in told.values():
                del of_track["episodes"]
            row |= few_or_quantiles("eval", told, list(result.tracks))
        mark = {"best": "  best so far", "collapsed": "  collapsed", "hold": ""}[verdict]
        self.progress.move(steps, evaluation=result.mean_return)
        self.progress.note(
            f"{steps:,} steps: return {result.mean_return:.2f} +- {result.std_return:.2f}"
            f"{lapped}{mark}"
        )
        return row

    def close(self) -> None:
        """Say that it is over."""
        if self.trackers is not None:
            self.trackers.finish()


def told_by_track(result: EvalResult) -> dict[str, dict[str, float]]:
    """Of every track an evaluation had: episodes, their mean return, and the share with laps."""
    told = {}
    for track, summary in result.tracks.items():
        told[track] = {"episodes": summary.count, "return": summary.mean_return}
        if summary.lap_rate is not None:
            told[track]["lap_rate"] = summary.lap_rate
    return told
