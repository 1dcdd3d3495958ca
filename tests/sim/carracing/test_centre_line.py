"""Any closed line as a CarRacing track."""

import numpy as np
import pytest

from hotlap.sim.carracing import centre_line
from hotlap.sim.carracing.centre_line import MIN_RADIUS, REACH, TILES, from_centre_line
from hotlap.sim.carracing.generator import generate
from hotlap.sim.carracing.tile_track import HALF_WIDTH, PLAYFIELD, STEP, Numbers, TileTrack
from hotlap.sim.tracks import curves


def circle(radius: float, points: int = 60, first: float = 0.0) -> Numbers:
    angle = first + np.linspace(0, 2 * np.pi, points, endpoint=False)
    return radius * np.stack([np.cos(angle), np.sin(angle)], 1)


def paperclip(radius: float) -> Numbers:
    """Two straights of 300, joined by half circles."""
    lengths, bends = np.array([300, np.pi * radius] * 2), np.array([0, 1 / radius] * 2)
    return curves.trace_arcs(np.array([-150, -radius]), 0.0, lengths, bends, 0.5, closed=True)


def nodes(track: TileTrack) -> Numbers:
    return np.stack([track.x, track.y], 1)


def least_steps(track: TileTrack) -> Numbers:
    """How far each edge of the road goes forward along a tile, at least (left, right)."""
    ahead = np.stack([-np.sin(track.turn), np.cos(track.turn)], 1)
    tiles = track.tiles
    sides = [tiles[:, here] - tiles[:, behind] for here, behind in ((0, 3), (1, 2))]
    return np.array([(side * ahead).sum(axis=1).min() for side in sides])


def test_a_circle_is_laid_with_even_tiles() -> None:
    track = from_centre_line("circle", circle(150.0))
    assert len(track) == round(2 * np.pi * 150 / STEP)  # 269
    np.testing.assert_allclose(np.hypot(track.x, track.y), 150, atol=1e-3)
    step = np.hypot(*np.diff(nodes(track), axis=0, append=nodes(track)[:1]).T)
    np.testing.assert_allclose(step, 2 * np.pi * 150 / 269, rtol=1e-3)
    # Counter-clockwise: a car on +x goes along +y, which is angle 0.
    np.testing.assert_allclose(track.turn, np.arange(269) / 269 * 2 * np.pi, atol=1e-3)
    assert np.hypot(*track.tiles[:, 0].T) == pytest.approx(150 - HALF_WIDTH, abs=1e-3)  # left
    assert np.hypot(*track.tiles[:, 1].T) == pytest.approx(150 + HALF_WIDTH, abs=1e-3)


def test_direction_and_first_point_are_kept() -> None:
    track = from_centre_line("backwards", circle(150.0, first=1.0)[::-1])
    last = 1.0 - 2 * np.pi / 60  # the first of the reversed points
    assert (track.x[0], track.y[0]) == pytest.approx(
        (150 * np.cos(last), 150 * np.sin(last)), abs=0.1
    )
    assert np.cos(track.turn[0] - last) == pytest.approx(-1, abs=1e-3)  # its nose the other way
    assert np.all(np.diff(track.turn) < 0)


def test_kerbs_follow_the_generators_rule() -> None:
    # A tile of 3.5 turns by 0.062 at a radius of 56.5.
    assert np.all(from_centre_line("tight", circle(54.0), length=525).kerb == 0)
    oval = circle(54.0, 400)
    oval[:, 0] += np.where(oval[:, 0] > 0, 100, -100)  # two half circles of radius 54
    left = from_centre_line("oval", oval)
    assert set(left.kerb) == {0, -1}
    assert np.all(np.abs(left.x[left.kerb != 0]) > 90)
    assert set(from_centre_line("oval", oval[::-1]).kerb) == {0, 1}


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4])
def test_any_scale_fits(scale: float) -> None:
    track = from_centre_line("ellipse", circle(scale) * [4, 1] + [7 * scale, 5e3])
    assert TILES[0] <= len(track) <= TILES[1]
    assert np.abs(nodes(track)).max() <= REACH + 0.01
    assert track.x.max() == pytest.approx(-track.x.min(), abs=0.1)  # in the middle


def test_a_line_that_fits_keeps_its_size_and_a_length_changes_it() -> None:
    line = circle(120.0)
    assert np.ptp(from_centre_line("as it is", line).x) == pytest.approx(240, abs=0.1)
    longer = from_centre_line("longer", line, length=1000.0)
    assert np.ptp(longer.x) == pytest.approx(1000 / np.pi, abs=0.1)
    assert len(longer) == round(1000 / STEP)
    with pytest.raises(ValueError, match=r"short: its lap may be 525 to 1575 units.*got 100"):
        from_centre_line("short", line, length=100.0)
    with pytest.raises(ValueError, match=r"thin: its lap may be 525 to 12\d\d units"):
        from_centre_line("thin", line * [10, 0.3], length=1500.0)


