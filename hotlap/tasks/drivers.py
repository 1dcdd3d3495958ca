"""Scripted drivers for road tasks: yardsticks, teachers and test pilots.

    centre_line   holds the middle of the road at a modest pace, by offset and heading alone
    pure_pursuit  steers towards a point of the middle some way ahead, faster on straights
    racing_line   drives a precomputed fast line at the limit of grip; needs the brakes
    circler       goes round and round at the start line: the cheat that rewards are tried with

They read the true state of the world and answer with actions, batched like everything else.
"""

import math
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from hotlap.config.naming import nearest
from hotlap.sim.lap_records import lap_limit, racing_line
from hotlap.sim.line_driver import LineDriver
from hotlap.sim.racing_line import slower_line
from hotlap.sim.roads import Place, arc_between, curvature_ahead, pose_on
from hotlap.sim.speed_profile import limits_of
from hotlap.tasks.donkey import UNIT, DonkeyTask
from hotlap.tasks.task import State

Driver = Callable[[State], Tensor]
"""From a task's state to actions (B, A)."""

SIDE_GRIP = 0.35
"""Share of the grip that the two careful drivers use in a bend."""
SOLVED_GRIP = 0.97
"""Share of the grip that the racing line's speeds are planned for, on a solved line."""
QUICK_GRIP = 0.92
"""The same for lines made without a solver."""
WIDTH_SHARE = 0.88
"""How much of the road's width the racing line's driver uses: a start from rest is less exact."""
CIRCLE_GRIP = 1.1
"""Share of the grip that the circler asks for; its throttle falls short of that speed."""
CIRCLE_LOCK = 1.06
"""Radius of its smallest circle, in the tightest that the steering allows."""
CIRCLE_ROOM = 1.2
"""Room it needs to either side of the line, in its radius."""
LOOK = 16
"""Points ahead at which the road's bend is read."""


def make_driver(name: str, task: DonkeyTask) -> Driver:
    """The scripted driver called `name`, for the cars and roads of `task`."""
    if name not in DRIVERS:
        raise KeyError(nearest(name, DRIVERS, "driver"))
    return DRIVERS[name](task)


def _middle(place: State) -> Tensor:
    """Offset of the road's middle from its reference line (B, N)."""
    return 0.5 * (place["width_left"] - place["width_right"])


class _Careful:
    """What the two careful drivers share: a pace that needs no brakes."""

    def __init__(self, task: DonkeyTask, fastest: float) -> None:
        self.task = task
        self.vehicle = task.vehicle
        self.fastest = fastest
        self.ahead = torch.linspace(0.0, 3.0, LOOK, device=task.device)

    def pace(self, state: State) -> Tensor:
        """Speed that the sharpest bend in sight allows (B, N)."""
        place = state["place"]
        bend = curvature_ahead(self.task.roads, state["road"], place["s"], self.ahead)
        # The middle of the road bends differently from its line.
        bend = bend / (1 - _middle(place).unsqueeze(-1) * bend).clamp(min=0.25)
        sharpest = bend.abs().amax(-1).clamp(min=1e-3)
        grip = SIDE_GRIP * self.vehicle.mu * self.vehicle.gravity
        return torch.sqrt(grip / sharpest).clamp(0.5, self.fastest)

    def action(self, state: State, steer: Tensor) -> Tensor:
        """Actions (B, 2) that steer to wheel angle `steer` (left positive) at the pace."""
        car = state["car"]
        error = self.pace(state) - car["vx"]
        climb = state["place"]["climb"]
        throttle = 0.08 * car["vx"] + 0.6 * error + 3.5 * climb
        low, high = self.task.config.throttle_min, self.task.config.throttle_max
        turn = (steer / self.vehicle.full_steer).clamp(-1.0, 1.0)
        return torch.cat([-turn, throttle.clamp(low, high)], -1)


class _CentreLine(_Careful):
    """Steers by the offset from the middle of the road and the heading error."""

    def __init__(self, task: DonkeyTask) -> None:
        super().__init__(task, fastest=1.6)

    def __call__(self, state: State) -> Tensor:
        place = state["place"]
        reach = torch.tensor([0.25], device=self.ahead.device)
        bend = curvature_ahead(self.task.roads, state["road"], place["s"], reach).squeeze(-1)
        off = place["n"] - _middle(place)
        wanted = bend / (1 - place["n"] * bend).clamp(min=0.25)
        steer = self.vehicle.wheelbase * wanted - 0.9 * place["heading_error"] - 1.4 * off
        return self.action(state, steer)


