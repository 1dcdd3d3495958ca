"""Looks of the twin's pictures, against those of the real frames."""

from typing import get_args

import numpy as np
import pytest
import torch
from torch import Tensor

from hotlap.config.carracing import CarRacingConfig, Look, View
from hotlap.sim.carracing import looks
from hotlap.sim.carracing.generator import generate
from hotlap.sim.carracing.looks import KINDS, Looks, draw_colours, recolour, recolour_gray
from hotlap.sim.carracing.picture import Painter
from hotlap.tasks.batch import BatchEnv
from hotlap.tasks.bridges import carracing_frames as real
from hotlap.tasks.carracing import CarRacingTask
from hotlap.tasks.devices import has_compiler

from .test_picture import drive, state

VIEWS = get_args(View)
RNG = np.random.default_rng(0)
FRAMES = RNG.integers(0, 256, (3, 96, 96, 3), dtype=np.uint8)
KEYS = torch.arange(3) * 7919


def config(look: Look, view: View = "crop", colour: bool = False) -> CarRacingConfig:
    return CarRacingConfig(look=look, view=view, colour=colour)


def view_of(frames: np.ndarray, view: View, colour: bool = False) -> Tensor:
    """Frames as `Painter` would return them."""
    seen = torch.from_numpy(real.driver_view(frames, config("plain", view, colour)))
    return seen if colour else seen[..., 0]


def change(look: Look, pictures: Tensor, key: Tensor, view: View = "crop") -> Tensor:
    changed = Looks(config(look, view, colour=pictures.dim() == 4))
    return changed.change(pictures, key, torch.ones_like(key))


def ground() -> np.ndarray:
    """A frame of road and grass and what lies between them, as pygame's shrinking leaves it."""
    road = RNG.choice([100.0, 102.0, 105.0], (96, 96, 1)).repeat(3, -1)
    grass, light = np.array([100.0, 202.0, 100.0]), np.array([100.0, 228.0, 100.0])
    share = RNG.random((96, 96, 1))
    mixed = np.where(share < 0.5, road + 2 * share * (grass - road), grass)
    mixed = np.where(share > 0.5, grass + (2 * share - 1) * (light - grass), mixed)
    return np.round(mixed).astype(np.uint8)[None]


# --- the rules ---


def test_rules_are_those_of_the_real_frames() -> None:
    for name in ("BAR", "NOISE", "DARKEST", "LIGHTEST", "GRAYEST", "BRIGHTEST", "LEAST_CONTRAST"):
        assert getattr(looks, name) == getattr(real, name)
    assert [1000 * share for share in looks.LUMA] == list(real.LUMA)
    assert set(KINDS) == set(real.LOOKS) == set(get_args(Look)) - {"varied"}


def test_plain_is_the_picture_itself() -> None:
    seen = view_of(FRAMES, "crop")
    assert change("plain", seen, KEYS) is seen


@pytest.mark.parametrize("seed", range(4))
def test_colours_are_changed_as_in_the_real_frames(seed: int) -> None:
    frames = np.concatenate([FRAMES, ground()])
    expected = real.recoloured(frames, [seed] * 4, [0] * 4)[:, :84]
    colours = torch.tensor(real.colours_of(seed), dtype=torch.float32).expand(4, -1, -1)
    ours = recolour(torch.from_numpy(frames[:, :84]), colours)
    assert np.array_equal(ours.numpy(), expected)


@pytest.mark.parametrize("seed", range(4))
def test_gray_ground_becomes_the_gray_of_the_changed_colours(seed: int) -> None:
    frame = ground()
    expected = real.to_gray(real.recoloured(frame, [seed], [0]))[0, :84, :, 0]
    levels = torch.tensor(real.colours_of(seed) @ np.array(real.LUMA) / 1000).float()
    before = torch.from_numpy(real.to_gray(frame)[:, :84, :, 0])
    error = recolour_gray(before, levels[None])[0].numpy().astype(int) - expected
    # Shades of the road and a little grass are told apart by colour alone: between road and grass,
    # 5 levels of gray are a twelfth of the way.
    contrast = float((levels[0] - levels[1]).abs())
    assert np.abs(error).mean() < 0.03 * contrast
    assert np.abs(error).max() <= 0.2 * contrast
    assert np.abs(error[(before[0] <= 100) | (before[0] >= 160)]).max() <= 2


def test_car_and_kerbs_keep_their_gray() -> None:
    others = torch.tensor([[[0, 20, 60, 76, 93, 180, 200, 253, 255]]], dtype=torch.uint8)
    assert torch.equal(recolour_gray(others, torch.tensor([[10.0, 200.0, 210.0]])), others)


