"""Which track an episode is driven on, where a schedule decides.

    T tracks, B environments.

The chances lie in a tensor that is written over in place: a captured or compiled step reads it
where it is, and nobody waits for anybody.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from hotlap.sim.random import Stream, make_key, uniform


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
