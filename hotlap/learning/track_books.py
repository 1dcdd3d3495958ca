"""What is known of every track that is trained on.

T tracks, N steps of any environments. Sums are made where the steps are, and read now and then.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

Array = np.ndarray
COLUMNS = (
    "steps", "episodes", "returns", "crashes", "laps", "successes", "absolute", "positive",
)  # fmt: skip
"""Sums by track: steps; episodes that ended, their returns, crashes, laps and successes; absolute
advantages of the steps, and those above 0."""
ENDINGS = ("episodes", "returns", "crashes", "laps", "successes")
HALF_LIFE = 16.0
"""Episodes after which an episode of the same track counts half."""


@dataclass(frozen=True)
class Told:
    """Any number of steps, and what is told of the worlds they led to (`TrackTask.told_of`)."""

    worlds: dict[str, Tensor]
    done: Tensor
    truncated: Tensor
    episode_return: Tensor
    advantage: Tensor | None = None


def tally(told: Told, tracks: int, pace: float) -> Tensor:
    """Sums (T, columns) of some steps; `pace` (m/s) is what an episode needs to have succeeded."""
    worlds = {name: value.reshape(-1) for name, value in told.worlds.items()}
    laps, far = worlds["laps"], worlds["progress"] >= worlds["time"] * pace
    done, late = told.done.reshape(-1), told.truncated.reshape(-1)
    earned = told.episode_return.reshape(-1)
    advantage = torch.zeros_like(earned) if told.advantage is None else told.advantage.reshape(-1)
    columns = (
        torch.ones_like(done), done, done * earned, done & ~late & ~worlds["finished"],
        done * laps, done & ((laps > 0) | (late & far)), advantage.abs(), advantage.clamp(min=0),
    )  # fmt: skip
    rows = torch.stack([column.to(torch.float64) for column in columns], -1)
    sums = torch.zeros(tracks, len(COLUMNS), dtype=torch.float64, device=rows.device)
    return sums.index_add_(0, worlds["road"], rows)


class TrackBooks:
    """What the latest episodes of every track were like.

    Args:
        tracks: T.
    """

    def __init__(self, tracks: int) -> None:
        self.sums = {name: np.zeros(tracks) for name in ENDINGS}
        """Of episodes, each counting half as much as one `HALF_LIFE` later."""

    def note(self, latest: dict[str, Array]) -> None:
        """Take in sums by column, each (T,)."""
        kept = 0.5 ** (latest["episodes"] / HALF_LIFE)
        for name, sums in self.sums.items():
            sums *= kept
            sums += latest[name]

    @property
    def known(self) -> Array:
        """Tracks on which an episode has ended (T,) bool."""
        return self.sums["episodes"] > 0

    def mean(self, name: str) -> Array:
        """Per episode, of a column (T,); 0 where nothing is known."""
        return self.sums[name] / np.where(self.known, self.sums["episodes"], 1.0)

    def state(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {name: sums.tolist() for name, sums in self.sums.items()}

    def load(self, state: dict[str, Any]) -> None:
        """What `state` told."""
        self.sums = {name: np.array(state[name], dtype=np.float64) for name in ENDINGS}
