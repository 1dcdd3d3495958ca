"""Tracks by seed against Gymnasium's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hotlap.sim.carracing import generator
from hotlap.sim.carracing.generator import CHECKPOINTS, generate, kerb_sides
from hotlap.sim.carracing.tile_track import STEP, TileTrack

FEW = (0, 1, 7, 99, 123_456_789)
DRAWS = 2 * CHECKPOINTS
RETRIED = {36: 2, 1010: 3}  # seed: circles that Gymnasium draws before the ends of a lap meet


@pytest.fixture(scope="module")
def gymnasium_env() -> Any:
    pytest.importorskip("Box2D")
    from gymnasium.envs.box2d.car_racing import CarRacing

    return CarRacing()


def is_kerb(colour: Any) -> bool:
    return isinstance(colour, tuple)  # a road tile's is an array


def assert_same(track: TileTrack, env: Any) -> None:
    """The track is the one that the environment has now: every number to the last bit."""
    nodes = np.array(env.track)[:, 1:]
    np.testing.assert_array_equal(np.stack([track.turn, track.x, track.y], 1), nodes)
    tiles = np.array([corners for corners, colour in env.road_poly if not is_kerb(colour)])
    np.testing.assert_allclose(track.tiles, tiles, rtol=0, atol=1e-9)
    kerbs = [np.array(corners) for corners, colour in env.road_poly if is_kerb(colour)]
    # Where two neighbouring tiles have one angle, Gymnasium's kerb is a line without width.
    kerbs = [corners for corners in kerbs if not np.array_equal(corners[0], corners[1])]
    found = track.kerbs[track.kerb != 0]
    np.testing.assert_allclose(found, np.array(kerbs).reshape(-1, 4, 2), rtol=0, atol=1e-9)


def circles_drawn(seed: int, env: Any) -> int:
    """How many circles the environment has drawn since its reset, by its random numbers."""
    after = env.np_random.bit_generator.state
    stream = np.random.PCG64(np.random.SeedSequence(seed))
    for circles in range(10):
        if stream.state["state"] == after["state"]:
            return circles
        stream.advance(DRAWS)
    raise AssertionError("the environment draws other numbers than circles")


def assert_all_same(seeds: list[int], env: Any) -> None:
    for seed, track in zip(seeds, generate(seeds), strict=True):
        env.reset(seed=seed)
        assert_same(track, env)
        assert track.name == f"carracing:{seed}"


def test_tracks_are_gymnasiums(gymnasium_env: Any) -> None:
    assert_all_same(list(FEW), gymnasium_env)


@pytest.mark.slow
def test_sixty_tracks_are_gymnasiums(gymnasium_env: Any) -> None:
    assert_all_same(list(range(1000, 1060)), gymnasium_env)


@pytest.mark.parametrize("seed", RETRIED)
def test_a_lap_whose_ends_do_not_meet_is_drawn_anew(seed: int, gymnasium_env: Any) -> None:
    gymnasium_env.reset(seed=seed)
    assert circles_drawn(seed, gymnasium_env) == RETRIED[seed]
    assert_same(generate([seed])[0], gymnasium_env)


def test_a_kerb_without_width_is_none(gymnasium_env: Any) -> None:
    gymnasium_env.reset(seed=1000)
    kerbs = [corners for corners, colour in gymnasium_env.road_poly if is_kerb(colour)]
    track = generate([1000])[0]
    assert (track.kerb != 0).sum() == len(kerbs) - 1
    assert_same(track, gymnasium_env)


def test_a_batch_equals_its_members_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generator, "AT_ONCE", 3)
    seeds = [3, 36, 5, 3]  # the second is drawn twice, the last is in a batch of its own
    for seed, track in zip(seeds, generate(seeds), strict=True):
        alone = generate([seed])[0]
        for name in ("x", "y", "turn", "kerb"):
            np.testing.assert_array_equal(getattr(track, name), getattr(alone, name))


def test_nodes_lie_one_step_apart_and_the_first_tile_is_mostly_two_steps_long() -> None:
    seams = []
    for track in generate(range(20)):
        step = np.hypot(np.diff(track.x), np.diff(track.y))
        np.testing.assert_allclose(step, STEP, rtol=1e-9)
        seams.append(np.hypot(track.x[0] - track.x[-1], track.y[0] - track.y[-1]))
        assert 200 < len(track) < 400
    assert np.median(seams) == pytest.approx(2 * STEP)
    assert max(seams) < 4 * STEP


def test_no_seeds_make_no_tracks_and_a_negative_one_is_refused() -> None:
    assert generate([]) == []
    with pytest.raises(ValueError, match="from 0 up, got -3"):
        generate([1, -3])


def test_kerbs_lie_inside_of_bends_of_four_tiles() -> None:
    changes = np.zeros(40)
    changes[10:14] = 0.1  # left
    changes[20:25] = -0.1  # right
    changes[30:33] = 0.1  # too short
    assert np.flatnonzero(kerb_sides(changes) == -1).tolist() == [10, 11, 12, 13]
    assert np.flatnonzero(kerb_sides(changes) == 1).tolist() == [20, 21, 22, 23, 24]
    gentle = np.full(40, 0.061)
    assert not kerb_sides(gentle).any()
    to_and_fro = 0.1 * (-1.0) ** np.arange(40)
    assert not kerb_sides(to_and_fro).any()


def test_a_kerb_at_the_start_reaches_further_back_over_the_seam() -> None:
    changes = np.full(40, 0.01)
    changes[-3:] = changes[0] = 0.1  # a bend that ends on tile 0
    # Tiles 37 to 39 are marked from tile 0, and 34 to 36 once more from those.
    assert np.flatnonzero(kerb_sides(changes)).tolist() == [0, 34, 35, 36, 37, 38, 39]
