"""Many tracks by one word.

all          the eleven DonkeyCar scenes
family:a-b   numbers a to b of a family, both counted: `circuit:100-199`
"""

from collections.abc import Iterable

from hotlap.sim.tracks.families import FAMILIES
from hotlap.sim.tracks.named import NAMES

ALL = "all"
MOST = 1000
"""Most tracks that a range may stand for: all of them lie in memory at once."""


def is_group(word: str) -> bool:
    """Whether a word stands for many tracks."""
    family, _, seeds = word.partition(":")
    return word == ALL or (family in FAMILIES and "-" in seeds)


def chosen_tracks(words: Iterable[str]) -> tuple[str, ...]:
    """The names that words stand for, each once, in their order."""
    names = [name for word in words for name in (_members(word) if is_group(word) else (word,))]
    return tuple(dict.fromkeys(names))


def _members(word: str) -> tuple[str, ...]:
    if word == ALL:
        return NAMES
    family, _, seeds = word.partition(":")
    first, _, last = seeds.partition("-")
    if not all(part.isascii() and part.isdigit() for part in (first, last)):
        raise ValueError(f"{word!r}: a range of tracks is written {family}:100-199")
    count = int(last) - int(first) + 1
    if not 1 <= count <= MOST:
        raise ValueError(f"{word!r}: a range holds 1 to {MOST} tracks, this one {max(count, 0)}")
    return tuple(f"{family}:{seed}" for seed in range(int(first), int(last) + 1))
