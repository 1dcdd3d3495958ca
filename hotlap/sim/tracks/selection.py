"""Many tracks by one word, and the tracks that are kept apart.

all          the eleven DonkeyCar scenes
unseen       a hundred generated tracks that nobody may train on
family:a-b   numbers a to b of a family, both counted: `circuit:100-199`
family:a@w   number a, of such a size that its road is w metres wide to either side: `circuit:7@1.0`
name*n       a track n times, so that among many others it is driven n times as often
donkey-...   gym_donkeycar's name of an environment stands for its scene

Generated tracks from number `KEPT_APART` up are for judging only. Training refuses them, however
they are named, so that a result on them is one on roads that no policy has seen.
"""

import re
from collections.abc import Iterable, Sequence

from hotlap.config.bridges import SCENES
from hotlap.sim.tracks.families import FAMILIES
from hotlap.sim.tracks.named import NAMES

ALL, UNSEEN = "all", "unseen"
KEPT_APART = 90_000
"""First number of each family that is for judging only."""
UNSEEN_RANGES = ("circuit:90000-90049", "hills:90000-90049")
"""What `unseen` stands for: the families whose roads are closed and as wide as a DonkeyCar's."""
WORDS = {ALL: NAMES, UNSEEN: UNSEEN_RANGES}
TIMES = "*"
WIDE = "@"
WIDTHS = (0.6, 10.0)
"""Narrowest and widest half of a road, metres: on a smaller one a car cannot turn."""
MOST = 3000
"""Most tracks that words may stand for: all lie in memory at once, a megabyte each."""


def is_group(word: str) -> bool:
    """Whether a word stands for many tracks."""
    family, _, seeds = word.partition(":")
    numbers = seeds.partition(WIDE)[0]
    return word in WORDS or TIMES in word or (family in FAMILIES and "-" in numbers)


def number_and_width(name: str, seed: str) -> tuple[int, float | None]:
    """Number of a generated track, and half its width if that is told, from all after its family.

    Raises:
        ValueError: They are no such numbers; names the track.
    """
    number, at, width = seed.partition(WIDE)
    if not (number.isascii() and number.isdigit()):
        raise ValueError(
            f"{name!r}: the seed after {name.partition(':')[0]}: is a whole number from 0 up"
        )
    if not at:
        return int(number), None
    least, most = WIDTHS
    if not (re.fullmatch(r"\d+(\.\d+)?", width, re.ASCII) and least <= float(width) <= most):
        raise ValueError(
            f"{name!r}: half the road's width after {WIDE} is a number from {least:g} to {most:g} "
            f"metres, such as {name.partition(WIDE)[0]}{WIDE}0.8"
        )
    return int(number), float(width)


def expand(words: Iterable[str]) -> tuple[str, ...]:
    """The names that words stand for, in their order; one named twice is there twice."""
    names = [name for word in words for name in _members(word)]
    if len(names) > MOST:
        raise ValueError(f"at most {MOST} tracks fit in memory at once, these are {len(names)}")
    return tuple(names)


def chosen_tracks(words: Iterable[str]) -> tuple[str, ...]:
    """The names that words stand for, each once, in their order."""
    return tuple(dict.fromkeys(expand(words)))


def some_of(names: Sequence[str], most: int) -> tuple[str, ...]:
    """At most so many names, evenly chosen from first to last."""
    count = min(most, len(names))
    return tuple(names[i * len(names) // count] for i in range(count))


def kept_apart(name: str) -> bool:
    """Whether a track is for judging only."""
    family, _, seed = name.partition(":")
    number = seed.partition(WIDE)[0]
    return (
        family in FAMILIES and number.isascii() and number.isdigit() and int(number) >= KEPT_APART
    )


def refuse_kept_apart(words: Iterable[str]) -> None:
    """Stop where someone would train on a track that is for judging only."""
    apart = [name for name in expand(words) if kept_apart(name)]
    if apart:
        family = apart[0].partition(":")[0]
        kind = f"generated tracks from number {KEPT_APART} up"
        raise refusal_of(apart, kind, f"lower numbers, such as {family}:0-199")


def refusal_of(apart: Sequence[str], kind: str, instead: str) -> ValueError:
    """What to say to someone who would train on tracks that are for judging only."""
    more = f" and {len(apart) - 1} more" if len(apart) > 1 else ""
    return ValueError(
        f"{apart[0]}{more}: {kind} are for judging only, so that no policy has seen them; "
        f"train on {instead}"
    )


def refuse_choosing_by(names: Iterable[str]) -> None:
    """Stop where a policy would be chosen by how it does on a track that is for judging only."""
    apart = [name for name in names if kept_apart(name)]
    if apart:
        raise ValueError(
            f"{apart[0]}: the best policy is chosen by the tracks that a training is judged on, "
            f"and tracks from number {KEPT_APART} up choose nothing; judge on lower numbers, such "
            f"as {apart[0].partition(':')[0]}:80000-80063, and on these with hotlap evaluate"
        )


def _members(word: str) -> tuple[str, ...]:
    if not is_group(word):
        return (SCENES.get(word, word),)
    if word in WORDS:
        return expand(WORDS[word])
    if TIMES in word:
        name, _, count = word.rpartition(TIMES)
        if not (name and count.isascii() and count.isdigit() and 1 <= int(count) <= MOST):
            name = name or NAMES[0]
            raise ValueError(
                f"{word!r}: a track that is there 1 to {MOST} times is written {name}{TIMES}8"
            )
        return expand([name]) * int(count)
    family, _, seeds = word.partition(":")
    seeds, at, width = seeds.partition(WIDE)
    first, _, last = seeds.partition("-")
    if not all(part.isascii() and part.isdigit() for part in (first, last)):
        raise ValueError(f"{word!r}: a range of tracks is written {family}:100-199")
    count = int(last) - int(first) + 1
    if not 1 <= count <= MOST:
        raise ValueError(f"{word!r}: a range holds 1 to {MOST} tracks, this one {max(count, 0)}")
    return tuple(f"{family}:{seed}{at}{width}" for seed in range(int(first), int(last) + 1))
