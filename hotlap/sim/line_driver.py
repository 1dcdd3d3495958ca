"""A driver that follows a racing line.

B environments, N cars. All tensors (B, N) unless noted.
    ahead     the line where the car will be half a control step from now
    course    direction of travel relative to the reference line, rad
    slip      slip angle of the rear tyres over that of their largest force
    push      acceleration that the tyres give along the wheels, m/s^2

Steering is the wheel angle that holds the line's curvature, turned by errors of offset, course and yaw
rate; throttle and brake invert the engine for the line's acceleration, turned by the error of speed.
It reads the true state: a reference to measure others against, and a teacher.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from hotlap.config.vehicles import VehicleConfig
from hotlap.sim.racing_line import RacingLine
from hotlap.sim.roads import Place, Roads
from hotlap.sim.speed_profile import slip_of_force
from hotlap.sim.vehicles.drive import engine_share

_SLIPS = 256  # entries of the table from side force to slip


@dataclass(frozen=True)
class LineDriverConfig:
    """How hard the driver holds the line."""

    speed_share: float = 0.98
    """Share of the line's speed to drive at: what is left is room for steering corrections."""
    quickness: float = 6.0
    """Natural frequency with which offsets from the line are taken out, rad/s."""
    damping: float = 0.9
    """Damping ratio of that motion."""
    slip_gain: float = 6.0
    """How fast the body's slip angle is brought to that of the line, 1/s."""
    yaw_gain: float = 14.0
    """How fast the yaw rate is brought to the one wanted, 1/s."""
    lead: float = 0.08
    """How far ahead the line's slip angle is read, s: the body takes that long to turn."""
    speed_gain: float = 4.0
    """Acceleration per error of the speed, 1/s."""
    delay: float = 0.025
    """How far ahead of the car the line is read, s: half a control step, as commands are held."""


@dataclass(frozen=True)
class Lines:
    """Racing lines of several roads in one table."""

    table: Tensor
    """n, course, curvature, speed, acceleration, slip angle rate by sample (P, 5)."""
    first: Tensor
    """Row of each line's sample 0 (T,) int64."""
    count: Tensor
    """Samples of each line (T,) int64."""
    spacing: Tensor
    """Distance between samples along the reference line (T,)."""


def lay_lines(roads: Roads, lines: Sequence[RacingLine]) -> Lines:
    """Tables of `lines`, one for each track of `roads`, with the first sample repeated at the end."""
    if len(lines) != len(roads.tracks):
        raise ValueError(f"{len(roads.tracks)} tracks need as many lines, got {len(lines)}")
    tables = []
    for line, track in zip(lines, roads.tracks, strict=True):
        columns = np.column_stack([line.n, line.heading_error, line.curvature, line.speed])
        acceleration = _acceleration(line, track.closed)
        table = np.column_stack([columns, acceleration])
        tables.append(np.vstack([table, table[:1] if track.closed else table[-1:]]))
    counts = [len(table) - 1 for table in tables]
    first = np.cumsum([0] + [len(table) for table in tables[:-1]])
    device = roads.device
    return Lines(
        table=torch.as_tensor(np.concatenate(tables), dtype=torch.float32, device=device),
        first=torch.as_tensor(first, device=device),
        count=torch.as_tensor(counts, device=device),
        spacing=torch.tensor([float(line.s[1] - line.s[0]) for line in lines], device=device),
    )


def _acceleration(line: RacingLine, closed: bool) -> np.ndarray:
    """Acceleration along the line by sample: change of v^2/2 over path length."""
    step = line.s[1] - line.s[0]
    energy = line.speed**2 / 2
    slope = np.gradient(np.concatenate([energy[-2:], energy, energy[:2]]), step)[2:-2]
    return slope if closed else np.gradient(energy, step)


def read_line(lines: Lines, roads: Roads, road: Tensor, s: Tensor) -> tuple[Tensor, ...]:
    """n, course, curvature, speed and acceleration of the line at `s`."""
    count = lines.count[road]
    along = s / lines.spacing[road]
    along = torch.where(
        roads.closed[road], torch.remainder(along, count), torch.minimum(along.clamp(min=0), count - 1.0)
    )
    node = torch.minimum(along.to(torch.int64), count - 1)
    row = (lines.first[road] + node).reshape(-1)
    here, ahead = lines.table.index_select(0, row), lines.table.index_select(0, row + 1)
    mixed = torch.lerp(here, ahead, (along - node).reshape(-1, 1))
    return tuple(mixed.view(*s.shape, 5).unbind(-1))


