"""The kinematic and the dynamic car against answers worked out by hand."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch
from torch import Tensor

from hotlap.config.vehicles import VehicleConfig, find_vehicle
from hotlap.sim.vehicles.dynamic import tyre_curve
from hotlap.sim.vehicles.limits import min_radius
from hotlap.sim.vehicles.model import advance, vehicle_params

from .rollout import column, drive, random_command, random_state, start

DONKEY = find_vehicle("donkey")
# Speeds in m/s by throttle after 1, 2, 3, 5 s and in the end: the no-slip estimate of sdsandbox.
DONKEY_TABLE = {
    0.1: (0.24, 0.43, 0.58, 0.82, 1.3),
    0.2: (0.47, 0.86, 1.17, 1.63, 2.4),
    0.3: (0.71, 1.28, 1.75, 2.41, 3.3),
    0.5: (1.18, 2.13, 2.86, 3.71, 4.2),
    1.0: (2.34, 3.93, 4.67, 5.28, 6.4),
}


def as_model(config: VehicleConfig, model: str) -> VehicleConfig:
    return dataclasses.replace(config, model=model)


@pytest.mark.parametrize("model", ["kinematic", "dynamic"])
def test_the_donkey_car_reaches_the_speeds_of_its_table(model: str) -> None:
    config = as_model(DONKEY, model)
    throttle = column(list(DONKEY_TABLE))
    state, now = start(config, batch=len(DONKEY_TABLE)), 0
    for row, second in enumerate((1, 2, 3, 5, 25)):
        state = drive(config, state, (second - now) * 20, throttle=throttle)
        now = second
        expected = [speeds[row] for speeds in DONKEY_TABLE.values()]
        # The table has two digits: 0.24 is 2 % wide by itself.
        assert state["vx"].flatten().tolist() == pytest.approx(expected, rel=0.03)


@pytest.mark.parametrize("model", ["kinematic", "dynamic"])
def test_a_constant_force_gives_f_over_m(model: str) -> None:
    config = VehicleConfig(model=model, mass=2.0, engine_force=6.0, mu=1.0)
    state = drive(config, start(config), 20, throttle=1.0)
    assert state["vx"].item() == pytest.approx(3.0, rel=1e-4)  # 6 N / 2 kg * 1 s
    assert state["ax"].item() == pytest.approx(3.0, rel=1e-4)
    assert state["x"].item() == pytest.approx(1.5, rel=0.02)  # 3 * 1^2 / 2


@pytest.mark.parametrize("model", ["kinematic", "dynamic"])
def test_a_slope_adds_g_sin(model: str) -> None:
    config = VehicleConfig(model=model)
    state = drive(config, start(config, speed=5.0), 20, slope=0.1)
    assert state["vx"].item() == pytest.approx(5.0 - 0.981, rel=1e-4)


@pytest.mark.parametrize("model", ["kinematic", "dynamic"])
def test_brakes_stop_the_car_and_leave_it_standing(model: str) -> None:
    config = as_model(DONKEY, model)
    rolling = drive(config, start(config, speed=1.0), 4, brake=1.0)
    # 156.25 / 60 = 2.604 m/s2 for 0.2 s, and drag of about 0.2/s
    assert rolling["vx"].item() == pytest.approx(1.0 - 0.521 - 0.2 * 0.2 * 0.74, abs=0.02)
    stopped = drive(config, rolling, 40, brake=1.0)
    assert abs(stopped["vx"].item()) < 1e-3


@pytest.mark.parametrize("model", ["kinematic", "dynamic"])
@pytest.mark.parametrize("steer", [0.3, -1.0])
def test_a_slow_turn_has_the_radius_l_over_tan_delta(model: str, steer: float) -> None:
    config = dataclasses.replace(as_model(DONKEY, model), wheel_damping=0.0, drag=0.0, yaw_drag=0.0)
    state = drive(config, start(config, speed=0.3), 20, steer=steer)
    radius = state["vx"] / state["yaw_rate"]  # of the rear axle, which moves along the body
    expected = config.wheelbase / math.tan(steer * config.max_steer)
    assert radius.item() == pytest.approx(expected, rel=0.01)
    assert min_radius(DONKEY) == pytest.approx(5.59 * 0.125, rel=0.002)


@pytest.mark.parametrize("model", ["kinematic", "dynamic"])
def test_above_sqrt_mu_g_r_the_car_slides_out_and_below_it_does_not(model: str) -> None:
    config = dataclasses.replace(as_model(DONKEY, model), wheel_damping=0.0, drag=0.0, yaw_drag=0.0)
    radius = 2.0
    fastest = math.sqrt(config.mu * config.gravity * radius)  # 3.13 m/s
    speeds = column([0.8 * fastest, 1.2 * fastest])
    state = start(config, speed=speeds.flatten().tolist())
    widest = torch.zeros(2, 1)
    for _ in range(40):  # aim for the circle around (0, 2) by feedback on the distance to it
        gap = torch.hypot(state["x"], state["y"] - radius) - radius
        widest = torch.maximum(widest, gap)
        tangent = torch.atan2(state["x"], radius - state["y"])
        turned = torch.remainder(state["heading"] - tangent + math.pi, 2 * math.pi) - math.pi
        wheel = math.atan(config.wheelbase / radius) + 1.0 * gap - 0.8 * turned
        push = 2.0 * (speeds - torch.hypot(state["vx"], state["vy"]))
        state = drive(config, state, 1, steer=wheel / config.max_steer, throttle=push)
    assert widest[0].item() < 0.25
    assert widest[1].item() > 0.5


@pytest.mark.parametrize("name", ["donkey", "f1tenth", "trackmania"])
@pytest.mark.parametrize("model", ["kinematic", "dynamic"])
def test_tyres_never_give_more_than_mu_g(name: str, model: str) -> None:
    config = dataclasses.replace(as_model(find_vehicle(name), model), drag=0.0, air_drag=0.0)
    batch = 10_000
    state = random_state(config, batch, fastest=10.0)
    command = random_command(config, batch)
    grip = torch.rand(batch, 1, generator=torch.Generator().manual_seed(1))
    params = vehicle_params(config, batch)
    zero = torch.zeros(batch, 1)
    for _ in range(3):
        state = advance(config, state, command, params, grip, zero, config.physics_dt, 1)
        size = torch.hypot(state["ax"], state["ay"])
        assert (size <= config.mu * config.gravity * grip * (1 + 1e-5) + 1e-5).all()


def energy(config: VehicleConfig, state: dict[str, Tensor]) -> Tensor:
    if config.model == "kinematic":  # yaw follows from speed, so speed is all there is
        return state["vx"] ** 2
    body = config.mass * (state["vx"] ** 2 + state["vy"] ** 2)
    return body + config.yaw_inertia * state["yaw_rate"] ** 2


@pytest.mark.parametrize("name", ["donkey", "f1tenth", "trackmania"])
@pytest.mark.parametrize("model", ["kinematic", "dynamic"])
def test_without_throttle_energy_never_grows(name: str, model: str) -> None:
    config = as_model(find_vehicle(name), model)
    batch = 2_000
    state = random_state(config, batch, fastest=10.0, seed=3)
    params = vehicle_params(config, batch)
    zero = torch.zeros(batch, 1)
    before = energy(config, state)
    for step in range(60):
        command = random_command(config, batch, seed=step)
        command[..., 1] = 0.0
        state = advance(config, state, command, params, zero + 1, zero, config.physics_dt, 1)
        after = energy(config, state)
        assert (after <= before * (1 + 1e-5) + 1e-6 * config.mass).all(), step
        before = after


def test_nothing_jumps_between_standstill_and_one_metre_per_second() -> None:
    speeds = torch.linspace(-0.2, 1.0, 601)
    state = start(DONKEY, speed=speeds.tolist())
    state |= {"steer": torch.full_like(state["x"], 0.2), "yaw_rate": state["vx"]}
    moved = drive(DONKEY, state, 1, steer=0.7, throttle=0.3)
    for key in ("vx", "vy", "yaw_rate", "ax", "ay"):
        value = moved[key].flatten()
        assert torch.isfinite(value).all()
        slope = value.diff() / 0.002
        # A jump would show as a slope that grows as the grid gets finer.
        assert slope.abs().max() < 60.0, key
        assert slope.diff().abs().max() < 3.0, key


def test_a_parked_car_stays_parked() -> None:
    state = drive(DONKEY, start(DONKEY), 50, steer=1.0)
    for key in ("x", "y", "heading", "vx", "vy", "yaw_rate", "ax", "ay"):
        assert state[key].item() == 0.0, key


def test_the_tyre_peaks_at_one_and_slides_at_its_asymptote() -> None:
    slip = torch.tensor([-9.0, -1.0, 0.0, 0.01, 0.5, 1.0, 1.75, 2.5, 9.0])
    force = tyre_curve(DONKEY, slip, torch.ones_like(slip))
    # 0.5 + 0.25 - 0.125 on the way up; half way between 1 and 0.75 on the way down
    expected = [-0.75, -1.0, 0.0, 0.0101, 0.625, 1.0, 0.875, 0.75, 0.75]
    assert force.tolist() == pytest.approx(expected, abs=1e-4)


def test_braking_moves_grip_to_the_front_axle() -> None:
    config = find_vehicle("f1tenth")
    state = drive(config, start(config, speed=6.0), 8, brake=1.0)
    assert state["ax"].item() == pytest.approx(-9.51, rel=0.02)  # a_max, with its load transfer
    state = drive(config, start(config, speed=1.0), 8, throttle=1.0)
    assert state["ax"].item() == pytest.approx(9.51, rel=0.02)