def test_colours_are_drawn_by_the_rule_of_the_real_ones() -> None:
    colours = draw_colours(torch.arange(4096))
    road, grass, _ = (colours @ torch.tensor(looks.LUMA)).unbind(1)
    assert (road - grass).abs().min() > looks.LEAST_CONTRAST - 0.01
    assert colours[:, :2].min() >= 0 and colours[:, :2].max() <= looks.BRIGHTEST
    assert torch.equal((colours[:, 2] - colours[:, 1]).sum(-1), torch.full((4096,), 20.0))
    theirs = np.stack([real.colours_of(seed) for seed in range(4096)])
    ours = colours.numpy()
    assert np.abs(ours.mean(0) - theirs.mean(0)).max() < 5
    assert np.abs(ours.std(0) - theirs.std(0)).max() < 3
    assert (road > grass).float().mean() == pytest.approx(0.5, abs=0.03)


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("colour", [False, True])
def test_bars_are_those_of_the_real_frames(view: View, colour: bool) -> None:
    # In `warp`, half of a bar's last column is that column and half the next: here they are alike.
    frames = FRAMES[:, :, :1].repeat(96, 2) if view == "warp" else FRAMES
    expected = view_of(real.bars(frames, [0] * 3, [0] * 3), view, colour).to(torch.int16)
    ours = change("bars", view_of(frames, view, colour), KEYS, view).to(torch.int16)
    assert (ours - expected).abs().max() <= (view == "warp")  # it is rounded twice


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("colour", [False, True])
def test_noise_is_as_strong_as_in_the_real_frames(view: View, colour: bool) -> None:
    flat = np.full((3, 96, 96, 3), 128, np.uint8)
    theirs = view_of(real.noise(flat, [1, 2, 3], [0] * 3), view, colour).float() - 128
    ours = change("noise", view_of(flat, view, colour), KEYS, view).float() - 128
    assert ours.std() == pytest.approx(float(theirs.std()), rel=0.02)
    assert abs(float(ours.mean())) < 0.2


def test_noise_differs_by_episode_and_frame_and_by_nothing_else() -> None:
    noisy, flat = Looks(config("noise")), torch.full((4, 84, 84), 128, dtype=torch.uint8)
    key, frame = torch.tensor([1, 1, 2, 1]), torch.tensor([5, 6, 5, 5])
    first, later, other, again = noisy.change(flat, key, frame)
    assert torch.equal(first, again)
    assert not torch.equal(first, later) and not torch.equal(first, other)


def test_the_panel_keeps_its_colours() -> None:
    seen = view_of(FRAMES, "full")
    changed = change("recoloured", seen, KEYS, "full")
    assert torch.equal(changed[:, 84:], seen[:, 84:])
    assert not torch.equal(changed[:, :84], seen[:, :84])


# --- varied episodes ---


@pytest.mark.parametrize("colour", [False, True])
def test_a_varied_episode_has_one_of_the_looks(colour: bool) -> None:
    key = torch.arange(64)
    seen = view_of(FRAMES[:1], "crop", colour).expand(64, *[-1] * (3 if colour else 2))
    changed = change("varied", seen.clone(), key)
    kind = Looks(config("varied")).kind(key)
    assert set(kind.tolist()) == {0, 1, 2, 3}
    for number, look in enumerate(KINDS):
        mine = kind == number
        assert torch.equal(changed[mine], change(look, seen.clone(), key)[mine])  # type: ignore[arg-type]


def test_the_looks_of_varied_episodes_are_equally_many() -> None:
    counts = torch.bincount(Looks(config("varied")).kind(torch.arange(4000)))
    assert (counts - 1000).abs().max() < 100


def test_a_batch_is_its_members_one_by_one() -> None:
    key = torch.arange(20)
    seen = view_of(FRAMES[:1], "crop").expand(20, -1, -1).contiguous()
    whole = change("varied", seen.clone(), key)
    alone = [change("varied", seen[i : i + 1].clone(), key[i : i + 1]) for i in range(20)]
    assert torch.equal(whole, torch.cat(alone))


@pytest.mark.slow
@pytest.mark.skipif(not has_compiler(), reason="no compiler")
def test_compiled_looks_are_the_same() -> None:
    key, seen = torch.arange(20), view_of(FRAMES[:1], "crop").expand(20, -1, -1).contiguous()
    fast = Looks(config("recoloured"), compiled=True)  # compiling all of them takes a minute
    frame = torch.ones_like(key)
    assert torch.equal(fast.change(seen, key, frame), change("recoloured", seen, key))


# --- in the task ---


def test_every_episode_of_the_task_has_its_own_colours() -> None:
    settings = CarRacingConfig(
        tracks=("carracing:3",), look="recoloured", start="random", max_frames=2
    )
    batch = BatchEnv(CarRacingTask(settings), 2)
    first = batch.reset()
    still = batch.step(torch.zeros(2, 2)).observation
    second = batch.step(torch.zeros(2, 2)).observation  # of the next episodes
    assert torch.equal(still, first)
    grass = {int(seen.flatten().median()) for seen in (*first, *second)}
    assert len(grass) == 4


@pytest.mark.slow
@pytest.mark.parametrize(("look", "most"), [("plain", 0.7), ("recoloured", 1.0), ("bars", 0.7)])
def test_drives_look_like_the_real_ones(look: Look, most: float) -> None:
    """Mean error in gray levels, same drive and same colours."""
    pytest.importorskip("Box2D")
    rows, frames = drive(3, 160)
    rows, frames = rows[55:], frames[55:]
    seen = Painter(generate([3]), config("plain")).draw(**state(rows))
    errors = []
    for seed in range(4):
        changed = real.LOOKS[look](frames, [seed] * len(rows), list(range(len(rows))))
        if look == "recoloured":
            levels = torch.tensor(real.colours_of(seed) @ np.array(real.LUMA) / 1000).float()
            ours = recolour_gray(seen, levels.expand(len(rows), -1))
        else:
            ours = change(look, seen, torch.zeros(len(rows), dtype=torch.int64))
        expected = view_of(changed, "crop")
        errors.append(float((ours.float() - expected.float()).abs().mean()))
    assert max(errors) < most
