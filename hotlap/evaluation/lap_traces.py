"""Laps laid side by side: speed and time over the road, whatever the line that was driven.

s      arc length along the road's reference line, rising from 0 to its length   (K,)
xy     where the car was there, metres                                           (K, 2)
speed  its speed, m/s                                                            (K,)
time   since the lap began, seconds; the last is the lap's                       (K,)
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from hotlap.evaluation.judge import Drive
from hotlap.evaluation.track_maps import places_on
from hotlap.sim.lap_records import limit_time, racing_line
from hotlap.sim.tracks.track import Array, Track

NEAR, SLOW = 1.0, 0.5
"""How far along the road, and how fast, a car may be after its first step if it began at the start:
metres and m/s."""


@dataclass(frozen=True)
class Trace:
    """A lap, place by place."""

    s: Array
    xy: Array
    speed: Array
    time: Array

    @property
    def lap_time(self) -> float:
        """Of the whole lap, seconds."""
        return float(self.time[-1])

    def at(self, s: Array) -> "Trace":
        """The same lap at other places along the road."""
        x, y, speed, time = (
            np.interp(s, self.s, column) for column in (*self.xy.T, self.speed, self.time)
        )
        return Trace(s, np.stack([x, y], axis=1), speed, time)


def best_trace(drives: Iterable[Drive], track: Track, car_width: float, dt: float) -> Trace | None:
    """The fastest lap of some drives, from line to line and on the road; None where there is none.

    Args:
        drives: Who drove on the track.
        track: Its road. A lap of an open one is a drive from its start to its end.
        car_width: Some part of the car has to be on the road throughout (m).
        dt: Between two steps (s).
    """
    laps = [lap for drive in drives for lap in _laps(drive, track, car_width, dt)]
    return min(laps, key=lambda lap: lap.lap_time, default=None)


def fast_trace(track: Track, vehicle: str = "donkey") -> tuple[Trace, bool]:
    """The lap to compare with, and whether it is the least possible.

    It is where the solved line is shipped; elsewhere it is a quick line's, by its own reckoning.
    """
    line = racing_line(track, vehicle)
    xy, speed, s = places_on(track, line), line.speed, line.s
    if track.closed:
        s = np.append(s, track.length)
        xy, speed = np.vstack([xy, xy[:1]]), np.append(speed, speed[0])
    chords = np.linalg.norm(np.diff(xy, axis=0), axis=1)
    time = np.append(0.0, np.cumsum(2 * chords / (speed[:-1] + speed[1:])))
    known = limit_time(track.name, vehicle)
    least = known is not None and abs(line.time / known - 1) < 1e-3
    return Trace(s, xy, speed, time * (line.time / time[-1])), least


def _laps(drive: Drive, track: Track, car_width: float, dt: float) -> list[Trace]:
    """The laps of a drive that count."""
    moved = np.diff(drive.s)
    if track.closed:
        moved = (moved + track.length / 2) % track.length - track.length / 2
    ahead = np.append(drive.s[0], drive.s[0] + np.cumsum(moved))  # (T,) beyond any number of laps
    start = 0.0 if track.closed else track.starts[0].s
    from_start = ahead[0] < start + NEAR and drive.speed[0] < SLOW
    if track.closed:
        lines = np.arange(0 if from_start else 1, ahead.max() // track.length + 1) * track.length
        bounds = [(max(line, ahead[0]), line + track.length) for line in lines[:-1]]
    elif drive.episode.end == "road end" and from_start:
        bounds = [(ahead[0], ahead[-1])]
    else:
        bounds = []
    further = np.append(True, np.diff(np.maximum.accumulate(ahead)) > 0)  # (T,) never back
    at, clean = ahead[further], drive.over_edge < car_width
    columns = (*drive.xy.T, drive.speed, dt * np.arange(1, len(ahead) + 1))
    laps = []
    for begin, end in bounds:
        first, last = np.searchsorted(np.maximum.accumulate(ahead), (begin, end))
        if not clean[first : last + 1].all():
            continue
        inside = (at > begin) & (at < end)
        s = np.concatenate([[begin], at[inside], [end]])
        x, y, speed, time = (np.interp(s, at, column[further]) for column in columns)
        begun = 0.0 if begin == ahead[0] else time[0]  # at the start, before the first step
        s -= begin if begin > ahead[0] else 0.0
        laps.append(Trace(s, np.stack([x, y], axis=1), speed, time - begun))
    return laps
