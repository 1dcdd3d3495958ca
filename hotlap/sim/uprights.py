"""Things that stand on the ground in the forward camera's pictures: walls, cones and rival cars.

    B pictures, T tracks, W columns; K objects at most in a picture, C cones on a track.

A picture of the ground is drawn first. `find_uprights` says which rows of each column are covered
(see `silhouettes`), `paint_silhouette` paints them over. Sizes are in half-widths of the road, as
those of everything painted on it are; those of rival cars are their own.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from hotlap.sim.atlas import GROUP
from hotlap.sim.fields import Q_STEPS, Fields
from hotlap.sim.ground import land_height
from hotlap.sim.looks import ROWS, WIDTH, Looks
from hotlap.sim.roads import Roads
from hotlap.sim.silhouettes import Lens, Objects, Scan, Silhouette, find_objects, find_walls

WALL_HEIGHT = 0.24
CONE_HEIGHT, CONE_RADIUS = 0.22, 0.085
CONES_SEEN = 4
"""Cones drawn in a picture: the nearest ones ahead."""
NEAREST = 0.1
"""Objects nearer than this to the lens are not drawn."""
NOWHERE = 1e6


@dataclass(frozen=True)
class Uprights:
    """What stands on T tracks, and where the rivals are now. None: there is none of it."""

    wall_limits: Tensor | None = None
    """|q| of each track's walls in steps (T,); out of reach for a track without."""
    cones: Tensor | None = None
    """Positions on each track (T, C, 2); out of reach where a track has fewer than C."""
    rivals: Tensor | None = None
    """x, y and heading of the other cars in each picture (B, M, 3)."""
    rival_size: tuple[float, float, float] = (0.35, 0.2, 0.13)
    """Length, width and height of a rival, metres."""


def make_uprights(roads: Roads, fields: Fields) -> Uprights | None:
    """Walls and cones of all tracks; None if no track has any."""
    gaps = [np.inf if track.wall_gap is None else track.wall_gap for track in roads.tracks]
    counts = [0 if track.cones is None else len(track.cones) for track in roads.tracks]
    limits = cones = None
    if np.isfinite(gaps).any():
        walls = torch.tensor(gaps, dtype=torch.float32, device=roads.device)
        limits = ((1.0 + walls / fields.grids[:, 5]) * Q_STEPS).clamp(max=NOWHERE)
    if any(counts):
        places = np.full((len(counts), max(counts), 2), NOWHERE, dtype=np.float32)
        for row, track in zip(places, roads.tracks, strict=True):
            if track.cones is not None:
                row[: len(track.cones)] = track.cones
        cones = torch.as_tensor(places, device=roads.device)
    return None if limits is None and cones is None else Uprights(limits, cones)


def with_rivals(
    uprights: Uprights | None, rivals: Tensor, size: tuple[float, float, float]
) -> Uprights:
    """The same with other cars at `rivals` (B, M, 3: x, y, heading), of length, width, height."""
    return replace(uprights or Uprights(), rivals=rivals, rival_size=size)


def find_uprights(
    uprights: Uprights,
    fields: Fields,
    road: Tensor,
    eye: tuple[Tensor, Tensor, Tensor, Tensor],
    lens: Lens,
    scan: Scan,
) -> tuple[Silhouette, ...]:
    """Silhouette to paint over pictures of the ground, walls first.

    Args:
        uprights: What stands there.
        fields: Road coordinates and heights of the ground.
        road: Track of each picture (B,).
        eye: x, y, height and heading of each lens (B,).
        lens: How points become pixels.
        scan: Road coordinates of the ground's rows.
    """
    half_width = fields.grids[:, 5].index_select(0, road).unsqueeze(-1)  # (B, 1)
    columns = scan.q.shape[2] * GROUP
    bands = []
    if uprights.wall_limits is not None:
        limit = uprights.wall_limits.index_select(0, road).unsqueeze(-1)
        bands.append(find_walls(limit, WALL_HEIGHT * half_width, lens, scan))
    objects = []
    if uprights.cones is not None:
        cones = _nearest_cones(uprights.cones.index_select(0, road), eye)
        wide = (CONE_RADIUS * half_width).expand(cones.shape[:2])
        tall = (CONE_HEIGHT * half_width).expand(cones.shape[:2])
        objects.append((cones, wide, tall, torch.zeros_like(wide)))
    if uprights.rivals is not None:
        length, width, height = uprights.rival_size
        turn = uprights.rivals[..., 2] - eye[3].unsqueeze(-1)
        wide = 0.5 * (length * torch.sin(turn).abs() + width * torch.cos(turn).abs())
        tall = torch.full_like(wide, height)
        objects.append((uprights.rivals[..., :2], wide, tall, torch.ones_like(wide)))
    if objects:
        foot = None
        if bands:  # nothing hides behind the horizon of a track without walls
            foot = bands[0].edges[1] * (limit < NOWHERE)
        place, wide, tall, is_car = (torch.cat(part, 1) for part in zip(*objects, strict=True))
        ahead, right = _ahead_and_right(place, eye)
        there = place[..., 0] < NOWHERE
        standing = Objects(
            ahead=torch.where(there & (ahead > NEAREST * half_width), ahead, 0.0),
            right=right,
            drop=eye[2].unsqueeze(-1) - land_height(fields, road, place[..., 0], place[..., 1]),
            half_width=wide,
            height=tall,
            is_car=is_car,
        )
        bands.append(find_objects(standing, lens, columns, foot))
    return tuple(bands)


