"""What a run tells while it trains: rows, TensorBoard, the screen, and trackers."""

import math
import time
from pathlib import Path
from typing import Any

from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import KVWriter, Logger, TensorBoardOutputFormat

from hotlap.records import EvalResult
from hotlap.research.progress import Progress
from hotlap.research.trackers import Trackers
from hotlap.store.run_folder import RunFolder

QUIET = 1.0
"""Seconds between two rows of metrics, at least."""


class Reporter(BaseCallback, KVWriter):
    """Hears a learner's metrics and its steps, and passes them on.

    Args:
        folder: The run's folder.
        progress: The screen.
        trackers: Others who want to know.
    """

    def __init__(
        self, folder: RunFolder, progress: Progress, trackers: Trackers | None = None
    ) -> None:
        super().__init__()
        self.folder, self.progress, self.trackers = folder, progress, trackers
        self.segment = 0
        self._last_row = -math.inf
        self._began = time.monotonic()

    # --- as a callback of the learner ----------------------------------------------------------

    def _on_training_start(self) -> None:
        self._began = time.monotonic()

    def _on_rollout_start(self) -> None:
        self._book("learning")

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        self._book("driving")
        infos = self.model.ep_info_buffer or ()
        returns = [info["r"] for info in infos]
        mean = sum(returns) / len(returns) if returns else None
        self.progress.move(self.num_timesteps, **{"return": mean})

    def _on_training_end(self) -> None:
        self._book("learning")

    def _book(self, on: str) -> None:
        now = time.monotonic()
        self.progress.spend(on, now - self._began)
        self._began = now

    # --- as a writer of the learner's metrics --------------------------------------------------

    def write(
        self, key_values: dict[str, Any], key_excluded: dict[str, tuple[str, ...]], step: int = 0
    ) -> None:
        """Take a row of metrics."""
        if time.monotonic() - self._last_row < QUIET:
            return
        self._last_row = time.monotonic()
        row = {name: float(value) for name, value in key_values.items() if _is_number(value)}
        row = {name: value for name, value in row.items() if math.isfinite(value)}
        self.folder.append("metrics", {"segment": self.segment, "steps": int(step), **row})
        if self.trackers is not None:
            self.trackers.log(row, int(step))

    # --- evaluations ---------------------------------------------------------------------------

    def evaluated(self, result: EvalResult, steps: int, verdict: str) -> None:
        """Take an evaluation."""
        row = {"eval/mean_return": result.mean_return, "eval/std_return": result.std_return}
        lapped = ""
        if result.lap_rate is not None:
            row["eval/lap_rate"] = result.lap_rate
            lapped = f", laps in {result.lap_rate:.0%} of episodes"
        for name, value in row.items():
            self.model.logger.record(name, value)
        self.model.logger.dump(steps)
        if self.trackers is not None:
            self.trackers.log(row, steps)
        mark = {"best": "  best so far", "collapsed": "  collapsed", "hold": ""}[verdict]
        self.progress.move(steps, evaluation=result.mean_return)
        self.progress.note(
            f"{steps:,} steps: return {result.mean_return:.2f} +- {result.std_return:.2f}"
            f"{lapped}{mark}"
        )

    def close(self) -> None:
        """Say that it is over."""
        if self.trackers is not None:
            self.trackers.finish()


def make_logger(folder: Path, reporter: Reporter) -> Logger:
    """A logger of Stable-Baselines3's kind that writes TensorBoard's files and tells a reporter."""
    folder.mkdir(parents=True, exist_ok=True)
    return Logger(str(folder), [TensorBoardOutputFormat(str(folder)), reporter])


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) or hasattr(value, "item")