def test_a_generated_track_comes_out_as_it_went_in() -> None:
    track = generate([4])[0]
    again = from_centre_line("again", nodes(track))
    shift = again.x[0] - track.x[0], again.y[0] - track.y[0]
    gap = np.hypot(
        again.x[:, None] - shift[0] - track.x, again.y[:, None] - shift[1] - track.y
    ).min(axis=1)
    # Gymnasium's first tile is twice as long as the others: a node more lies on it.
    assert len(again) == len(track) + 1
    assert gap[:-1].max() < 0.3
    assert np.cos(again.turn[0] - track.turn[0]) > 0.99


def test_a_line_may_cross_itself() -> None:
    angle = np.linspace(0, 2 * np.pi, 80, endpoint=False)
    eight = from_centre_line("eight", np.stack([200 * np.sin(angle), 90 * np.sin(2 * angle)], 1))
    assert set(eight.kerb) <= {-1, 0, 1}
    assert eight.turn[-1] == pytest.approx(eight.turn[0], abs=0.1)  # as much left as right


def test_both_edges_of_every_tile_lead_forward_down_to_the_tightest_bend() -> None:
    track = from_centre_line("paperclip", paperclip(MIN_RADIUS + 0.1))
    assert track.note is None
    assert least_steps(track).min() > 0.1


@pytest.mark.parametrize("radius", [2.0, 5.0, 6.9])
def test_tighter_bends_are_rounded_and_nothing_else_moves(radius: float) -> None:
    line = paperclip(radius)
    track = from_centre_line("pin", line)
    assert track.note is not None
    assert track.note.startswith("2 bends rounded, by ")
    assert float(track.note.split()[4]) < MIN_RADIUS
    assert least_steps(track).min() > 0.1
    assert np.ptp(track.x) > 290  # a hairpin becomes a bulb and does not creep back
    straight = np.abs(track.x) < 100
    np.testing.assert_allclose(np.abs(track.y[straight]), radius, atol=0.05)
    again = from_centre_line("pin", line)
    np.testing.assert_array_equal(nodes(track), nodes(again))


def test_a_circuit_of_the_real_worlds_size_is_made_to_fit() -> None:
    corners = np.array([
        (0, -300, 80), (1500, -300, 80), (1500, 0, 80), (300, 0, 14.9), (300, 30, 14.9),
        (1200, 30, 14.9), (1200, 60, 14.9), (0, 60, 80),
    ])  # fmt: skip
    metres = curves.round_corners(corners[:, :2], corners[:, 2], 5.0)
    track = from_centre_line("long", metres, size=HALF_WIDTH / 6)
    length = curves.cumulative_length(metres, closed=True)[-1]
    assert track.note is not None
    assert track.note.startswith(
        f"lap of {length:,.0f} m made 1,575 units long ({1575 / length:.2f} times its size), "
        f"2 bends rounded, by "
    )
    assert len(track) == pytest.approx(TILES[1], abs=1)
    assert least_steps(track).min() > 0.1
    assert np.abs(track.kerbs).max() < PLAYFIELD


def test_what_cannot_be_rounded_is_refused_with_the_place(monkeypatch: pytest.MonkeyPatch) -> None:
    coil = [circle(2.0, 40) + np.array([148.0, 0.0])] * 5
    with pytest.raises(
        ValueError, match=r"coil: the bend at \(14\d.*radius of 1\.\d .*needs 7.* rounder bend"
    ):
        from_centre_line("coil", np.concatenate([*coil, circle(150.0, 400)]))
    to_and_fro = np.stack([np.array([0.0, 100, 200, 300, 200, 100]), np.zeros(6)], 1)
    with pytest.raises(ValueError, match="radius"):
        from_centre_line("to and fro", to_and_fro)
    monkeypatch.setattr(centre_line, "MOST_MOVED", 1.0)
    with pytest.raises(ValueError, match=r"pin: the bend at \(-?4[56]\d.* by 1 or less"):
        from_centre_line("pin", 3 * paperclip(5.0), size=1 / 3)


def test_repeated_points_do_no_harm() -> None:
    plain = from_centre_line("plain", circle(150.0))
    points = np.concatenate([circle(150.0), circle(150.0)[:1] + 1e-9])
    repeated = from_centre_line("repeated", np.repeat(points, [2] + [1] * 60, axis=0))
    np.testing.assert_allclose(nodes(repeated), nodes(plain), atol=1e-6)


def test_what_is_no_closed_line_is_refused() -> None:
    with pytest.raises(ValueError, match="half: the line is not closed: its last point lies 300"):
        from_centre_line("half", circle(150.0)[:31])
    with pytest.raises(ValueError, match="few: a closed line needs at least 4 points"):
        from_centre_line("few", circle(150.0, 3))
    with pytest.raises(ValueError, match=r"dot: .* found 0"):
        from_centre_line("dot", np.zeros((9, 2)))
    holed = circle(150.0)
    holed[17, 1] = np.nan
    with pytest.raises(ValueError, match="holed: point 17 is not two finite numbers"):
        from_centre_line("holed", holed)
    with pytest.raises(ValueError, match=r"flat: expected points \(M, 2\)"):
        from_centre_line("flat", np.zeros(9))
