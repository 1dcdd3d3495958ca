"""Roads whose every distance can be worked out by hand."""

import numpy as np

from hotlap.sim.tracks.track import Track


def straight(length: float = 40.0, half_width: float = 0.5, style: str = "road") -> Track:
    """An open road along +x from the origin."""
    x = np.arange(0.0, length + 1e-9, half_width / 4)
    return _track(np.column_stack([x, np.zeros_like(x)]), half_width, style, closed=False)


def circle(radius: float = 3.0, half_width: float = 0.5, style: str = "road") -> Track:
    """A round road about the origin, driven counter-clockwise from (radius, 0)."""
    count = round(2 * np.pi * radius / (half_width / 8))
    angle = np.arange(count) * 2 * np.pi / count
    xy = radius * np.column_stack([np.cos(angle), np.sin(angle)])
    return _track(xy, half_width, style, closed=True)


def _track(xy: np.ndarray, half_width: float, style: str, closed: bool) -> Track:
    width = np.full(len(xy), half_width)
    return Track("drawn", xy, width, width, np.zeros(len(xy)), closed=closed, style=style)
