"""Rounding the bends of a closed line that are too tight for a road.

    xy      nodes in driving order, about evenly spaced                                   (N, 2)
    length  of the edge from each node to the next                                        (N,)
    sag     from each node to the middle between its neighbours: length * sin(turn / 2)   (N, 2)

Two rules are applied in turn (Müller et al., Position Based Dynamics, 2007) until the first holds:
no node sags more than on an arc of the radius, and edges keep their lengths. What one node gives
way its neighbours take up, so straights stay where they are, and a hairpin whose straights lie too
close together becomes a bulb, hardly shorter than it was.
"""

import numpy as np

from hotlap.sim.carracing.tile_track import Numbers
from hotlap.sim.tracks import curves

_MOST_ROUNDS = 20_000  # a hairpin of two units takes 5,000, and a thousand rounds 0.05 s
_CLOSE_ENOUGH = 1.005  # of the sag allowed: the rest would take as long again
_SAG_STEP, _EDGE_STEP = 0.4, 0.25  # of a correction; half of it is where neighbours begin to swing


def round_bends(xy: Numbers, radius: float) -> Numbers | None:
    """The nodes, moved so that no bend is tighter than the radius by more than half a hundredth.

    Returns:
        The nodes, or None if they came to no end.
    """
    length = np.hypot(*curves.edges(xy, closed=True).T)
    around = (length + np.roll(length, 1)) / 2
    most = around * np.sin(around / (2 * radius))
    for _ in range(_MOST_ROUNDS):
        sag = _beside(xy)
        size = np.hypot(*sag.T)
        if np.all(size <= _CLOSE_ENOUGH * most):
            return xy
        sag *= (1 - most / np.maximum(size, most))[:, None]
        xy = xy - _SAG_STEP * _beside(sag)
        edge = curves.edges(xy, closed=True)
        pull = edge * (1 - length / np.hypot(*edge.T))[:, None]
        xy = xy + _EDGE_STEP * (pull - np.roll(pull, 1, axis=0))
    return None


def _beside(values: Numbers) -> Numbers:
    """From each of them to the middle between its neighbours."""
    return (np.roll(values, 1, axis=0) + np.roll(values, -1, axis=0)) / 2 - values
