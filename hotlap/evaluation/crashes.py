"""Where cars crash: again and again at the same spot, or all over the road.

    s        arc length along the road where a car crashed or spun, metres; a closed road is a
             circle of s
    reach    length of road that counts as one place, metres
    spot     a stretch no longer than `reach` with at least two crashes

Spots are taken greedily: the stretch with most crashes first, then the fullest of what is left. In
contrast to joining neighbours, a long chain of crashes cannot pass for one spot.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from hotlap.records import EpisodeResult, Record
from hotlap.sim.tracks.track import Track

Pattern = Literal["none", "few", "same spot", "spread"]
REACH = 2.0
"""Longest stretch of road that counts as one place, metres: about two widths of a road."""
REACH_SHARE = 0.1
"""The same as a share of the road; on a short one, chance alone would fill two metres."""
ENOUGH = 3
"""Fewest crashes that say anything about where cars crash."""
SAME = 0.5
"""Share of the crashes that the fullest spot must hold to be called the same spot."""


@dataclass(frozen=True, kw_only=True)
class Spot(Record):
    """A place where several cars crashed."""

    s: float
    """Its middle, metres along the road."""
    width: float
    """From the first of its crashes to the last, metres."""
    count: int
    """How many crashed there."""


@dataclass(frozen=True, kw_only=True)
class Crashes(Record):
    """All crashes on a road."""

    count: int
    """How many."""
    pattern: Pattern
    """No crashes, too few to say, most at the same spot, or spread."""
    places: tuple[float, ...]
    """Where each was, metres along the road, in rising order."""
    spots: tuple[Spot, ...]
    """Places of more than one, fullest first."""


def find_crashes(episodes: Iterable[EpisodeResult], track: Track) -> Crashes:
    """The crashes of episodes driven on a track, and their spots."""
    places = sorted(row.crash_s for row in episodes if row.crash_s is not None)
    reach = min(REACH, REACH_SHARE * track.length)
    spots = find_spots(places, reach, track.length if track.closed else None)
    return Crashes(
        count=len(places), pattern=_pattern(len(places), spots), places=tuple(places), spots=spots
    )


def find_spots(places: Iterable[float], reach: float, around: float | None) -> tuple[Spot, ...]:
    """Places of more than one crash, fullest first.

    Args:
        places: Where cars crashed, metres along the road.
        reach: Longest stretch that is one place, metres.
        around: Length of a closed road; none where it is open.
    """
    left = np.sort(np.asarray(list(places), dtype=np.float64))
    spots = []
    while len(left) > 1:
        ahead = left[None, :] - left[:, None]  # (from, to)
        ahead = ahead % around if around else np.where(ahead < 0, np.inf, ahead)
        inside = ahead <= reach
        begin = int(inside.sum(1).argmax())
        count = int(inside[begin].sum())
        if count < 2:
            break
        width = float(ahead[begin][inside[begin]].max())
        middle = float(left[begin]) + width / 2
        spots.append(Spot(s=middle % around if around else middle, width=width, count=count))
        left = left[~inside[begin]]
    return tuple(spots)


def _pattern(count: int, spots: tuple[Spot, ...]) -> Pattern:
    if count < ENOUGH:
        return "few" if count else "none"
    fullest = spots[0].count if spots else 1
    return "same spot" if fullest >= SAME * count else "spread"
