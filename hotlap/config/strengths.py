"""How much episodes differ, by name: nothing, half of it, all of it, or parts."""

from dataclasses import fields, replace
from typing import Any

from hotlap.config.naming import nearest
from hotlap.config.presets import load_preset
from hotlap.config.randomisation import RandomisationConfig
from hotlap.config.tasks import DonkeyConfig

STRENGTHS = ("none", "light", "full")
PARTS: dict[str, tuple[str, ...]] = {
    "looks": ("light", "colour", "texture", "looks"),
    "image": ("noise", "blur"),
    "lens": ("camera_up", "camera_pitch", "camera_yaw", "camera_zoom"),
    "friction": ("friction",),
    "car": ("mass", "engine"),
    "steering": ("steering_offset", "steering_lag"),
    "delay": ("delay",),
}
"""What full consists of, for those who want some of it, and the settings behind each."""
FULL = "donkey/randomised"
"""The preset whose ranges are meant by full."""
LIGHT = 0.5
"""What is left of these ranges when they are meant by light."""
KEPT = ("looks", "share", "styles", "paint")
"""Settings that have no halves."""


def find_randomisation(strength: str) -> RandomisationConfig:
    """The ranges that a name stands for; several parts are joined by commas."""
    if strength == "none":
        return RandomisationConfig()
    full = load_preset(DonkeyConfig, FULL).randomise
    if strength in STRENGTHS:
        return full if strength == "full" else weakened(full, LIGHT)
    parts = strength.split(",")
    for part in parts:
        if part not in PARTS:
            raise ValueError(nearest(part, (*STRENGTHS, *PARTS), "randomisation"))
    chosen = {name: getattr(full, name) for part in parts for name in PARTS[part]}
    return replace(RandomisationConfig(), **chosen)


def name_of(ranges: RandomisationConfig) -> str:
    """The name that stands for ranges, however painted; those that have none are their own."""
    ranges, usual = replace(ranges, paint=0), RandomisationConfig()
    differ = [
        part
        for part, names in PARTS.items()
        if any(getattr(ranges, name) != getattr(usual, name) for name in names)
    ]
    for name in (*STRENGTHS, ",".join(differ)):
        if name and find_randomisation(name) == ranges:
            return name
    return "own ranges"


def weakened(ranges: RandomisationConfig, share: float) -> RandomisationConfig:
    """Ranges that reach only a share of the way; as many looks and episodes differ as before."""
    usual = RandomisationConfig()
    changed: dict[str, Any] = {name: getattr(ranges, name) for name in KEPT}
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
