"""A driver that follows racing lines.

B environments, N cars. All tensors (B, N) unless noted.
    course    direction of travel relative to the reference line, rad
    beta      direction of travel relative to the nose, rad
    side      acceleration across the path, m/s^2
    push      acceleration that the tyres give along the wheels, m/s^2
    circle    what the friction circle leaves for the side force, m/s^2
    used      side force over the largest one

Offset and course give the side acceleration that returns the car to its line. The slip that the
rear tyres need for it says how the body should stand, which says how it should turn, which says
what the front tyres should push with, and that is the steering. Throttle and brake invert the
engine. The driver reads the true state and knows the car: a reference and a teacher.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from hotlap.config.vehicles import VehicleConfig
from hotlap.sim.racing_line import RacingLine, line_shape, sample_like
from hotlap.sim.roads import Place, Roads
from hotlap.sim.speed_profile import bias_of, slip_of_force
from hotlap.sim.tracks.track import Track
from hotlap.sim.vehicles.drive import engine_share

_SLIPS = 256  # entries of the table from side force to slip
_LEAST_PUSH = 0.2  # share of the grip left to push in the tightest bend: what its slip costs
_SLOWEST = 0.3  # m/s: below it angles of travel mean nothing


@dataclass(frozen=True)
class LineDriverConfig:
    """How hard the driver holds the line; tuned at 20 control steps a second."""

    quickness: float = 4.0
    """Natural frequency with which offsets from the line are taken out, rad/s."""
    damping: float = 0.9
    """Damping ratio of that motion."""
    slip_gain: float = 10.0
    """How fast the body is brought to the slip angle that the line needs, 1/s."""
    yaw_gain: float = 24.0
    """How fast the yaw rate is brought to the one wanted, 1/s."""
    lead: float = 0.1
    """How far ahead the slip angle of the line is read, s: the body takes that long to turn."""
    speed_gain: float = 4.0
    """Acceleration per error of the speed, 1/s."""
    patience: float = 0.08
    """Offset beyond which the way back to the line is not steered more sharply, m."""
    caution: float = 0.95
    """Share of the speed given up where the car is a metre or more off the line."""
    delay: float = 0.025
    """How far ahead the car is judged, s: half a control step, as commands are held that long."""


@dataclass(frozen=True)
class Lines:
    """Racing lines of several roads in one table."""

    table: Tensor
    """n, course, curvature, speed, acceleration by sample (P, 5)."""
    first: Tensor
    """Row of each line's sample 0 (T,) int64."""
    count: Tensor
    """Intervals of each line (T,) int64."""
    spacing: Tensor
    """Distance between samples along the reference line (T,)."""


def lay_lines(roads: Roads, lines: Sequence[RacingLine]) -> Lines:
    """Tables of `lines`, one for each track of `roads`; a closed line repeats its first sample."""
    if len(lines) != len(roads.tracks):
        raise ValueError(f"{len(roads.tracks)} tracks need as many lines, got {len(lines)}")
    tables = []
    for line, track in zip(lines, roads.tracks, strict=True):
        columns = (line.n, line.heading_error, line.curvature, line.speed)
        table = np.column_stack([*columns, _acceleration(line, track)])
        tables.append(np.vstack([table, table[:1]]) if track.closed else table)
    first = np.cumsum([0] + [len(table) for table in tables[:-1]])
    spacing = [float(line.s[1] - line.s[0]) for line in lines]
    device = roads.device
    return Lines(
        table=torch.as_tensor(np.concatenate(tables), dtype=torch.float32, device=device),
        first=torch.as_tensor(first, device=device),
        count=torch.tensor([len(table) - 1 for table in tables], device=device),
        spacing=torch.tensor(spacing, dtype=torch.float32, device=device),
    )


def _acceleration(line: RacingLine, track: Track) -> np.ndarray:
    """Change of v^2 / 2 per metre of the path, by sample."""
    ds = line_shape(sample_like(track, line), line.n).ds
    energy = line.speed**2 / 2
    if track.closed:
        gain = np.roll(energy, -1) - np.roll(energy, 1)
        return gain / (ds + np.roll(ds, 1))
    return np.gradient(energy, np.concatenate([[0.0], np.cumsum(ds)]))


def read_line(lines: Lines, roads: Roads, road: Tensor, s: Tensor) -> tuple[Tensor, ...]:
    """n, course, curvature, speed and acceleration of the line at `s`."""
    count = lines.count[road]
    along = s / lines.spacing[road]
    around = torch.remainder(along, count)
    along = torch.where(roads.closed[road], around, torch.minimum(along.clamp(min=0.0), count))
    node = torch.minimum(along.to(torch.int64), count - 1)
    row = (lines.first[road] + node).reshape(-1)
    here, ahead = lines.table.index_select(0, row), lines.table.index_select(0, row + 1)
    mixed = torch.lerp(here, ahead, (along - node).reshape(-1, 1))
    return tuple(mixed.view(*s.shape, 5).unbind(-1))


