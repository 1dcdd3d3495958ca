"""A forward camera that spares no effort: every sub-pixel's ray meets the exact road.

Slow and simple, on flat ground only. What `hotlap.sim.camera` draws is measured against it.
"""

import math

import numpy as np
from scipy.spatial import cKDTree

from hotlap.config.sensors import CameraConfig
from hotlap.sim.fields import PERIOD
from hotlap.sim.looks import (
    BINS,
    PHASES,
    Q_SPAN,
    REPEAT,
    ROWS,
    SKY_COLUMNS,
    SKY_MARGIN,
    SKY_ROWS,
    SKY_SCALE,
    SKY_STEEPEST,
    SKY_TOP,
    WIDTH,
    Looks,
)
from hotlap.sim.tracks.track import Track


def draw_exactly(
    config: CameraConfig,
    track: Track,
    looks: Looks,
    lens: tuple[float, float],
    heading: float,
    samples: int = 4,
    rows: slice = slice(None),
) -> np.ndarray:
    """Rows of the picture (R, W, 3), 0 to 255, each pixel the mean of samples x samples rays."""
    picked = np.arange(config.height)[rows]
    share = (np.arange(samples) + 0.5) / samples
    focal = config.height / 2 / math.tan(math.radians(config.fov) / 2)
    down = ((picked[:, None] + share).reshape(-1, 1) - config.height / 2) / focal
    right = ((np.arange(config.width)[:, None] + share).reshape(1, -1) - config.width / 2) / focal
    pitch = math.radians(config.pitch)
    forward = math.cos(pitch) - down * math.sin(pitch)
    slope = (math.sin(pitch) + down * math.cos(pitch)) / forward
    ground = np.broadcast_to(slope > 0, (len(down), right.shape[1]))
    half_width = float(np.mean(track.width_left + track.width_right) / 2)
    distance = np.minimum(config.up / np.maximum(slope, 1e-4), config.far * half_width)
    side = distance / forward * right
    x = lens[0] + distance * math.cos(heading) + side * math.sin(heading)
    y = lens[1] + distance * math.sin(heading) - side * math.cos(heading)
    atlas = looks.colour[: ROWS * WIDTH].numpy().view(np.uint8).reshape(ROWS, WIDTH, 4)[..., :3]
    colours = np.empty((*ground.shape, 3))
    colours[ground] = _tile(atlas, track, half_width, x[ground], y[ground])
    azimuth = heading - np.arctan(right)
    colours[~ground] = _sky(atlas, -slope, azimuth)[~ground]
    shape = (len(picked), samples, config.width, samples, 3)
    return colours.reshape(shape).mean((1, 3))


def _tile(
    atlas: np.ndarray, track: Track, half_width: float, x: np.ndarray, y: np.ndarray
) -> np.ndarray:
    """Colour of ground points by the finest tile, at their exact road coordinates."""
    s, n = road_coordinates(track, np.stack([x, y], -1))
    middle = (track.width_left[0] - track.width_right[0]) / 2
    q = np.clip((n - middle) / half_width, -Q_SPAN, Q_SPAN - 1e-9)
    periods = max(1.0, round(track.length / (PERIOD * half_width)))
    row = REPEAT + np.floor(s / track.length * periods % 1.0 * PHASES).astype(int)
    column = np.floor((q + Q_SPAN) / (2 * Q_SPAN) * BINS).astype(int)
    return atlas[row, column].astype(float)


def road_coordinates(track: Track, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Arc length and offset of points (K, 2): the nearest of the segments around each."""
    count = track.num_points
    _, nearest = cKDTree(track.xy).query(points)
    best = np.full(len(points), np.inf)
    s, n = np.zeros(len(points)), np.zeros(len(points))
    for side in (-1, 0):
        first = nearest + side
        first = first % count if track.closed else np.clip(first, 0, count - 2)
        step = track.xy[(first + 1) % count] - track.xy[first]
        offset = points - track.xy[first]
        fraction = np.clip((offset * step).sum(1) / (step * step).sum(1), 0, 1)
        distance = np.linalg.norm(offset - fraction[:, None] * step, axis=1)
        sign = np.where(step[:, 0] * offset[:, 1] >= step[:, 1] * offset[:, 0], 1.0, -1.0)
        nearer = distance < best
        best = np.where(nearer, distance, best)
        s = np.where(nearer, (first + fraction) * track.spacing, s)
        n = np.where(nearer, sign * distance, n)
    return s, n


def _sky(atlas: np.ndarray, tangent: np.ndarray, azimuth: np.ndarray) -> np.ndarray:
    """Colour of directions above the horizon by the panorama."""
    row = np.clip((SKY_STEEPEST - tangent) * SKY_SCALE, 0, SKY_ROWS - 0.01).astype(int) + SKY_TOP
    column = (azimuth / (2 * np.pi) % 1.0 * SKY_COLUMNS).astype(int) + SKY_MARGIN
    row, column = np.broadcast_arrays(row, column)
    return atlas[row, column].astype(float)
