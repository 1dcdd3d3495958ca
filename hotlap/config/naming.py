"""What to say when a word is not known."""

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(word: str, known: Iterable[str], kind: str) -> str:
    """Explain that `word` is not a known `kind`, and what was probably meant.

    The sentence belongs in a `KeyError` (or in a `ValueError`, for a setting):

        >>> nearest("generated_trak", ["generated_track", "thunderhill"], "track")
        "unknown track 'generated_trak'; did you mean 'generated_track'? available: ..."
    """
    names = sorted(set(known))
    message = f"unknown {kind} {word!r}; "
    if guess := _guess(word, names):
        message += f"did you mean {guess!r}? "
    return message + f"available: {', '.join(names) or 'none'}"


def _guess(word: str, names: list[str]) -> str | None:
    """Find the name closest to `word`, whatever its case, or one that contains it."""
    by_folded = {name.casefold(): name for name in names}
    folded = word.casefold()
    close = get_close_matches(folded, by_folded, n=1)
    containing = [name for name in by_folded if len(folded) >= 3 and folded in name]
    found = close or containing
    return by_folded[found[0]] if found else None