class LineDriver:
    """Drives cars of one vehicle along the lines of their roads."""

    def __init__(
        self,
        vehicle: VehicleConfig,
        roads: Roads,
        lines: Sequence[RacingLine],
        config: LineDriverConfig | None = None,
    ) -> None:
        self.vehicle = vehicle
        self.roads = roads
        self.lines = lay_lines(roads, lines)
        self.config = config or LineDriverConfig()
        table = slip_of_force(np.linspace(0.0, 1.0, _SLIPS + 1))
        self._slips = torch.as_tensor(table, dtype=torch.float32, device=roads.device)

    def command(self, road: Tensor, place: Place, state: dict[str, Tensor]) -> Tensor:
        """Steer, throttle and brake (B, N, 3) for cars at `place` on `road`."""
        car, config = self.vehicle, self.config
        vx, vy, r = state["vx"], state["vy"], state["yaw_rate"]
        v = torch.hypot(vx, vy).clamp(min=0.3)
        beta = torch.atan2(vy, vx.clamp(min=0.3))
        course = place.heading_error + beta
        # Where the car is heading within the delay, at its present course and curvature.
        gone = v * config.delay
        stretch = (1 - place.n * place.curvature).clamp(min=0.2)
        s = place.s + gone * torch.cos(course) / stretch
        n = place.n + gone * torch.sin(course)
        turn = r * config.delay - place.curvature * (s - place.s)
        line_n, line_course, bend, line_speed, line_gain = read_line(self.lines, self.roads, road, s)

        pull = config.quickness / v
        wanted = bend - pull * pull * (n - line_n)
        wanted = wanted - 2 * config.damping * pull * torch.sin(course + turn - line_course)
        grip = car.mu * car.gravity * place.grip
        share = config.speed_share
        gain = share * share * line_gain + config.speed_gain * (share * line_speed - v)
        push = self._push(gain, v, bend, grip, place)
        throttle, brake = self._pedals(push, v)

        circle = torch.sqrt((grip * grip - (1.1 * push) ** 2).clamp(min=0.01 * grip * grip))
        side = torch.minimum(torch.maximum(v * v * wanted, -0.98 * circle), 0.98 * circle)
        _, _, next_bend, next_speed, _ = read_line(
            self.lines, self.roads, road, s + v * config.lead / stretch
        )
        tilt = 1.0 if car.model != "dynamic" else torch.sqrt(1 + (car.blend_speed / v) ** 2)
        next_side = (share * next_speed) ** 2 * next_bend
        rear = car.peak_slip_rear * tilt * self._slip(next_side / circle)
        beta_line = car.lr * next_bend - rear
        beta_soon = beta + config.delay * (side / v - r)
        yaw = side / v + config.slip_gain * (beta_soon - beta_line)
        turning = config.yaw_gain * (yaw - r)
        # Side force of the front axle: its share of the side, and what turns the body.
        front = side * (car.lr / car.wheelbase) + turning * car.yaw_inertia / (car.mass * car.wheelbase)
        used = front / (circle * (car.lr / car.wheelbase))
        steer = torch.atan(torch.tan(beta) + car.lf * r / v)
        steer = steer + car.peak_slip_front * tilt * self._slip(used)
        return torch.stack([(steer / car.full_steer).clamp(-1, 1), throttle, brake], dim=-1)

    def _slip(self, used: Tensor) -> Tensor:
        """Slip that gives a share of the largest side force."""
        index = (used.abs().clamp(max=0.99) * _SLIPS).to(torch.int64)
        return torch.copysign(self._slips[index], used)

    def _push(self, gain: Tensor, v: Tensor, bend: Tensor, grip: Tensor, place: Place) -> Tensor:
        """Push that gives `gain` along the path, against drag, hill and the tilt of the tyres."""
        car = self.vehicle
        side = v * v * bend
        used = (side.abs() / grip).clamp(max=1.0)
        slip = self._slip(used)
        peak = 0.5 * (car.peak_slip_front + car.peak_slip_rear) if car.model == "dynamic" else 0.0
        inverse = 1.0 / (car.mass + car.wheel_mass)
        slope = place.climb * torch.rsqrt(1 + place.climb**2) * torch.cos(place.heading_error)
        push = gain + side.abs() * torch.tan(peak * slip) + car.gravity * slope
        push = push + car.drag * car.mass * inverse * v + car.air_drag / car.mass * v * v
        free = grip * torch.sqrt((1 - used * used).clamp(min=0.04))
        return torch.minimum(torch.maximum(push, -free), free)

    def _pedals(self, push: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Throttle and brake that give `push`."""
        car = self.vehicle
        inverse = 1.0 / (car.mass + car.wheel_mass)
        force = push + (car.wheel_damping * v + car.rolling_force) * inverse
        throttle = force / (car.engine_force * inverse * engine_share(car, v))
        brake = -force / max(car.brake_force * inverse, 1e-6)
        return throttle.clamp(0.0, 1.0), brake.clamp(0.0, 1.0)
