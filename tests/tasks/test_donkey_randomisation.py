"""Each range changes what it says and nothing else."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from hotlap.config.randomisation import RandomisationConfig
from hotlap.config.sensors import CameraConfig
from hotlap.config.tasks import DonkeyConfig
from hotlap.tasks.batch import BatchEnv
from hotlap.tasks.donkey import DonkeyTask

WHO = torch.arange(64)
SMALL = CameraConfig(width=32, height=24)


def task_with(sensor: str = "camera", **ranges: Any) -> DonkeyTask:
    config = DonkeyConfig(
        sensor=sensor,  # type: ignore[arg-type]
        camera=SMALL,
        randomise=RandomisationConfig(**ranges),
    )
    return DonkeyTask(config)


def flat(tree: Any, path: str = "") -> dict[str, Tensor]:
    if not isinstance(tree, dict):
        return {path: tree}
    return {k: v for key, branch in tree.items() for k, v in flat(branch, f"{path}/{key}").items()}


def beginning(task: DonkeyTask, seed: int = 5, episode: int = 0) -> dict[str, Tensor]:
    return flat(task.begin(seed, WHO, torch.full_like(WHO, episode)))


@pytest.fixture(scope="module")
def nominal() -> dict[str, Tensor]:
    return beginning(task_with())


@pytest.mark.parametrize(
    ("setting", "limits", "leaf"),
    [
        ("friction", (0.5, 0.9), "/params/mu"),
        ("mass", (0.8, 1.2), "/params/mass"),
        ("engine", (0.8, 1.2), "/params/engine"),
        ("camera_up", (0.9, 1.1), "/camera/up"),
        ("camera_zoom", (0.9, 1.1), "/camera/zoom"),
    ],
)
def test_a_factor_multiplies_its_own_value_alone(
    setting: str, limits: tuple[float, float], leaf: str, nominal: dict[str, Tensor]
) -> None:
    drawn = beginning(task_with(**{setting: limits}))
    factor = drawn[leaf] / nominal[leaf]
    check_spread(factor, limits)
    assert changed(drawn, nominal) == {leaf}


@pytest.mark.parametrize(
    ("setting", "limits", "leaf", "scale"),
    [
        ("steering_offset", (-2.0, 2.0), "/params/steer_offset", torch.pi / 180),
        ("steering_lag", (0.0, 0.2), "/params/steer_lag", 1.0),
        ("camera_pitch", (-3.0, 3.0), "/camera/pitch", torch.pi / 180),
        ("camera_yaw", (1.0, 4.0), "/camera/yaw", torch.pi / 180),
        ("noise", (0.0, 8.0), "/camera/noise", 1.0),
        ("blur", (0.2, 0.8), "/camera/blur", 1.0),
    ],
)
def test_an_offset_is_added_to_its_own_value_alone(
    setting: str, limits: tuple[float, float], leaf: str, scale: float, nominal: dict[str, Tensor]
) -> None:
    drawn = beginning(task_with(**{setting: limits}))
    check_spread((drawn[leaf] - nominal[leaf]) / scale, limits)
    assert changed(drawn, nominal) == {leaf}


def test_delays_are_whole_steps_and_both_ends_occur(nominal: dict[str, Tensor]) -> None:
    drawn = beginning(task_with(delay=(1, 3)))
    extra = drawn["/params/delay_steps"] - nominal["/params/delay_steps"]
    assert extra.unique().tolist() == [1.0, 2.0, 3.0]
    assert changed(drawn, nominal) == {"/params/delay_steps"}


def test_looks_are_drawn_and_change_nothing_but_the_picture(nominal: dict[str, Tensor]) -> None:
    task = task_with(looks=4, light=(0.5, 1.5), colour=0.1, texture=(0.5, 2.0))
    drawn = beginning(task)
    assert drawn["/camera/look"].unique().tolist() == [0, 1, 2, 3]
    assert changed(drawn, nominal) == {"/camera/look"}
    seen = task.present(task.observe(task.begin(5, WHO, torch.zeros_like(WHO))))
    first = {int(look): int(i) for i, look in enumerate(drawn["/camera/look"])}
    pictures = [seen[i].float().mean() for i in first.values()]
    assert len({round(float(mean), 2) for mean in pictures}) == 4


@pytest.mark.parametrize("setting", ["camera_up", "camera_pitch", "camera_yaw", "camera_zoom"])
def test_a_mounting_changes_the_picture(setting: str) -> None:
    limits = {"camera_up": (1.3, 1.3), "camera_zoom": (0.8, 0.8)}.get(setting, (5.0, 5.0))
    plain, moved = task_with(), task_with(**{setting: limits})
    pictures = [
        task.present(task.observe(task.begin(5, WHO[:1], WHO[:1]))).float()
        for task in (plain, moved)
    ]
    assert float((pictures[0] - pictures[1]).abs().mean()) > 1.0


def test_ranges_of_zero_width_change_nothing(nominal: dict[str, Tensor]) -> None:
    stated = {name: value for name, value in vars(RandomisationConfig()).items()}
    assert changed(beginning(task_with(**stated)), nominal) == set()
    assert all(len(leaf.unique()) == 1 for name, leaf in nominal.items() if "/params" in name)


def test_draws_follow_seed_identity_and_episode() -> None:
    task = task_with(friction=(0.8, 1.2), mass=(0.9, 1.1), camera_up=(0.9, 1.1), looks=3)
    one = beginning(task, seed=1, episode=4)
    assert changed(beginning(task, seed=1, episode=4), one) == set()
    for other in (beginning(task, seed=2, episode=4), beginning(task, seed=1, episode=5)):
        assert {"/params/mu", "/params/mass", "/camera/up"} <= changed(other, one)
    some = flat(task.begin(1, WHO[20:23], torch.full((3,), 4)))
    drawn = [name for name in one if "/params" in name or "/camera" in name or name == "/key"]
    assert all(torch.equal(some[name], one[name][20:23]) for name in drawn)


def driven(**ranges: Any) -> dict[str, Tensor]:
    """A car after a second of full throttle, straight ahead."""
    batch = BatchEnv(task_with("telemetry", **ranges), 1)
    batch.reset()
    for _ in range(20):
        batch.step(torch.tensor([[0.0, 1.0]]))
    return batch.world["car"]


def test_what_is_varied_is_felt() -> None:
    usual = driven()
    assert driven(engine=(0.7, 0.7))["vx"] < usual["vx"] - 0.1
    assert driven(mass=(1.3, 1.3))["vx"] < usual["vx"] - 0.1
    assert driven(friction=(0.2, 0.2))["vx"] < usual["vx"] - 0.1
    assert driven(delay=(3, 3))["vx"] < usual["vx"] - 0.1
    to_the_left = driven(steering_offset=(2.0, 2.0))["heading"] - usual["heading"]
    assert to_the_left > 0.05


def check_spread(values: Tensor, limits: tuple[float, float]) -> None:
    """Between the limits, and all over between them."""
    low, high = limits
    share = (values - low) / (high - low)
    assert float(share.min()) >= -1e-4 and float(share.max()) <= 1 + 1e-4
    assert float(share.min()) < 0.15 and float(share.max()) > 0.85


def changed(one: dict[str, Tensor], other: dict[str, Tensor]) -> set[str]:
    return {name for name in one if not torch.equal(one[name], other[name])}


def test_ranges_beyond_what_can_be_simulated_are_refused() -> None:
    with pytest.raises(ValueError, match="delay of 9 control steps"):
        task_with(delay=(0, 9))
    with pytest.raises(ValueError, match="noise must not exceed"):
        task_with(noise=(0.0, 80.0))


ALL: dict[str, Any] = {
    "friction": (0.8, 0.9), "mass": (1.1, 1.2), "engine": (0.8, 0.9), "steering_offset": (1, 2),
    "steering_lag": (0.1, 0.2), "delay": (1, 2), "camera_up": (1.1, 1.2), "camera_pitch": (1, 2),
    "camera_yaw": (1, 2), "camera_zoom": (0.8, 0.9), "noise": (1, 2), "blur": (0.1, 0.2),
    "looks": 8,
}  # fmt: skip
"""Ranges that leave nothing as it is by itself, but for one look in eight."""


def test_a_share_of_the_episodes_differs_and_the_others_not_at_all(
    nominal: dict[str, Tensor],
) -> None:
    some, every = beginning(task_with(**ALL, share=0.5)), beginning(task_with(**ALL))
    differs = some["/params/mu"] != nominal["/params/mu"]
    differs = differs.flatten()
    assert 20 <= int(differs.sum()) <= 44
    names = changed(every, nominal)
    assert len(names) == 13
    for name in names:
        assert torch.equal(some[name][differs], every[name][differs]), name
        assert torch.equal(some[name][~differs], nominal[name][~differs]), name


def test_none_and_all_of_the_episodes(nominal: dict[str, Tensor]) -> None:
    assert changed(beginning(task_with(**ALL, share=0.0)), nominal) == set()
    every = beginning(task_with(**ALL))
    assert changed(beginning(task_with(**ALL, share=1.0)), every) == set()
    with pytest.raises(ValueError, match="share must lie between 0 and 1"):
        task_with(share=1.5)


def test_any_style_paints_tracks_as_others_are_painted() -> None:
    """Half of the randomised episodes, where asked for; all others keep their track's own."""
    ranges = RandomisationConfig(looks=2, styles=True, share=0.5, colour=0.05)
    config = DonkeyConfig(("generated_track", "waveshare"), camera=SMALL, randomise=ranges)
    who = torch.arange(400)

    def worn(task: DonkeyTask) -> tuple[Tensor, Tensor]:
        """Looks, and those of the tracks' own style as designed."""
        assert task.camera is not None
        state = task.begin(3, who, torch.zeros_like(who))
        return state["camera"]["look"], task.camera.first_look[state["road"].squeeze(-1)]

    task = DonkeyTask(config)
    assert task.camera is not None
    assert set(task.camera.looks.styles) == {"road", "circuit", "dirt", "warehouse", "floor"}
    look, own = worn(task)
    assert len(look.unique()) == 10, "all looks of all styles are worn"
    # Half are not randomised; of the others half keep their style, and a fifth of the rest have it
    # by chance. Of the two looks of a style, one is the plain one.
    styled = (look == own) | (look == own + 1)
    assert 0.74 < float(styled.float().mean()) < 0.86
    assert 0.58 < float((look == own).float().mean()) < 0.72
    look, own = worn(DonkeyTask(replace(config, randomise=replace(ranges, styles=False))))
    assert ((look == own) | (look == own + 1)).all() and len(look.unique()) == 4
