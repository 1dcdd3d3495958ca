"""How much episodes differ, by name: nothing, half of it, or all that the preset has."""

from dataclasses import fields
from typing import Any, Literal, get_args

from hotlap.config.naming import nearest
from hotlap.config.presets import load_preset
from hotlap.config.randomisation import RandomisationConfig
from hotlap.config.tasks import DonkeyConfig

Strength = Literal["none", "light", "full"]
STRENGTHS: tuple[str, ...] = get_args(Strength)
FULL = "donkey/randomised"
"""The preset whose ranges are meant by full."""
LIGHT = 0.5
"""What is left of these ranges when they are meant by light."""


def find_randomisation(strength: str) -> RandomisationConfig:
    """The ranges that a name stands for."""
    if strength not in STRENGTHS:
        raise ValueError(nearest(strength, STRENGTHS, "strength"))
    if strength == "none":
        return RandomisationConfig()
    full = load_preset(DonkeyConfig, FULL).randomise
    return full if strength == "full" else weakened(full, LIGHT)


def name_of(ranges: RandomisationConfig) -> str:
    """The name that stands for ranges; those that have none are their own."""
    return next((name for name in STRENGTHS if find_randomisation(name) == ranges), "own ranges")


def weakened(ranges: RandomisationConfig, share: float) -> RandomisationConfig:
    """Ranges that reach only a share of the way; as many looks and episodes differ as before."""
    usual = RandomisationConfig()
    kept = ("looks", "share", "styles")
    changed: dict[str, Any] = {name: getattr(ranges, name) for name in kept}
    for field in fields(ranges):
        if field.name in changed:
            continue
        end, middle = getattr(ranges, field.name), getattr(usual, field.name)
        if isinstance(end, tuple):
            new = tuple(m + share * (e - m) for e, m in zip(end, middle, strict=True))
            whole = isinstance(middle[0], int)
            changed[field.name] = tuple(map(round, new)) if whole else new
        else:
            changed[field.name] = middle + share * (end - middle)
    return RandomisationConfig(**changed)
