"""Which rows of a picture's columns an upright thing covers.

    B pictures, R ground rows, G groups of pixels, W columns, K objects.
    edge      where a band begins or ends, in rows from the middle of the first row  (B, W)
    band      the rows of a column between two edges, painted one colour
    ahead     ground distance straight ahead, metres
    drop      how far a point lies below the lens, metres
    depth     distance of a point along the lens's axis, metres

A wall needs no search: the ground's rows already carry q, and the lowest row of a column whose
ground lies beyond the wall is where the wall stands. Cones and cars are silhouettes of three bands.
In each column only the nearest wall and the nearest object are drawn.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from hotlap.sim.atlas import GROUP
from hotlap.sim.fields import P_STEPS
from hotlap.sim.looks import PAINT_TOP, PAINTS, WIDTH

STRIPES = 4
"""Pairs of stripes on a wall in a period of the road's pattern."""
STRIPE_COLUMNS = (0, 16)
"""Columns of the atlas's `wall` row that hold its two colours."""
CONE_BANDS, CAR_BANDS = (0.68, 0.42), (0.6, 0.22)
"""Where the middle band of a silhouette ends and begins, as shares of its height."""
CABIN = (0.78, 0.6)
"""Half-width of a car's cabin as a share of the car's, and height of the body without it."""
FAR_OFF = 1e6


@dataclass(frozen=True)
class Silhouette:
    """Silhouette of one thing per column: n + 1 edges (B, W), and n paints as atlas places."""

    edges: tuple[Tensor, ...]
    paints: tuple[Tensor, ...]
    """Place of each band's colour within an atlas (B, W) int64."""
    mix: Tensor | None = None
    """Share of the second paint in a single band that has two (B, W)."""


@dataclass(frozen=True)
class Lens:
    """How points become pixels: everything (B, 1)."""

    sine: Tensor
    cosine: Tensor
    """Of the pitch."""
    focal: Tensor
    """Pixels."""
    middle_row: float
    middle_column: float

    def row(self, ahead: Tensor, drop: Tensor) -> Tensor:
        """Row of points `ahead` metres away and `drop` metres below the lens."""
        depth = self.depth(ahead, drop)
        return (drop * self.cosine - ahead * self.sine) / depth * self.focal + self.middle_row

    def depth(self, ahead: Tensor, drop: Tensor) -> Tensor:
        """Distance along the axis of view."""
        return (ahead * self.cosine + drop * self.sine).clamp(min=1e-3)


@dataclass(frozen=True)
class Scan:
    """What the ground rows of pictures know."""

    q: Tensor
    p: Tensor
    """Road coordinates, in steps (B, R, G)."""
    distance: Tensor
    """Ground distance ahead (B, R)."""
    slope: Tensor
    """Downward slope of the row's ray (B, R)."""
    seen: Tensor
    """1 where the row's ray meets ground, else 0 (B, R)."""
    row: Tensor
    """Where in the picture they are (R,); they need not be evenly spaced."""


def paint_place(name: str, column: int = 0) -> int:
    """Place of a paint within an atlas."""
    return (PAINT_TOP + PAINTS.index(name)) * WIDTH + column


def find_walls(limit: Tensor, height: Tensor, lens: Lens, scan: Scan) -> Silhouette:
    """Silhouette of the walls at |q| = `limit` (B, 1) steps, `height` (B, 1) metres tall."""
    rows = scan.q.shape[1]
    beyond = scan.q.abs().sub_(limit.unsqueeze(-1))  # (B, R, G), positive outside the walls
    order = torch.arange(1.0, rows + 1.0, device=beyond.device)
    outside = (beyond * 1e30).clamp_(0.0, 1.0).mul_((order * scan.seen).unsqueeze(-1))
    lowest = outside.amax(1)  # (B, G), 1-based; 0 where a column has no wall
    # Where a column has none, everything is read and left at the horizon: the first row seen.
    horizon = (rows - scan.seen.sum(1, keepdim=True)).to(torch.int64).clamp(max=rows - 1)
    upper = torch.maximum(lowest.to(torch.int64) - 1, horizon).clamp(max=rows - 2)
    lower = upper + 1

    def between(values: Tensor) -> tuple[Tensor, Tensor]:
        return values.gather(1, upper), values.gather(1, lower)

    here, next_ = (beyond.gather(1, at.unsqueeze(1)).squeeze(1) for at in (upper, lower))
    # The wall stands between two rows, or, if its foot is below the picture, where they point to.
    share = (here / (here - next_).clamp(min=1e-3)).clamp(0.0, 20.0)
    far, near = between(scan.distance.clamp(min=1e-3))
    ahead = 1.0 / torch.lerp(1.0 / far, 1.0 / near, share)
    slope = torch.lerp(*between(scan.slope), share)
    foot = torch.lerp(scan.row[upper], scan.row[lower], share)
    exists = lowest.clamp(max=1.0)
    top = lens.row(ahead, slope * ahead - height)
    foot, top = (torch.lerp(scan.row[horizon], edge, exists) for edge in (foot, top))
    phase = scan.p.gather(1, upper.unsqueeze(1)).squeeze(1) * (STRIPES / P_STEPS)  # in pairs
    paints = tuple(
        torch.full_like(upper, paint_place("wall", column)).repeat_interleave(GROUP, 1)
        for column in STRIPE_COLUMNS
    )
    return Silhouette((_spread(top), _spread(foot)), paints, _stripes(phase))


