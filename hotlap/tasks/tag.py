"""Catch a runner in a walled square.

Sees: the whole state from one's own seat: positions of both, headings as sine and cosine, distance
    and bearing to the other, time left; all scaled to about one.
Does: forward speed and turn rate, each in [-1, 1] of what the vehicle can.
Earns: the chaser what it gains on the runner, and 1 for the catch; the runner the opposite.
Ends: terminated when the runner is caught; truncated when time is up.
Reports: distance between the two, whether it was a catch.
"""

import math

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from hotlap.config.tasks import TagConfig
from hotlap.sim.random import Stream, make_key, uniform
from hotlap.sim.vehicles.model import advance, initial_state, vehicle_params
from hotlap.tasks.task import Outcome, State, Task, episode_key

REWARD = {"gained": 1.0, "caught": 1.0}
CHASER, RUNNER = 0, 1


class TagTask(Task):
    """See the module's first lines; arguments as for every task."""

    name = "tag"

    def __init__(
        self, config: TagConfig, device: torch.device | str = "cpu", compiled: bool = False
    ) -> None:
        self.config = config
        self.device = torch.device(device)
        self.compiled = compiled
        self.seats = config.seats
        self.vehicle = config.car
        self.control_dt = self.vehicle.control_dt
        self.max_steps = config.max_steps
        self.half = config.arena / 2
        self.speed_share = torch.tensor([1.0, config.runner_speed], device=self.device)
        self.sides = torch.tensor([1.0, -1.0], device=self.device)[: self.seats]
        self.action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.observation_space = spaces.Box(-np.inf, np.inf, (12,), np.float32)

    def begin(self, seed: int | Tensor, who: Tensor, episode: Tensor) -> State:
        """Both players anywhere in the arena, almost a quarter of it apart."""
        key = episode_key(seed, who, episode)
        draws = uniform(make_key(key, Stream.ARENA), 5)
        room = self.half - self.config.capture
        spot = (draws[:, :2] * 2 - 1) * 0.5 * room  # the chaser stands in the inner half
        away = draws[:, 2] * 2 * math.pi
        apart = torch.stack([torch.cos(away), torch.sin(away)], -1) * 0.5 * room
        place = torch.stack([spot, spot + apart], 1)  # (B, 2, 2)
        heading = draws[:, 3:5] * 2 * math.pi
        x, y = place.unbind(-1)
        speed = torch.zeros_like(x)
        return {
            "car": initial_state(self.vehicle, x, y, heading, speed),
            "params": vehicle_params(self.vehicle, len(who), who.device),
            "time": torch.zeros(len(who), 1, device=who.device),
        }

    def advance(self, state: State, action: Tensor) -> Outcome:
        """Move both players, keep them inside the walls, and see who gained."""
        action = action.clamp(-1.0, 1.0)
        if self.seats == 1:
            action = torch.cat([action, self._script(state["car"])], 1)
        drive, turn = action.unbind(-1)
        command = torch.stack([turn, drive * self.speed_share, torch.zeros_like(drive)], -1)
        before = state["car"]
        flat = torch.zeros_like(before["x"])
        car = advance(
            self.vehicle, before, command, state["params"], flat + 1, flat,
            self.vehicle.physics_dt, self.vehicle.substeps,
        )  # fmt: skip
        room = self.half - self.vehicle.width / 2
        car = car | {"x": car["x"].clamp(-room, room), "y": car["y"].clamp(-room, room)}
        time = state["time"] + self.control_dt
        gap = _distance(car)
        caught = gap <= self.config.capture
        terms = {
            "gained": REWARD["gained"] * (_distance(before) - gap).unsqueeze(-1) * self.sides,
            "caught": REWARD["caught"] * caught.to(torch.float32).unsqueeze(-1) * self.sides,
        }
        return Outcome(
            state=state | {"car": car, "time": time},
            terms=terms,
            terminated=caught,
            cut=torch.zeros_like(caught),
            metrics={"distance": gap, "caught": caught},
        )

    def _script(self, car: State) -> Tensor:
        """The runner's script (B, 1, 2): flee, and bend towards the middle near a wall."""
        x, y = car["x"], car["y"]
        away_x, away_y = x[:, RUNNER] - x[:, CHASER], y[:, RUNNER] - y[:, CHASER]
        gap = _distance(car).clamp(min=1e-3)
        push = 2.0 / self.half
        aim_x = away_x / gap - (push * x[:, RUNNER]) ** 3
        aim_y = away_y / gap - (push * y[:, RUNNER]) ** 3
        heading = car["heading"][:, RUNNER]
        cross = torch.cos(heading) * aim_y - torch.sin(heading) * aim_x
        along = torch.cos(heading) * aim_x + torch.sin(heading) * aim_y
        turn = (2.0 * torch.atan2(cross, along)).clamp(-1.0, 1.0)
        return torch.stack([torch.ones_like(turn), turn], -1).unsqueeze(1)

    def observe(self, state: State) -> Tensor:
        """Numbers of each seat (B, S, 12)."""
        car = state["car"]
        left = 1.0 - state["time"] / (self.max_steps * self.control_dt)
        seats = [self._seen_from(car, me, 1 - me, left) for me in range(self.seats)]
        return torch.stack(seats, 1)

    def _seen_from(self, car: State, me: int, other: int, left: Tensor) -> Tensor:
        x, y, heading = car["x"] / self.half, car["y"] / self.half, car["heading"]
        dx, dy = x[:, other] - x[:, me], y[:, other] - y[:, me]
        cosine, sine = torch.cos(heading), torch.sin(heading)
        parts = [
            x[:, me], y[:, me], cosine[:, me], sine[:, me],
            x[:, other], y[:, other], cosine[:, other], sine[:, other],
            torch.sqrt(dx * dx + dy * dy),
            cosine[:, me] * dx + sine[:, me] * dy,
            cosine[:, me] * dy - sine[:, me] * dx,
            left[:, 0],
        ]  # fmt: skip
        return torch.stack(parts, -1)


def _distance(car: State) -> Tensor:
    """Distance between the two players (B,)."""
    dx = car["x"][:, RUNNER] - car["x"][:, CHASER]
    dy = car["y"][:, RUNNER] - car["y"][:, CHASER]
    return torch.sqrt(dx * dx + dy * dy)
