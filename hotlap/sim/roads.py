"""A list of tracks as tensors, and where a car is on them.

    T tracks, P sampled points in all; B environments, N cars.
    road      which track a car is on                              (B, N) int64
    node      sample of that track's line at or behind the car     (B, N) int64
    s         arc length of the nearest point of the line, metres  (B, N)
    n         signed distance from the line, left positive         (B, N)

The line is the polyline through a track's samples. `locate` searches a window of segments around
where the car was, so the answer cannot jump to another part of a road that comes near or crosses;
`locate_anywhere` searches them all and is meant for cars that were put somewhere.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from hotlap.sim.tracks.track import Track

PAD = 24  # samples repeated beyond both ends of a track, so that a window never leaves its own track
REACH = 4  # segments searched on either side of the predicted one


@dataclass(frozen=True)
class Roads:
    """Tracks laid end to end in flat tables, `PAD` samples of overlap around each."""

    tracks: tuple[Track, ...]
    segments: Tensor
    """x, y, dx, dy of each segment (P, 4)."""
    features: Tensor
    """Unit tangent x, y, width left, width right, height, climb, grip, curvature by sample (P, 8)."""
    first: Tensor
    """Row of each track's sample 0 (T,) int64."""
    count: Tensor
    """Samples of each track (T,) int64."""
    spacing: Tensor
    """Arc length between samples (T,)."""
    length: Tensor
    """Arc length of a lap, or of the whole open road (T,)."""
    closed: Tensor
    """Whether the track is a loop (T,) bool."""

    @property
    def device(self) -> torch.device:
        """Where the tables live."""
        return self.segments.device

    @property
    def hilly(self) -> bool:
        """Whether any track leaves the plane."""
        return any(np.ptp(track.z) > 1e-6 for track in self.tracks)


@dataclass(frozen=True)
class Place:
    """Where cars are on their roads, all (B, N)."""

    node: Tensor
    s: Tensor
    n: Tensor
    heading_error: Tensor
    width_left: Tensor
    width_right: Tensor
    z: Tensor
    climb: Tensor
    grip: Tensor
    curvature: Tensor

    def tensors(self) -> dict[str, Tensor]:
        """The same as a dict, for a state (spelt out, because `vars` cannot be compiled)."""
        return {
            "node": self.node,
            "s": self.s,
            "n": self.n,
            "heading_error": self.heading_error,
            "width_left": self.width_left,
            "width_right": self.width_right,
            "z": self.z,
            "climb": self.climb,
            "grip": self.grip,
            "curvature": self.curvature,
        }


def lay_out(tracks: Sequence[Track], device: torch.device | str = "cpu") -> Roads:
    """Build the tables for `tracks`, in their order."""
    if not tracks:
        raise ValueError("a world needs at least one track, got none")
    tables = [_tabulate(track) for track in tracks]
    counts = [track.num_points for track in tracks]
    starts = np.cumsum([0] + [len(segments) for segments, _ in tables[:-1]]) + PAD

    def floats(values: object) -> Tensor:
        return torch.as_tensor(np.asarray(values), dtype=torch.float32, device=device)

    return Roads(
        tracks=tuple(tracks),
        segments=floats(np.concatenate([segments for segments, _ in tables])),
        features=floats(np.concatenate([features for _, features in tables])),
        first=torch.as_tensor(starts, device=device),
        count=torch.as_tensor(counts, device=device),
        spacing=floats([track.spacing for track in tracks]),
        length=floats([track.length for track in tracks]),
        closed=torch.as_tensor([track.closed for track in tracks], device=device),
    )


def _tabulate(track: Track) -> tuple[np.ndarray, np.ndarray]:
    """Segments (M + 2 PAD, 4) and features (M + 2 PAD, 8) of one track, padded at both ends."""
    count = track.num_points
    index = np.arange(-PAD, count + PAD + 1)
    inside = index % count if track.closed else np.clip(index, 0, count - 1)
    points = track.xy[inside]
    if not track.closed:  # an open road runs on straight beyond its ends
        beyond = (index - inside)[:, None]
        ahead, behind = track.xy[-1] - track.xy[-2], track.xy[1] - track.xy[0]
        points = points + np.where(beyond > 0, beyond * ahead, beyond * behind)
    segments = np.concatenate([points[:-1], np.diff(points, axis=0)], axis=1)
    tangent = segments[:, 2:] + np.roll(segments[:, 2:], 1, axis=0)
    tangent[0] = tangent[1]
    tangent /= np.linalg.norm(tangent, axis=1, keepdims=True)
    heading = np.unwrap(np.arctan2(tangent[:, 1], tangent[:, 0]))
    columns = np.arange(len(index) - 1)
    z = track.z[inside]
    features = np.column_stack(
        [
            tangent,
            track.width_left[inside][:-1],
            track.width_right[inside][:-1],
            z[:-1],
            np.gradient(z, track.spacing)[:-1],
            np.ones(len(columns)) if track.grip is None else track.grip[inside][:-1],
            np.gradient(heading, track.spacing),
        ]
    )
    return segments, features


