"""Patches of squared paper and their outlines."""

import numpy as np

from hotlap.sim.tracks.lattice import grow_patch, outline


def test_one_cell_has_four_corners_walked_to_the_left() -> None:
    walk = outline({(0, 0)})
    assert sorted(map(tuple, walk.tolist())) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    x, y = walk.T
    assert (x * np.roll(y, -1) - y * np.roll(x, -1)).sum() / 2 == 1  # area, positive to the left


def test_an_outline_meets_no_corner_twice_and_encloses_its_patch() -> None:
    rng = np.random.Generator(np.random.PCG64(1))
    for _ in range(200):
        patch = grow_patch(rng, 6, 5, int(rng.integers(1, 20)), rng.random())
        walk = outline(patch)
        x, y = walk.T
        assert len(set(map(tuple, walk.tolist()))) == len(walk)
        assert (x * np.roll(y, -1) - y * np.roll(x, -1)).sum() / 2 == len(patch)  # so no holes


def test_growth_stops_when_the_paper_is_full() -> None:
    rng = np.random.Generator(np.random.PCG64(0))
    assert len(grow_patch(rng, 2, 2, 100, 0.0)) == 4
