"""Every track by its name.

scene     one of the DonkeyCar scenes, such as `generated_track`
family    an endless supply: `circuit:17` is number 17 of the family `circuit`, `circuit:17@0.8` the
          same of such a size that its road is 0.8 m wide to either side
csv       a path that ends in `.csv`: a centre line of your own
"""

import difflib
from dataclasses import replace
from functools import cache

import numpy as np

from hotlap.config.bridges import SCENES
from hotlap.sim.tracks.csv_file import load_csv
from hotlap.sim.tracks.families import FAMILIES
from hotlap.sim.tracks.named import NAMES, named_track
from hotlap.sim.tracks.selection import WORDS, number_and_width
from hotlap.sim.tracks.track import Array, Start, Track


def find_track(name: str) -> Track:
    """Find or make a track.

    Args:
        name: A scene, also by gym_donkeycar's name of it, `family:seed`, `family:seed@width`, or
            the path of a `.csv` file.

    Raises:
        KeyError: No scene or family has that name.
        ValueError: Seed or width is no such number, or the file is refused.
    """
    if name.lower().endswith(".csv"):
        return load_csv(name)
    family, colon, seed = name.partition(":")
    if colon and family in FAMILIES:
        number, half_width = number_and_width(name, seed)
        if half_width is None:
            return FAMILIES[family](number)
        return replace(FAMILIES[family](number, half_width), name=name)
    name = SCENES.get(name, name)
    if name in NAMES:
        return _named(name)
    raise KeyError(_unknown(name))


def list_tracks() -> list[str]:
    """What `find_track` takes: the scenes, then each family as `family:seed`."""
    return [*NAMES, *(f"{family}:<seed>" for family in FAMILIES)]


@cache
def _named(name: str) -> Track:
    """Scenes are solved for their length, so each is built once and its arrays are locked."""
    track = named_track(name)
    for array in (track.xy, track.width_left, track.width_right, track.z, track.grip):
        if array is not None:
            array.flags.writeable = False
    return track


def _unknown(name: str) -> str:
    if name in WORDS:
        return f"unknown track {name!r}: it stands for many, name one of them here"
    words = [*NAMES, *FAMILIES, *WORDS]
    near = difflib.get_close_matches(name.partition(":")[0], words, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}? " if near else ""
    if name in FAMILIES:
        hint = f"did you mean '{name}:0'? "
    return (
        f"unknown track {name!r}; {hint}available: {', '.join(list_tracks())}, or a path to a .csv"
    )


def mirrored(track: Track) -> Track:
    """The same road seen in a mirror: left bends become right bends."""
    flip = np.array([1.0, -1.0])
    return replace(
        track,
        name=f"{track.name}:mirrored",
        xy=track.xy * flip,
        width_left=track.width_right,
        width_right=track.width_left,
        starts=tuple(Start(p.s, -p.n, -p.heading_error) for p in track.starts),
        cones=None if track.cones is None else track.cones * flip,
    )


def reversed_track(track: Track) -> Track:
    """The same road driven the other way; a closed one still begins at its first sample."""

    def turned(values: Array) -> Array:
        return np.roll(values[::-1], 1, axis=0) if track.closed else values[::-1].copy()

    def moved(start: Start) -> Start:
        s = (track.length - start.s) % track.length if track.closed else start.s
        return Start(s, -start.n, -start.heading_error)

    return replace(
        track,
        name=f"{track.name}:reversed",
        xy=turned(track.xy),
        width_left=turned(track.width_right),
        width_right=turned(track.width_left),
        z=turned(track.z),
        grip=None if track.grip is None else turned(track.grip),
        starts=tuple(moved(start) for start in track.starts),
    )
