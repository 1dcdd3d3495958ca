"""Roads: what one is, and where to find one by name."""

from hotlap.sim.tracks.catalogue import find_track
from hotlap.sim.tracks.families import FAMILIES
from hotlap.sim.tracks.named import NAMES
from hotlap.sim.tracks.track import Start, Track

__all__ = ["FAMILIES", "NAMES", "Start", "Track", "find_track"]
