"""Tasks of many tracks, and which of them an episode is driven on where a schedule decides.

    T tracks, B environments.

The chances lie in a tensor that is written over in place: a captured or compiled step reads it
where it is, and nobody waits for anybody.
"""

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hotlap.sim.random import Stream, make_key, uniform
from hotlap.tasks.task import State, Task


class TrackChoice:
    """A table that tracks are drawn from; even until someone sets it.

    Args:
        tracks: T.
        device: Where it lives.
    """

    def __init__(self, tracks: int, device: torch.device | str = "cpu") -> None:
        self._bounds = torch.ones(tracks, device=device)
        self.set([1.0] * tracks)

    def set(self, shares: Sequence[float]) -> None:
        """Draw track i with a chance in proportion to `shares[i]` from now on."""
        weights = torch.tensor(list(shares), dtype=torch.float64)
        fine = bool(torch.isfinite(weights).all()) and bool((weights >= 0).all())
        if weights.shape != self._bounds.shape or not fine or not weights.sum() > 0:
            raise ValueError(
                f"expected {len(self._bounds)} shares, none negative and one above 0, "
                f"got {list(shares)}"
            )
        bounds = weights.cumsum(0) / weights.sum()
        bounds[int(weights.nonzero().max()) :] = 1.0  # or a draw could fall behind the last
        self._bounds.copy_(bounds)

    def draw(self, key: Tensor) -> Tensor:
        """The tracks (B,) int64 of episodes with these keys (B,)."""
        draws = uniform(make_key(key, Stream.TRACK), 1).squeeze(-1)
        return torch.searchsorted(self._bounds, draws, right=True)


class TrackTask(Task):
    """A task that is driven on several tracks."""

    choice: TrackChoice | None = None
    """What tracks are drawn from; none where every environment has its own."""

    def draw_tracks(self) -> TrackChoice:
        """Draw every episode's track from a table from now on; asked for before the first step."""
        if self.choice is None:
            self.choice = TrackChoice(len(self.track_names), self.device)
        return self.choice

    @property
    @abstractmethod
    def track_names(self) -> list[str]:
        """Its tracks by name (T)."""

    @property
    @abstractmethod
    def difficulties(self) -> list[float]:
        """How hard each of them looks (T)."""

    @abstractmethod
    def told_of(self, world: State) -> dict[str, Tensor]:
        """What the books of tracks want to know of worlds after a step, each (B, ...).

        road: the track's number. time: seconds driven. progress: distance along the road. laps:
        those driven. finished: whether an end now is none that a driver pays for.
        """


def difficulty(xy: NDArray[np.float64], closed: bool, half_width: float) -> float:
    """How much a line turns per metre, for the room there is to either side."""
    line = np.vstack([xy, xy[:2]]) if closed else xy
    along = np.diff(line, axis=0)
    length = np.hypot(*along[: len(xy)].T).sum()
    heading = np.unwrap(np.arctan2(along[:, 1], along[:, 0]))
    return float(np.abs(np.diff(heading)).sum() / length / half_width)