class _PurePursuit(_Careful):
    """Steers along the circle that leads to a point of the road's middle ahead."""

    def __init__(self, task: DonkeyTask) -> None:
        super().__init__(task, fastest=2.4)

    def __call__(self, state: State) -> Tensor:
        car, place, road = state["car"], state["place"], state["road"]
        reach = 0.3 + 0.22 * car["vx"].clamp(min=0.0)
        target_x, target_y, _, _ = pose_on(
            self.task.roads, road, place["s"] + reach, _middle(place)
        )
        dx, dy = target_x - car["x"], target_y - car["y"]
        sideways = torch.cos(car["heading"]) * dy - torch.sin(car["heading"]) * dx
        bend = 2 * sideways / (dx * dx + dy * dy).clamp(min=1e-4)
        return self.action(state, torch.atan(self.vehicle.wheelbase * bend))


class _Circler(_PurePursuit):
    """Drives to the start line and circles just beyond it, about a point of the line."""

    def __init__(self, task: DonkeyTask) -> None:
        super().__init__(task)
        lock = min(self.vehicle.full_steer * task.config.steer_limit, self.vehicle.max_steer)
        # The circle that speed times closeness pays best: sqrt(R) * (1 - 2 R / (pi * max_cte)).
        best = math.pi / 6 * task.config.max_cte * UNIT
        self.radius = max(best, CIRCLE_LOCK * self.vehicle.wheelbase / math.tan(lock))
        self.begin = 1.8 * self.radius  # where turning off leads smoothly into the circle
        self._refuse_narrow()
        start = task.starts.poses[:, :1, 0]  # (T, 1)
        road = torch.arange(len(start), device=task.device).unsqueeze(-1)
        self.s = start + self.begin
        self.x, self.y, _, _ = pose_on(task.roads, road, self.s, torch.zeros_like(start))

    def _refuse_narrow(self) -> None:
        """Stop where the circle would leave the road for good or meet a wall."""
        task, room = self.task, CIRCLE_ROOM * self.radius
        if task.config.max_cte * UNIT < room:
            raise ValueError(
                f"the circler needs a max_cte of {room / UNIT:.1f}, got {task.config.max_cte}"
            )
        for track, gap in zip(task.roads.tracks, task.walls.tolist(), strict=True):
            if min(track.width_left.min(), track.width_right.min()) + gap < room:
                raise ValueError(f"track {track.name} has walls within the circler's {room:.2f} m")

    def pace(self, state: State) -> Tensor:
        """Speed that the circle allows, or the road on the way to it (B, N)."""
        grip = CIRCLE_GRIP * self.vehicle.mu * self.vehicle.gravity
        return torch.where(self._there(state), math.sqrt(grip * self.radius), super().pace(state))

    def _there(self, state: State) -> Tensor:
        """Whether the circle has been reached (B, N) bool."""
        road = state["road"]
        away = arc_between(self.task.roads, road, state["place"]["s"], self.s[road.squeeze(-1)])
        return away.abs() < self.begin + 0.1

    def __call__(self, state: State) -> Tensor:
        car, row = state["car"], state["road"].squeeze(-1)
        dx, dy = car["x"] - self.x[row], car["y"] - self.y[row]
        off = torch.hypot(dx, dy) - self.radius
        # Along the circle, and the more towards it the further away.
        wanted = torch.atan2(dy, dx) + math.pi / 2 + torch.atan(2 * off / self.radius)
        error = torch.remainder(wanted - car["heading"] + math.pi, 2 * math.pi) - math.pi
        steer = math.atan(self.vehicle.wheelbase / self.radius) + error
        circling = self.action(state, steer)
        return torch.where(self._there(state), circling, super().__call__(state))


class _RacingLine:
    """Drives a fast line; needs a task whose throttle goes down to -1, which brakes."""

    def __init__(self, task: DonkeyTask) -> None:
        if task.config.throttle_min > -1:
            raise ValueError(
                "the racing_line driver brakes: set throttle_min to -1, "
                f"got {task.config.throttle_min}"
            )
        # The task has no brake pedal: a reversed engine is all there is to slow down with.
        limits = limits_of(replace(task.vehicle, brake_force=0.0))
        lines = []
        for track in task.roads.tracks:
            solved = lap_limit(track.name, task.config.vehicle) is not None
            share = SOLVED_GRIP if solved else QUICK_GRIP
            line = racing_line(track, task.config.vehicle)
            lines.append(slower_line(track, line, limits, share, WIDTH_SHARE))
        self.driver = LineDriver(task.vehicle, task.roads, lines)

    def __call__(self, state: State) -> Tensor:
        command = self.driver.command(state["road"], Place(**state["place"]), state["car"])
        steer, throttle, brake = command.unbind(-1)
        return torch.cat([-steer, throttle - brake], -1)


DRIVERS: dict[str, Callable[[DonkeyTask], Driver]] = {
    "centre_line": _CentreLine,
    "pure_pursuit": _PurePursuit,
    "racing_line": _RacingLine,
    "circler": _Circler,
}
