"""Vehicle settings: impossible ones fail, unknown names help."""

from __future__ import annotations

import dataclasses

import pytest

from hotlap.config.vehicles import VEHICLES, VehicleConfig, find_vehicle


def test_every_preset_is_found_by_its_name() -> None:
    assert set(VEHICLES) == {"donkey", "f1tenth", "trackmania", "carracing", "turtlebot"}
    assert all(find_vehicle(name) is VEHICLES[name] for name in VEHICLES)


def test_an_unknown_name_is_answered_with_the_nearest_and_the_rest() -> None:
    with pytest.raises(KeyError, match=r"did you mean 'donkey'\? available: carracing, donkey"):
        find_vehicle("donkye")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("model", "hovercraft"),
        ("mass", 0.0),
        ("mu", -1.0),
        ("drag", -0.1),
        ("slide_grip", 1.5),
        ("slide_slip", 1.0),
        ("substeps", 0),
        ("engine_knots", ((1.0, 1.0, 0.0),)),
        ("engine_knots", ((1.0, 1.0, 0.0), (0.5, 0.5, 0.0))),
    ],
)
def test_an_impossible_value_fails_and_names_its_field(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=field):
        dataclasses.replace(VehicleConfig(), **{field: value})


def test_a_delay_longer_than_its_queue_fails() -> None:
    with pytest.raises(ValueError, match="raise max_delay_steps"):
        VehicleConfig(actuation_delay=0.1, max_delay_steps=1)  # 0.1 s is 2 steps of 0.05 s


def test_the_donkey_wheelbase_is_1_602_units() -> None:
    assert find_vehicle("donkey").wheelbase == pytest.approx(1.602 * 0.125, abs=2e-4)