class LineDriver:
    """Drives dynamic cars of one kind along the lines of their roads."""

    def __init__(
        self,
        vehicle: VehicleConfig,
        roads: Roads,
        lines: Sequence[RacingLine],
        config: LineDriverConfig | None = None,
    ) -> None:
        if vehicle.model != "dynamic":
            raise ValueError(f"the line driver knows dynamic cars, not model {vehicle.model!r}")
        self.vehicle = vehicle
        self.roads = roads
        self.lines = lay_lines(roads, lines)
        self.config = config or LineDriverConfig()
        table = slip_of_force(np.linspace(0.0, 1.0, _SLIPS + 1))
        self._slips = torch.as_tensor(table, dtype=torch.float32, device=roads.device)
        self._bias = bias_of(vehicle.front_drive, vehicle.lr / vehicle.wheelbase)

    def command(self, road: Tensor, place: Place, state: dict[str, Tensor]) -> Tensor:
        """Steer, throttle and brake (B, N, 3) for cars at `place` on `road`."""
        config = self.config
        v = torch.hypot(state["vx"], state["vy"]).clamp(min=_SLOWEST)
        beta = torch.atan2(state["vy"], state["vx"].clamp(min=_SLOWEST))
        course = place.heading_error + beta
        # Where the car will be when the command is half through.
        stretch = (1.0 - place.n * place.curvature).clamp(min=0.2)
        s = place.s + config.delay * v * torch.cos(course) / stretch
        n = place.n + config.delay * v * torch.sin(course)
        course = course + config.delay * state["yaw_rate"] - place.curvature * (s - place.s)
        line_n, line_course, bend, line_speed, line_gain = read_line(
            self.lines, self.roads, road, s
        )

        grip = self.vehicle.mu * self.vehicle.gravity * place.grip
        off = n - line_n
        astray = (off.abs() - config.patience).clamp(0.0, 1.0)
        pace = line_speed * (1.0 - config.caution * astray)
        gain = line_gain + config.speed_gain * (pace - v)
        pull = config.quickness / v
        wanted = bend - pull * pull * off.clamp(-config.patience, config.patience)
        wanted = wanted - 2.0 * config.damping * pull * torch.sin(course - line_course)
        side = v * v * wanted
        push = self._push(gain, v, side, grip, place)
        circle = grip * grip - (self._bias * push) ** 2
        circle = torch.sqrt(circle.clamp(min=0.0)).clamp(min=0.1 * grip)
        side = torch.minimum(torch.maximum(side, -0.98 * circle), 0.98 * circle)

        later = read_line(self.lines, self.roads, road, s + config.lead * v / stretch)
        steer = self._steer(state["yaw_rate"], v, beta, side, circle, later)
        throttle, brake = self._pedals(push, v)
        return torch.stack([steer, throttle, brake], dim=-1)

    def _steer(
        self,
        r: Tensor,
        v: Tensor,
        beta: Tensor,
        side: Tensor,
        circle: Tensor,
        later: tuple[Tensor, ...],
    ) -> Tensor:
        """Steering that brings about `side` and, soon after, the slip that `later` needs."""
        car, config = self.vehicle, self.config
        _, _, bend, speed, _ = later
        blend = torch.sqrt(1.0 + (car.blend_speed / v) ** 2)
        speed = torch.minimum(speed, 1.1 * v)  # a car still gathering speed needs less slip
        rear_slip = car.peak_slip_rear * blend * self._slip(speed * speed * bend / circle)
        beta_soon = beta + config.delay * (side / v - r)
        yaw = side / v + config.slip_gain * (beta_soon - (car.lr * bend - rear_slip))
        # The front axle carries its share of the side force, and turns the body.
        share = car.lr / car.wheelbase
        turning = config.yaw_gain * (yaw - r) * car.yaw_inertia / (car.mass * car.wheelbase)
        used = (side * share + turning) / (circle * share)
        angle = torch.atan(torch.tan(beta) + car.lf * r / v)
        angle = angle + car.peak_slip_front * blend * self._slip(used)
        return (angle / car.full_steer).clamp(-1.0, 1.0)

    def _slip(self, used: Tensor) -> Tensor:
        """Slip, over that of the largest force, that gives a share of the largest force."""
        index = (used.abs().clamp(max=0.99) * _SLIPS).to(torch.int64)
        return torch.copysign(self._slips[index], used)

    def _push(self, gain: Tensor, v: Tensor, side: Tensor, grip: Tensor, place: Place) -> Tensor:
        """Push that gives `gain` along the path, against drag, hill and the tilt of the tyres.

        Cornering is served first: push gets what `side` leaves of the circle.
        """
        car = self.vehicle
        side = torch.minimum(side.abs(), grip)
        used = side / grip
        peak = 0.5 * (car.peak_slip_front + car.peak_slip_rear)
        slope = place.climb * torch.rsqrt(1.0 + place.climb**2) * torch.cos(place.heading_error)
        moved = car.mass + car.wheel_mass
        drag = car.drag * car.mass / moved * v + car.air_drag / car.mass * v * v
        push = gain + side * torch.tan(peak * self._slip(used)) + car.gravity * slope + drag
        free = grip * torch.sqrt((1.0 - used * used).clamp(min=_LEAST_PUSH**2))
        return torch.minimum(torch.maximum(push, -free), free)

    def _pedals(self, push: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Throttle and brake that give `push`."""
        car = self.vehicle
        inverse = 1.0 / (car.mass + car.wheel_mass)
        force = push + (car.wheel_damping * v + car.rolling_force) * inverse
        throttle = force / (car.engine_force * inverse * engine_share(car, v))
        brake = -force / max(car.brake_force * inverse, 1e-6)
        return throttle.clamp(0.0, 1.0), brake.clamp(0.0, 1.0)