def _spread(values: Tensor) -> Tensor:
    """Values of groups (B, G) to values of columns (B, W), straight lines in between."""
    return interpolate(
        values.unsqueeze(1), scale_factor=float(GROUP), mode="linear", align_corners=False
    ).squeeze(1)


def _stripes(phase: Tensor) -> Tensor:
    """Share of a column's width that lies in odd stripes (B, W), for groups' phases (B, G)."""
    step = phase[:, 1:] - phase[:, :-1]
    step = step - torch.round(step / STRIPES) * STRIPES  # a period is STRIPES pairs long
    run = torch.cat([phase[:, :1], step], 1).cumsum(1)
    width = torch.cat([step[:, :1], step], 1).abs() / GROUP
    at, width = _spread(run), _spread(width).clamp(min=1e-3)

    def before(place: Tensor) -> Tensor:  # length of odd stripes before a place
        whole = torch.floor(place)
        return 0.5 * whole + (place - whole - 0.5).clamp(min=0.0)

    return (before(at + 0.5 * width) - before(at - 0.5 * width)) / width


@dataclass(frozen=True)
class Objects:
    """K upright objects per picture, all (B, K)."""

    ahead: Tensor
    """0 or less where there is none."""
    right: Tensor
    drop: Tensor
    """Of the ground under it."""
    half_width: Tensor
    """As seen, metres."""
    height: Tensor
    is_car: Tensor
    """1 for a car, 0 for a cone."""


def find_objects(
    objects: Objects, lens: Lens, columns: int, wall_foot: Tensor | None
) -> Silhouette:
    """Silhouette of the nearest object of each column, if no wall is nearer."""
    depth = lens.depth(objects.ahead, objects.drop)
    foot = lens.row(objects.ahead, objects.drop)
    top = lens.row(objects.ahead, objects.drop - objects.height)
    scale = lens.focal / depth
    half = (objects.half_width * scale).clamp(min=0.5)
    middle = objects.right * scale + lens.middle_column
    column = torch.arange(columns, device=depth.device, dtype=torch.float32)
    aside = (column - middle.unsqueeze(-1)).abs() / half.unsqueeze(-1)  # (B, K, W), 1 at the rim
    visible = (aside <= 1.0) & (objects.ahead > 0).unsqueeze(-1)
    if wall_foot is not None:
        visible &= foot.unsqueeze(-1) >= wall_foot.unsqueeze(1) - 0.5
    nearest = _index_of_least(torch.where(visible, depth.unsqueeze(-1), FAR_OFF))  # (B, W)

    def pick(values: Tensor) -> Tensor:
        return values.gather(1, nearest)

    shown = visible.any(1).to(torch.float32)
    is_car, foot, top = pick(objects.is_car), pick(foot), pick(top)
    aside = aside.gather(1, nearest.unsqueeze(1)).squeeze(1)
    # Height of the silhouette as a share: a blunt cone; a cabin above the middle of a car.
    cone = ((1.0 - aside) / 0.82).clamp(max=1.0)
    car = CABIN[1] + (1 - CABIN[1]) * ((CABIN[0] - aside) * 1e6).clamp(0.0, 1.0)
    share = torch.lerp(cone, car, is_car) * shown
    upper, lower = (
        cone_part + (car_part - cone_part) * is_car
        for cone_part, car_part in zip(CONE_BANDS, CAR_BANDS, strict=True)
    )

    def level(part: Tensor) -> Tensor:
        return foot + (top - foot) * torch.minimum(part, share)

    kind = is_car.to(torch.int64)
    trim = paint_place("cone") + kind * (paint_place("shadow") - paint_place("cone"))
    body = paint_place("post") + kind * (paint_place("rival") - paint_place("post"))
    edges = (level(share), level(upper), level(lower), level(torch.zeros_like(share)))
    return Silhouette(edges, (trim, body, trim))


def _index_of_least(values: Tensor) -> Tensor:
    """Index along dimension 1 of the least of (B, K, W); for a few K much faster than argmin."""
    least, index = values[:, 0], torch.zeros_like(values[:, 0], dtype=torch.int64)
    for other in range(1, values.shape[1]):
        index = torch.where(values[:, other] < least, other, index)
        least = torch.minimum(least, values[:, other])
    return index