def _nearest(rows: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Nearest point on each segment: fraction along it, squared distance, and which side.

    rows (..., 4), x and y broadcastable to (...,). Returns fraction, squared distance, cross, length^2.
    """
    ax, ay, dx, dy = rows.unbind(-1)
    px, py = x - ax, y - ay
    square = dx * dx + dy * dy
    fraction = ((px * dx + py * dy) / square).clamp(0.0, 1.0)
    ex, ey = px - fraction * dx, py - fraction * dy
    return fraction, ex * ex + ey * ey, dx * py - dy * px, square


def locate(
    roads: Roads, road: Tensor, node: Tensor, x: Tensor, y: Tensor, heading: Tensor, moved: Tensor
) -> Place:
    """Where cars are now, given the node they were at and roughly how far they moved along it (m)."""
    shift = torch.round(moved / roads.spacing[road]).clamp(REACH - PAD + 1, PAD - REACH - 1)
    centre = node + shift.to(torch.int64)
    window = torch.arange(-REACH, REACH + 1, device=x.device)
    base = (roads.first[road] + centre).unsqueeze(-1) + window
    rows = roads.segments.index_select(0, base.reshape(-1)).view(*base.shape, 4)
    fraction, distance, cross, _ = _nearest(rows, x.unsqueeze(-1), y.unsqueeze(-1))
    best = distance.argmin(-1, keepdim=True)

    def pick(values: Tensor) -> Tensor:
        return values.gather(-1, best).squeeze(-1)

    return _describe(
        roads, road, centre + best.squeeze(-1) - REACH, pick(fraction), pick(distance), pick(cross), heading
    )


def locate_anywhere(roads: Roads, road: Tensor, x: Tensor, y: Tensor, heading: Tensor) -> Place:
    """Where cars are, by searching every segment of their own track (slow, exact)."""
    most = int(roads.count.max())
    window = torch.arange(most, device=x.device)
    segments = roads.count[road] - torch.where(roads.closed[road], 0, 1)
    base = roads.first[road].unsqueeze(-1) + window
    base = base.clamp(max=len(roads.segments) - 1)
    fraction, distance, cross, _ = _nearest(roads.segments[base], x.unsqueeze(-1), y.unsqueeze(-1))
    distance = torch.where(window < segments.unsqueeze(-1), distance, torch.inf)
    best = distance.argmin(-1, keepdim=True)

    def pick(values: Tensor) -> Tensor:
        return values.gather(-1, best).squeeze(-1)

    return _describe(
        roads, road, best.squeeze(-1), pick(fraction), pick(distance), pick(cross), heading
    )


def _describe(
    roads: Roads,
    road: Tensor,
    node: Tensor,
    fraction: Tensor,
    distance: Tensor,
    cross: Tensor,
    heading: Tensor,
) -> Place:
    """Read a road's features at a point of it, and measure the car against them."""
    count, closed = roads.count[road], roads.closed[road]
    fraction = torch.where(closed | (node <= count - 2), fraction, 1.0)  # past an open road's end
    node = torch.where(closed, torch.remainder(node, count), torch.minimum(node, count - 2).clamp(min=0))
    row = (roads.first[road] + node).reshape(-1)
    here = roads.features.index_select(0, row)
    ahead = roads.features.index_select(0, row + 1)
    mixed = torch.lerp(here, ahead, fraction.reshape(-1, 1)).view(*node.shape, 8)
    tx, ty, left, right, z, climb, grip, curvature = mixed.unbind(-1)
    hx, hy = torch.cos(heading), torch.sin(heading)
    return Place(
        node=node,
        s=(node + fraction) * roads.spacing[road],
        n=torch.copysign(torch.sqrt(distance), cross),
        heading_error=torch.atan2(tx * hy - ty * hx, tx * hx + ty * hy),
        width_left=left,
        width_right=right,
        z=z,
        climb=climb,
        grip=grip,
        curvature=curvature,
    )


def pose_on(roads: Roads, road: Tensor, s: Tensor, n: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """World position and direction of the line at (s, n): x, y, heading, node."""
    count, closed = roads.count[road], roads.closed[road]
    along = s / roads.spacing[road]
    node = torch.floor(along).to(torch.int64)
    node = torch.where(closed, node, torch.minimum(node, count - 2).clamp(min=0))
    fraction = along - node
    node = torch.where(closed, torch.remainder(node, count), node)
    row = (roads.first[road] + node).reshape(-1)
    ax, ay, dx, dy = roads.segments.index_select(0, row).view(*node.shape, 4).unbind(-1)
    here = roads.features.index_select(0, row)
    ahead = roads.features.index_select(0, row + 1)
    mixed = torch.lerp(here, ahead, fraction.reshape(-1, 1)).view(*node.shape, 8)
    tx, ty = mixed[..., 0], mixed[..., 1]
    x = ax + fraction * dx - ty * n
    y = ay + fraction * dy + tx * n
    return x, y, torch.atan2(ty, tx), node


def arc_between(roads: Roads, road: Tensor, before: Tensor, after: Tensor) -> Tensor:
    """Signed distance along the road from `before` to `after`, the short way round a loop."""
    length = roads.length[road]
    around = torch.remainder(after - before + 0.5 * length, length) - 0.5 * length
    return torch.where(roads.closed[road], around, after - before)


def curvature_ahead(roads: Roads, road: Tensor, s: Tensor, distances: Tensor) -> Tensor:
    """Curvature of the line at distances (K,) ahead of s: (B, N) -> (B, N, K)."""
    sample = (s.unsqueeze(-1) + distances) / roads.spacing[road].unsqueeze(-1)
    node = sample.to(torch.int64)
    count, closed = roads.count[road].unsqueeze(-1), roads.closed[road].unsqueeze(-1)
    node = torch.where(closed, torch.remainder(node, count), torch.minimum(node, count - 2))
    row = (roads.first[road].unsqueeze(-1) + node).reshape(-1)
    return roads.features[:, 7].index_select(0, row).view(*node.shape)
