"""Scenes: a road with everything needed to drive on it and to see it.

style   which of the simulator's random roads: how far its path lies from the middle, how wide
turn    most that the turn of a random road changes by every 2 u, degrees; 0 leaves it to the number
"""

from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from hotlap.config.naming import nearest
from hotlap.sim.fields import Fields, survey
from hotlap.sim.looks import Looks, make_looks
from hotlap.sim.roads import Roads, lay_out
from hotlap.sim.tracks import FAMILIES, Start, Track, find_track
from hotlap.sim.tracks.families import road
from hotlap.sim.tracks.named import UNIT
from hotlap.sim.uprights import Uprights, make_uprights

MENU = (
    "generated_road", "warehouse", "sparkfun_avc", "generated_track", "roboracingleague_1",
    "waveshare", "mini_monaco", "warren", "circuit_launch", "mountain_track", "thunderhill",
)  # fmt: skip
"""The scenes in the simulator's order; the last is known to clients but not to its menu."""
RANDOM_ROAD = "generated_road"
ROAD_STYLES = ((2.2, 5.0), (6.0, 12.0), (6.0, 10.0), (6.0, 10.0), (4.5, 12.0))
"""Of each style: the path's distance from the middle, to the right, and half the width (u)."""
ROAD_START = (50.0, 50.0)
"""Where random roads begin, heading along Unity's z (u)."""
ROAD_LENGTH = 2000.0
LINE_AHEAD = 1.0
"""From a start pose forward to its line (u): a car that stands at its start has not crossed it."""


@dataclass(frozen=True)
class Scene:
    """One road, laid out, surveyed and painted."""

    name: str
    track: Track
    roads: Roads
    fields: Fields
    looks: Looks
    uprights: Uprights | None
    lines: tuple[float, ...]
    """Arc lengths of the start lines, metres; none where the road has ends."""

    @property
    def start(self) -> Start:
        """Where cars begin."""
        return self.track.starts[0]


def find_scene(name: str) -> Scene:
    """Build the scene called `name`: one of the menu, or a family's `circuit:17`.

    Raises:
        KeyError: There is no such scene.
        ValueError: The number after a family's name is none.
    """
    family = name.partition(":")[0]
    if name not in MENU and (family not in FAMILIES or ":" not in name):
        raise KeyError(nearest(name, [*MENU, *(f"{each}:<seed>" for each in FAMILIES)], "scene"))
    return _furnish(name, find_track(name))


def random_road(seed: int, style: int, turn: float = 0.0) -> Scene:
    """Build a road of the simulator's random scene: by number, in one of its styles."""
    return _furnish(RANDOM_ROAD, road_track(seed, style, turn))


def road_track(seed: int, style: int, turn: float = 0.0) -> Track:
    """The line and edges of a random road, from the simulator's start pose on."""
    drawn = road(seed, nudge=turn or None)
    offset, half_width = ROAD_STYLES[style % len(ROAD_STYLES)]
    ahead = drawn.xy[1] - drawn.xy[0]
    quarter = np.pi / 2 - np.arctan2(ahead[1], ahead[0])
    turn = np.array([[np.cos(quarter), -np.sin(quarter)], [np.sin(quarter), np.cos(quarter)]])
    xy = (drawn.xy * (ROAD_LENGTH * UNIT / drawn.length)) @ turn.T + np.array(ROAD_START) * UNIT
    return replace(
        drawn,
        name=RANDOM_ROAD,
        xy=xy,
        width_left=np.full(len(xy), (half_width + offset) * UNIT),
        width_right=np.full(len(xy), (half_width - offset) * UNIT),
    )


def _furnish(name: str, track: Track) -> Scene:
    roads = lay_out([track])
    fields = survey(roads)
    ahead = LINE_AHEAD * UNIT
    lines = [(start.s + ahead) % track.length for start in track.starts] if track.closed else []
    return Scene(
        name=name,
        track=track,
        roads=roads,
        fields=fields,
        looks=_look(track.style),
        uprights=make_uprights(roads, fields),
        lines=tuple(lines),
    )


@cache
def _look(style: str) -> Looks:
    """Looks are painted once for all scenes of a style."""
    return make_looks((style,))
