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

PAD = (
    24  # samples repeated beyond both ends of a track, so that a window never leaves its own track
)
REACH = 4  # segments searched on either side of the predicted one


@dataclass(frozen=True)
class Roads:
    """Tracks laid end to end in flat tables, `PAD` samples of overlap around each."""

    tracks: tuple[Track, ...]
    segments: Tensor
    """x, y, dx, dy of each segment (4, P)."""
    features: Tensor
    """Unit tangent x, y, width left, right, height, climb, grip, curvature by sample (8, P)."""
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
        segments=floats(np.concatenate([segments for segments, _ in tables]).T.copy()),
        features=floats(np.concatenate([features for _, features in tables]).T.copy()),
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


def _read(table: Tensor, row: Tensor) -> Tensor:
    """Columns of a table (K, P) at rows (...,): (K, ...)."""
    return table.index_select(1, row.reshape(-1)).view(-1, *row.shape)


def _nearest(segments: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Nearest point on each segment: fraction along it, squared distance, and which side.

    segments (4, ...), x and y broadcastable to (...,). Returns fraction, squared distance, cross.
    """
    ax, ay, dx, dy = segments
    px, py = x - ax, y - ay
    square = torch.addcmul(dx * dx, dy, dy)
    fraction = (torch.addcmul(px * dx, py, dy) / square).clamp_(0.0, 1.0)
    ex, ey = torch.addcmul(px, fraction, dx, value=-1), torch.addcmul(py, fraction, dy, value=-1)
    cross = torch.addcmul(dx * py, dy, px, value=-1)
    return fraction, torch.addcmul(ex * ex, ey, ey), cross


def _closest(
    fractions: Tensor, distances: Tensor, crosses: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The nearest of W segments (W, B, N): which, and its fraction, squared distance and side."""
    if torch.compiler.is_compiling():
        # One after another: a compiler fuses this into the sums before it, but not a search.
        best = torch.zeros_like(distances[0], dtype=torch.int64)
        fraction, distance, cross = fractions[0], distances[0], crosses[0]
        for index in range(1, len(distances)):
            nearer = distances[index] < distance
            best = torch.where(nearer, index, best)
            fraction = torch.where(nearer, fractions[index], fraction)
            cross = torch.where(nearer, crosses[index], cross)
            distance = torch.where(nearer, distances[index], distance)
        return best, fraction, distance, cross
    distance, best = distances.min(0, keepdim=True)
    fraction, cross = (values.gather(0, best)[0] for values in (fractions, crosses))
    return best[0], fraction, distance[0], cross


def locate(
    roads: Roads, road: Tensor, node: Tensor, x: Tensor, y: Tensor, heading: Tensor, moved: Tensor
) -> Place:
    """Where cars are now, given the node they were at and how far they moved, roughly (m)."""
    shift = torch.round(moved / roads.spacing[road]).clamp(REACH - PAD + 1, PAD - REACH - 1)
    centre = node + shift.to(torch.int64)
    # The window comes first: sums over long rows of cars are faster than over short rows of
    # segments.
    window = torch.arange(-REACH, REACH + 1, device=x.device).view(-1, *[1] * x.dim())
    found = _nearest(_read(roads.segments, roads.first[road] + centre + window), x, y)
    best, fraction, distance, cross = _closest(*found)
    return _describe(roads, road, centre + best - REACH, fraction, distance, cross, heading)


def locate_anywhere(roads: Roads, road: Tensor, x: Tensor, y: Tensor, heading: Tensor) -> Place:
    """Where cars are, by searching every segment of their own track (slow, exact)."""
    window = torch.arange(int(roads.count.max()), device=x.device).view(-1, *[1] * x.dim())
    segments = roads.count[road] - torch.where(roads.closed[road], 0, 1)
    row = (roads.first[road] + window).clamp(max=roads.segments.shape[1] - 1)
    found = _nearest(_read(roads.segments, row), x, y)
    distances = torch.where(window < segments, found[1], torch.inf)
    best, fraction, distance, cross = _closest(found[0], distances, found[2])
    return _describe(roads, road, best, fraction, distance, cross, heading)


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
    fraction = torch.where(closed | (node >= 0), fraction, 0.0)  # before its beginning
    node = torch.where(
        closed, torch.remainder(node, count), torch.minimum(node, count - 2).clamp(min=0)
    )
    row = roads.first[road] + node
    features = torch.lerp(_read(roads.features, row), _read(roads.features, row + 1), fraction)
    tx, ty, left, right, z, climb, grip, curvature = features
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


def pose_on(
    roads: Roads, road: Tensor, s: Tensor, n: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """World position and direction of the line at (s, n): x, y, heading, node."""
    count, closed = roads.count[road], roads.closed[road]
    along = s / roads.spacing[road]
    node = torch.floor(along).to(torch.int64)
    node = torch.where(closed, node, torch.minimum(node, count - 2).clamp(min=0))
    fraction = along - node
    node = torch.where(closed, torch.remainder(node, count), node)
    row = roads.first[road] + node
    ax, ay, dx, dy = _read(roads.segments, row)
    tangent = roads.features[:2]
    tx, ty = torch.lerp(_read(tangent, row), _read(tangent, row + 1), fraction)
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
    return _read(roads.features[7:], _rows_ahead(roads, road, s, distances))[0]


def course_ahead(roads: Roads, road: Tensor, s: Tensor, distances: Tensor) -> Tensor:
    """Width, grip and curvature of the road at distances (K,) ahead: (B, N) -> (B, N, 3, K)."""
    rows = _rows_ahead(roads, road, s, distances)
    left, right = _read(roads.features[2:4], rows)
    return torch.stack([left + right, *_read(roads.features[6:], rows)], -2)


def _rows_ahead(roads: Roads, road: Tensor, s: Tensor, distances: Tensor) -> Tensor:
    """Rows of the tables at distances (K,) ahead of s: (B, N) -> (B, N, K)."""
    sample = (s.unsqueeze(-1) + distances) / roads.spacing[road].unsqueeze(-1)
    node = sample.to(torch.int64)
    count, closed = roads.count[road].unsqueeze(-1), roads.closed[road].unsqueeze(-1)
    node = torch.where(closed, torch.remainder(node, count), torch.minimum(node, count - 2))
    return roads.first[road].unsqueeze(-1) + node