def _ahead_and_right(place: Tensor, eye: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
    """Ground points (B, K, 2) as seen from the eye: metres ahead and to the right (B, K)."""
    x, y, _, heading = (part.unsqueeze(-1) for part in eye)
    dx, dy = place[..., 0] - x, place[..., 1] - y
    sine, cosine = torch.sin(heading), torch.cos(heading)
    return dx * cosine + dy * sine, dx * sine - dy * cosine


def _nearest_cones(cones: Tensor, eye: tuple[Tensor, ...]) -> Tensor:
    """The CONES_SEEN nearest ones ahead of (B, C, 2), or all if there are fewer."""
    count = min(CONES_SEEN, cones.shape[1])
    ahead, _ = _ahead_and_right(cones, eye)
    chosen = torch.where(ahead > 0, ahead, NOWHERE).topk(count, largest=False).indices
    return cones.gather(1, chosen.unsqueeze(-1).expand(-1, -1, 2))


def paint_silhouette(looks: Looks, look: Tensor, bands: Silhouette, pixels: Tensor) -> Tensor:
    """Raw pixels (B, H, W) of `atlas.read_raw`, overwritten where there are bands."""
    height, width = pixels.shape[1:]
    row = torch.arange(height, device=pixels.device, dtype=torch.int16).view(1, -1, 1)
    above = []  # for each edge, -1 in the rows above it and 0 in the others, by the sign bit
    for edge in bands.edges:
        first = torch.ceil(edge[:, :width].clamp(-1.0, height + 1.0)).to(torch.int16)
        above.append((row - first.unsqueeze(1)).bitwise_right_shift_(15))
    inside, change = torch.empty_like(pixels), torch.empty_like(pixels)
    colours = _colours(looks, look, bands, pixels)
    for start, stop, colour in zip(above[:-1], above[1:], colours, strict=True):
        # Whole-integer selection: several times faster than a mask of bools without a compiler.
        inside.copy_(start.bitwise_xor_(stop))
        torch.bitwise_xor(pixels, colour[:, None, :width], out=change)
        pixels = pixels.bitwise_xor_(change.bitwise_and_(inside))
    return pixels


def _colours(looks: Looks, look: Tensor, bands: Silhouette, pixels: Tensor) -> list[Tensor]:
    """Raw colour of each band (B, W)."""
    packed = pixels.dtype == torch.int32
    atlas = looks.colour if packed else looks.gray
    start = (look * (ROWS * WIDTH)).unsqueeze(-1)
    read = [atlas.index_select(0, (p + start).view(-1)).view(p.shape) for p in bands.paints]
    if bands.mix is None:
        return read
    if not packed:
        return [torch.lerp(read[0].float(), read[1].float(), bands.mix).round().to(torch.uint8)]
    mixed = -(1 << 24)  # the fourth byte is 255
    for shift in (0, 8, 16):
        one, other = (((colour >> shift) & 255).float() for colour in read)
        mixed = mixed + (torch.lerp(one, other, bands.mix).round().to(torch.int32) << shift)
    return [mixed]  # type: ignore[list-item]
