import math
from pathlib import Path

import numpy as np
import pytest

from hotlap.evaluation.track_maps import draw_map, facts, road_edges
from hotlap.sim.tracks.track import Track


def ring(radius: float = 10.0, points: int = 400) -> Track:
    """A circle driven anticlockwise, 3 m wide, rising by 2 m and falling again."""
    angle = np.linspace(0, 2 * np.pi, points, endpoint=False)
    return Track(
        name="ring",
        xy=radius * np.stack([np.cos(angle), np.sin(angle)], axis=1),
        width_left=np.full(points, 1.0),
        width_right=np.full(points, 2.0),
        z=1 - np.cos(angle),
    )


def test_a_ring_measures_what_it_should() -> None:
    row = facts(ring())
    assert row["length"] == pytest.approx(20 * math.pi, rel=1e-4)
    assert row["tightest_radius"] == pytest.approx(10, rel=1e-4)
    assert row["narrowest"] == row["widest"] == 3.0
    assert row["climb"] == pytest.approx(2.0)


def test_a_straight_has_no_tightest_radius() -> None:
    xy = np.stack([np.arange(5.0), np.zeros(5)], axis=1)
    row = facts(Track("straight", xy, np.ones(5), np.ones(5), np.zeros(5), closed=False))
    assert row["tightest_radius"] is None
    assert row["length"] == 4.0


def test_the_left_edge_of_an_anticlockwise_ring_is_inside() -> None:
    left, right = road_edges(ring())
    assert np.allclose(np.hypot(*left.T), 9)
    assert np.allclose(np.hypot(*right.T), 12)
    wall, _ = road_edges(ring(), beyond=0.5)
    assert np.allclose(np.hypot(*wall.T), 8.5)


def test_a_map_is_drawn_with_a_line_over_it(tmp_path: Path) -> None:
    track = ring()
    plain = draw_map(track, tmp_path / "plain.png")
    lined = draw_map(track, tmp_path / "new" / "lined.png", track.xy, np.linspace(1, 5, 400))
    assert plain.read_bytes() != lined.read_bytes()
