"""Hearing what a learner of Stable-Baselines3's kind tells while it trains."""

import math
from numbers import Real
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import KVWriter, Logger, TensorBoardOutputFormat


class Listener(Protocol):
    """Who wants to know."""

    def driving_began(self) -> None:
        """The learner is about to drive."""

    def driving_ended(self, steps: int, mean_return: float | None) -> None:
        """It has driven, `steps` in all; the mean is that of its latest episodes."""

    def learning_ended(self) -> None:
        """A segment is over."""

    def metrics(self, row: dict[str, float], steps: int) -> None:
        """Finite numbers by name."""


class Hearing(BaseCallback, KVWriter):
    """A callback and a writer of metrics, which passes both on."""

    def __init__(self, listener: Listener) -> None:
        super().__init__()
        self.listener = listener

    def _on_rollout_start(self) -> None:
        self.listener.driving_began()

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        returns = [info["r"] for info in self.model.ep_info_buffer or ()]
        mean = sum(returns) / len(returns) if returns else None
        self.listener.driving_ended(self.num_timesteps, mean)

    def _on_training_end(self) -> None:
        self.listener.learning_ended()

    def write(
        self, key_values: dict[str, Any], key_excluded: dict[str, tuple[str, ...]], step: int = 0
    ) -> None:
        """Take a row of metrics."""
        numbers = {n: float(v) for n, v in key_values.items() if isinstance(v, (Real, np.number))}
        row = {name: value for name, value in numbers.items() if math.isfinite(value)}
        self.listener.metrics(row, int(step))


def make_logger(folder: Path, hearing: Hearing) -> Logger:
    """A logger that writes TensorBoard's files and tells who listens."""
    folder.mkdir(parents=True, exist_ok=True)
    return Logger(str(folder), [TensorBoardOutputFormat(str(folder)), hearing])
