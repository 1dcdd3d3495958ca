"""Numbers of many tracks as metrics: each by its name where they are few, else what they span."""

from collections.abc import Mapping, Sequence

import numpy as np

SHOWN = 16
"""Most tracks that are told one by one."""
WORST = 3
"""Of more, how many of the worst are told."""
QUANTILES = {"low": 0.1, "median": 0.5, "high": 0.9}


def few_or_quantiles(
    prefix: str, rows: Mapping[str, Mapping[str, float]], names: Sequence[str]
) -> dict[str, float]:
    """Metrics by name, from numbers by track.

    Args:
        prefix: What their names begin with.
        rows: Numbers by their names, by track, of tracks of which something is known. Where there
            are many tracks, the worst are those with the least `return`.
        names: All tracks; the worst are told by their place among them.
    """
    if len(names) <= SHOWN:
        return {
            f"{prefix}/{_plain(track)}/{word}": value
            for track, row in rows.items()
            for word, value in row.items()
        }
    if not rows:
        return {}
    told = {}
    for word in next(iter(rows.values())):
        values = [row[word] for row in rows.values() if word in row]
        for label, share in QUANTILES.items():
            told[f"{prefix}/{label}/{word}"] = float(np.quantile(values, share))
    places = {name: place for place, name in enumerate(names)}
    worst = sorted(rows, key=lambda track: rows[track]["return"])[:WORST]
    for number, track in enumerate(worst, start=1):
        told[f"{prefix}/worst_{number}/track"] = float(places[track])
        told |= {f"{prefix}/worst_{number}/{word}": v for word, v in rows[track].items()}
    return told


def _plain(track: str) -> str:
    """A track's name without what separates the parts of a metric's."""
    return track.replace("/", "_")
