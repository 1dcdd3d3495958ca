"""Randomisation by the name of its strength."""

import tomllib
from dataclasses import fields, replace

import pytest

from hotlap.config.presets import SHIPPED, load_preset
from hotlap.config.randomisation import RandomisationConfig
from hotlap.config.strengths import PARTS, find_randomisation, name_of, weakened
from hotlap.config.tasks import DonkeyConfig, TagConfig
from hotlap.config.training import TrainConfig

KNOWN = {"donkey": (DonkeyConfig, {}), "tag": (TagConfig, {})}


def test_full_is_what_the_preset_has_and_none_is_nothing() -> None:
    table = tomllib.loads((SHIPPED / "donkey" / "randomised.toml").read_text())["randomise"]
    full = find_randomisation("full")
    assert full == load_preset(DonkeyConfig, "donkey/randomised").randomise
    assert full.friction == tuple(table["friction"]) and full.delay == tuple(table["delay"])
    assert find_randomisation("none") == RandomisationConfig()


def test_light_reaches_half_as_far_in_everything() -> None:
    light, full = find_randomisation("light"), find_randomisation("full")
    assert light.friction == pytest.approx((0.9, 1.1)) and light.noise == (0.0, 4.0)
    assert light.colour == pytest.approx(0.04) and light.delay == (0, 1)
    assert light.looks == full.looks
    assert all(isinstance(step, int) for step in light.delay)
    usual = RandomisationConfig()
    assert light.share == full.share == 1.0
    for field in fields(full):
        if field.name in ("share", "styles", "paint"):
            continue
        assert getattr(light, field.name) != getattr(usual, field.name), field.name


def test_all_of_a_strength_is_the_strength_and_none_of_it_nothing() -> None:
    full = find_randomisation("full")
    assert weakened(full, 1.0) == full
    assert weakened(replace(full, share=0.25), 0.5).share == 0.25  # as many episodes differ
    assert weakened(RandomisationConfig(), 0.5) == RandomisationConfig()


@pytest.mark.parametrize("name", ["none", "light", "full", "delay", "looks,friction,delay"])
def test_ranges_are_called_by_their_name(name: str) -> None:
    ranges = find_randomisation(name)
    assert name_of(ranges) == name_of(replace(ranges, paint=7)) == name


def test_ranges_of_ones_own_have_no_name_and_wrong_names_no_ranges() -> None:
    assert name_of(RandomisationConfig(friction=(0.9, 1.0))) == "own ranges"
    for name in ("fulll", "looks,frction", "looks,none", ""):
        with pytest.raises(ValueError, match="randomisation"):
            find_randomisation(name)


def test_parts_make_up_the_whole_and_are_as_wide_as_in_it() -> None:
    full, usual = find_randomisation("full"), RandomisationConfig()
    assert find_randomisation(",".join(PARTS)) == full
    some = find_randomisation("looks,friction,delay")
    assert (some.light, some.looks, some.delay) == (full.light, full.looks, full.delay)
    assert (some.noise, some.camera_up, some.mass) == (usual.noise, usual.camera_up, usual.mass)


def test_a_training_is_randomised_as_asked_and_else_as_its_preset_is() -> None:
    def randomise(**words: str) -> RandomisationConfig:
        settings = TrainConfig(**words).settle("cpu", False, KNOWN).settings  # type: ignore[arg-type]
        assert isinstance(settings, DonkeyConfig)
        return settings.randomise

    full = find_randomisation("full")
    assert randomise() == RandomisationConfig()
    assert randomise(randomise="full") == full
    assert randomise(preset="donkey/randomised") == full
    assert randomise(preset="donkey/randomised", randomise="none") == RandomisationConfig()


def test_a_simulator_over_the_wire_is_not_randomised() -> None:
    with pytest.raises(ValueError, match="--randomise is for worlds in this process"):
        TrainConfig(randomise="full", host="127.0.0.1").settle("cpu", False, KNOWN)


@pytest.mark.parametrize("task", ["tag", "CartPole-v1"])
def test_what_has_no_looks_is_not_randomised(task: str) -> None:
    with pytest.raises(ValueError, match="--randomise is for"):
        TrainConfig(task=task, randomise="full").settle("cpu", False, KNOWN)
