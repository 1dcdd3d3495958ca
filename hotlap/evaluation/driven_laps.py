"""Laps of the reference driver in the simulator's own physics.

All tracks are driven at once, one car each: B = number of tracks, N = 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from hotlap.config.vehicles import VehicleConfig
from hotlap.sim.line_driver import LineDriver, LineDriverConfig
from hotlap.sim.racing_line import RacingLine
from hotlap.sim.roads import arc_between, lay_out, locate, locate_anywhere, pose_on
from hotlap.sim.tracks.track import Track
from hotlap.sim.vehicles.model import advance, initial_state, vehicle_params

FINISH = 0.02
"""How far before the end of an open road it counts as driven (m): beyond it there is no road."""


@dataclass(frozen=True)
class DrivenLap:
    """What became of one car."""

    time: float
    """The second lap of a closed track, the first drive of an open one (s); nan if unfinished."""
    excess: float
    """Largest distance of the car's centre beyond the road's edge (m); negative is inside."""

    @property
    def stayed(self) -> bool:
        """Whether it finished with its centre on the road throughout."""
        return bool(np.isfinite(self.time) and self.excess < 0)


def drive_lines(
    vehicle: VehicleConfig,
    tracks: Sequence[Track],
    lines: Sequence[RacingLine],
    config: LineDriverConfig | None = None,
    patience: float = 1.3,
) -> list[DrivenLap]:
    """Let the reference driver follow `lines` at the vehicle's own control rate.

    Args:
        vehicle: The car.
        tracks: One road per line.
        lines: What to follow.
        config: The driver.
        patience: How long to wait for a car, in multiples of its line's time.
    """
    roads = lay_out(tracks)
    driver = LineDriver(vehicle, roads, lines, config)
    count = len(tracks)
    road = torch.arange(count)[:, None]

    def column(values: list[float]) -> Tensor:
        return torch.tensor(values, dtype=torch.float32)[:, None]

    zero = torch.zeros(count, 1)
    x, y, heading, _ = pose_on(roads, road, zero, column([line.n[0] for line in lines]))
    heading = heading + column([line.heading_error[0] for line in lines])
    state = initial_state(vehicle, x, y, heading, column([line.speed[0] for line in lines]))
    params = vehicle_params(vehicle, count)
    place = locate_anywhere(roads, road, x, y, heading)
    longest = max(
        line.time * (2 if track.closed else 1) for track, line in zip(tracks, lines, strict=True)
    )
    steps = int(patience * longest / vehicle.control_dt)
    driven, excess = torch.zeros(steps + 1, count), torch.zeros(steps + 1, count)
    for step in range(1, steps + 1):
        command = driver.command(road, place, state)
        slope = place.climb * torch.rsqrt(1 + place.climb**2) * torch.cos(place.heading_error)
        state = advance(
            vehicle, state, command, params, place.grip, slope, vehicle.physics_dt, vehicle.substeps
        )
        before, moved = place.s, vehicle.control_dt * state["vx"]
        place = locate(roads, road, place.node, state["x"], state["y"], state["heading"], moved)
        driven[step] = driven[step - 1] + arc_between(roads, road, before, place.s)[:, 0]
        excess[step] = torch.maximum(place.n - place.width_left, -place.width_right - place.n)[:, 0]
    return [
        _judge(track, driven[:, i].double().numpy(), excess[:, i].numpy(), vehicle.control_dt)
        for i, track in enumerate(tracks)
    ]


def _judge(track: Track, driven: np.ndarray, excess: np.ndarray, dt: float) -> DrivenLap:
    """Lap time between crossings, interpolated within a step, and the worst excess until then."""

    def reached(distance: float) -> float:
        beyond = np.flatnonzero(driven >= distance)
        if not len(beyond):
            return float("nan")
        last = max(int(beyond[0]), 1)
        part = (distance - driven[last - 1]) / (driven[last] - driven[last - 1])
        return float((last - 1 + part) * dt)

    begin = reached(track.length) if track.closed else 0.0
    end = reached(2 * track.length) if track.closed else reached(track.length - FINISH)
    until = len(excess) if np.isnan(end) else int(end / dt) + 1
    return DrivenLap(end - begin, float(excess[1:until].max()))
