"""Every CarRacing track by its name.

    carracing:7          the one that Gymnasium makes from seed 7
    carracing:0-255      those of seeds 0 to 255, both counted
    carracing:hairpins   a circuit drawn by hand (a name in `circuits`)
    any other            a closed road of `hotlap.sim.tracks`: a scene, a number of a family. The
                         middle of the road is laid with tiles, at the size that makes it as wide as
                         CarRacing's, or the nearest that fits
    a path to a .csv     the same from a file, whose line may cross itself; one of x and y alone
                         keeps its size, if that fits
    name*8               a track eight times

Tracks of the seeds `HELD_OUT` are for judging only.
"""

import re
from collections.abc import Iterable, Sequence

import numpy as np

from hotlap.config.naming import nearest
from hotlap.sim.carracing.centre_line import from_centre_line
from hotlap.sim.carracing.circuits import CIRCUITS, circuit_line
from hotlap.sim.carracing.generator import generate
from hotlap.sim.carracing.tile_track import HALF_WIDTH, Numbers, TileTrack
from hotlap.sim.tracks import curves, find_track, selection
from hotlap.sim.tracks.catalogue import list_tracks
from hotlap.sim.tracks.csv_file import lay_road, read_line
from hotlap.sim.tracks.track import Track

PREFIX = "carracing:"
HELD_OUT = range(10_000, 30_000)
"""Seeds for judging only; 20,000 is the first that `hotlap evaluate` takes by itself."""
MOST = 4096
"""Most tracks that words may stand for: all of them lie in memory at once."""


def find_tile_tracks(names: Sequence[str]) -> list[TileTrack]:
    """Find or make tracks, those of seeds all at once.

    Args:
        names: See the module's first lines; a name that stands for many is replaced by them.

    Raises:
        KeyError: There is no track of that name.
        ValueError: A number or a file is refused, a road is open or bends too tightly, or there are
            too many.
    """
    single = expand(names)
    seeds = {name: seed for name in single if (seed := _seed(name)) is not None}
    found = dict(zip(seeds, generate(list(seeds.values())), strict=True))
    for name in single:
        if name not in found:
            found[name] = _drawn(name)
    return [found[name] for name in single]


def list_changes(names: Sequence[str]) -> list[str]:
    """What was changed to lay these tracks with tiles: a line for each that was, with its name."""
    drawn = [name for name in dict.fromkeys(expand(names)) if not name.startswith(PREFIX)]
    return [f"{track.name}: {track.note}" for track in find_tile_tracks(drawn) if track.note]


def expand(words: Iterable[str]) -> tuple[str, ...]:
    """The names that words stand for, in their order; one named twice is there twice."""
    names = [name for word in selection.expand(words) for name in _members(word)]
    if len(names) > MOST:
        raise ValueError(f"at most {MOST} tracks fit in memory at once, these are {len(names)}")
    return tuple(names)


def list_tile_tracks() -> list[str]:
    """What `find_tile_tracks` takes: seeds, circuits, and all of our own tracks."""
    return [f"{PREFIX}<seed>", *(f"{PREFIX}{name}" for name in CIRCUITS), *list_tracks()]


def refuse_held_out(words: Iterable[str]) -> None:
    """Stop where someone would train on a track that is for judging only."""
    names = expand(words)
    apart = [name for name in names if _seed(name) in HELD_OUT]
    if apart:
        kind = f"tracks of the seeds {HELD_OUT[0]} to {HELD_OUT[-1]}"
        raise selection.refusal_of(apart, kind, f"others, such as {PREFIX}0-255")
    selection.refuse_kept_apart(name for name in names if not name.startswith(PREFIX))


def _members(word: str) -> list[str]:
    seeds = word.removeprefix(PREFIX)
    if word == seeds or not re.fullmatch(r"[\d-]*-[\d-]*", seeds, re.ASCII):
        return [word]
    first, _, last = seeds.partition("-")
    if not (first.isdigit() and last.isdigit()):
        raise ValueError(f"{word!r}: a range of tracks is written {PREFIX}0-255")
    count = int(last) - int(first) + 1
    if not 1 <= count <= MOST:
        raise ValueError(f"{word!r}: a range holds 1 to {MOST} tracks, this one {max(count, 0)}")
    return [f"{PREFIX}{seed}" for seed in range(int(first), int(last) + 1)]


def _seed(name: str) -> int | None:
    """The seed that a name tells, if it does."""
    found = re.fullmatch(rf"{PREFIX}(\d+)", name, re.ASCII)
    return int(found[1]) if found else None


def _drawn(name: str) -> TileTrack:
    """A track that is no seed's."""
    circuit = name.removeprefix(PREFIX)
    if circuit != name and circuit in CIRCUITS:
        return from_centre_line(name, circuit_line(circuit))
    if name.lower().endswith(".csv"):
        return _from_file(name)
    try:
        track = find_track(name)
    except KeyError:
        raise KeyError(nearest(name, list_tile_tracks(), "track")) from None
    if not track.closed:
        raise ValueError(f"{name}: an open road has no laps; CarRacing is driven on closed ones")
    return _paved(name, track)


def _from_file(path: str) -> TileTrack:
    """A line of one's own: the middle between the edges it tells, or the line itself."""
    line = read_line(path)
    if line.widths is None:
        return from_centre_line(path, line.points)
    gap = curves.why_open(line.points)
    if gap is not None:  # its road would bridge it
        raise line.refuse(-1, gap)
    track, _ = lay_road(line)
    return _paved(path, track)


def _paved(name: str, track: Track) -> TileTrack:
    return from_centre_line(name, _middle(track), size=HALF_WIDTH / track.half_width)


def _middle(track: Track) -> Numbers:
    """Places halfway between the edges of a road (M, 2); its reference line may lie elsewhere."""
    heading = curves.headings(track.xy)
    left = np.stack([-np.sin(heading), np.cos(heading)], -1)
    return track.xy + left * ((track.width_left - track.width_right) / 2)[:, None]
