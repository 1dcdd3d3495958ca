"""All cars of the server in one batch, each on a road of its own.

    C seats, K of them at work in a call; one car in each.
    rows      which seats are meant                                          (K,) int64
    command   steering (left positive), throttle and brake                   (K, 3)
    beyond    how far a car's middle is outside its road's nearer edge, m    (K, 1)

A car that comes to a wall is put back to it and loses what speed it had into it. Nothing else ends
or resets a drive: that is the client's to ask for.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from hotlap.config.vehicles import find_vehicle
from hotlap.sim.roads import Place, Roads, arc_between, lay_out, locate, locate_anywhere, pose_on
from hotlap.sim.vehicles.model import advance, initial_state, vehicle_params
from hotlap.tasks.laps import begin_laps, count_laps
from hotlap.tasks.task import State, copy_tree, map_tree
from hotlap.wire.server.scenes import Scene

MOST_LINES = 2
"""Start lines a track may have."""
BOUNCE = 0.2
"""Share of the speed into a wall that a car keeps, away from it."""
CREEP = 0.03
"""Speed below which a braking car stands, m/s."""
SCRAPE = 0.4
"""Friction between a car and a wall."""


@dataclass(frozen=True)
class Reading:
    """One car as it is now; metres, radians, counter-clockwise, z up."""

    x: float
    y: float
    z: float
    heading: float
    vx: float
    vy: float
    ax: float
    """Change of vx over the last step, m/s2; likewise ay."""
    ay: float
    yaw_rate: float
    n: float
    """Distance from the path, left positive."""
    node: int
    nose_up: float
    """Slope of the land along the car, and to its left: metres up per metre."""
    left_up: float
    turns: tuple[float, float, float, float]
    """Of the wheels: front left, front right, rear left, rear right."""
    crossed: tuple[float | None, ...]
    """By start line: the time at which it was crossed in this step, if it was."""
    touching: bool
    """Whether it leans on a wall."""


class Fleet:
    """Cars in seats.

    Args:
        seats: How many.
        vehicle: Name of the car.
    """

    def __init__(self, seats: int, vehicle: str = "donkey") -> None:
        self.vehicle = find_vehicle(vehicle)
        self.dt = self.vehicle.control_dt
        self.roads: Roads | None = None
        self._scenes: list[Scene | None] = [None] * seats
        self._laid: list[Scene] = []
        self._params = vehicle_params(self.vehicle, seats)
        zero = torch.zeros(seats, 1)
        car = initial_state(self.vehicle, zero, zero, zero, zero)
        place = dict.fromkeys(Place.__dataclass_fields__, zero)
        self._state: State = map_tree(torch.clone, {
            "car": car,
            "place": place | {"node": zero.long()},
            "laps": begin_laps(torch.zeros(seats, MOST_LINES, dtype=torch.float64)),
            "change": {"ax": zero, "ay": zero},
            "turns": torch.zeros(seats, 4, dtype=torch.float64),
            "crossed": torch.zeros(seats, MOST_LINES, dtype=torch.bool),
            "touching": zero > 0,
        })  # fmt: skip
        self._road = torch.zeros(seats, 1, dtype=torch.int64)
        self._walls = torch.full((seats, 1), math.inf)

    # --- who drives where --------------------------------------------------------------------

    def enter(self, seat: int, scene: Scene) -> None:
        """Give a seat a scene and put its car to the start."""
        self._scenes[seat] = scene
        self._state["turns"][seat] = 0.0
        gap = scene.track.wall_gap
        self._walls[seat] = math.inf if gap is None else gap - self.vehicle.width / 2
        if not any(scene is each for each in self._laid):
            self._lay_out()
        self._road[seat] = next(i for i, each in enumerate(self._laid) if each is scene)
        self.restart(seat)

    def leave(self, seat: int) -> None:
        """Empty a seat."""
        self._scenes[seat] = None

    def _lay_out(self) -> None:
        """Lay all scenes in use side by side, so that one search serves every car.

        This takes some milliseconds, so it is done for a scene that is new, and not when one falls
        out of use.
        """
        self._laid = list({id(scene): scene for scene in self._scenes if scene}.values())
        self.roads = lay_out([scene.track for scene in self._laid])
        for seat, scene in enumerate(self._scenes):
            for index, each in enumerate(self._laid):
                if scene is each:
                    self._road[seat] = index

    # --- putting cars somewhere ----------------------------------------------------------------

    def restart(self, seat: int) -> None:
        """Put a car to its start, at rest."""
        scene = self._scenes[seat]
        assert scene is not None
        start = scene.start
        s, n = torch.tensor([[start.s]]), torch.tensor([[start.n]])
        x, y, heading, _ = pose_on(scene.roads, torch.zeros(1, 1, dtype=torch.int64), s, n)
        self.put(seat, float(x), float(y), float(heading) + start.heading_error)

    def put(self, seat: int, x: float, y: float, heading: float | None) -> None:
        """Put a car anywhere, at rest; without a heading it keeps its own."""
        scene = self._scenes[seat]
        assert scene is not None
        old = self._state["car"]["heading"][seat : seat + 1]
        turned = old.clone() if heading is None else torch.tensor([[heading]])
        pose = (torch.tensor([[x]]), torch.tensor([[y]]), turned)
        place = locate_anywhere(scene.roads, torch.zeros(1, 1, dtype=torch.int64), *pose)
        row = {
            "car": initial_state(self.vehicle, *pose, torch.zeros(1, 1)),
            "place": place.tensors(),
            "laps": self._books(scene, float(place.s)),
            "change": {"ax": torch.zeros(1, 1), "ay": torch.zeros(1, 1)},
            "turns": self._state["turns"][seat : seat + 1].clone(),
            "crossed": torch.zeros(1, MOST_LINES, dtype=torch.bool),
            "touching": torch.zeros(1, 1, dtype=torch.bool),
        }
        copy_tree(map_tree(lambda leaf: leaf[seat : seat + 1], self._state), row)

    def _books(self, scene: Scene, s: float) -> State:
        """Books of laps (1, MOST_LINES) for a car at `s`: a line counts from when it is passed."""
        length = scene.track.length
        to_go = [(line - s) % length for line in scene.lines]
        to_go += [math.inf] * (MOST_LINES - len(to_go))
        books = begin_laps(torch.zeros(1, MOST_LINES, dtype=torch.float64))
        return books | {"progress": length - torch.tensor([to_go], dtype=torch.float64)}

    # --- driving -------------------------------------------------------------------------------

    def advance(self, rows: Tensor, command: Tensor, time: Tensor) -> None:
        """Drive some cars for one control step, which ends at `time` (K, 1) float64 of theirs."""
        assert self.roads is not None
        state = map_tree(lambda leaf: leaf[rows], self._state)
        params = map_tree(lambda leaf: leaf[rows], self._params)
        road, before, old = self._road[rows], state["place"], state["car"]
        slope = before["climb"] * torch.cos(before["heading_error"])
        car = advance(
            self.vehicle, old, command.unsqueeze(1), params, before["grip"], slope,
            self.vehicle.physics_dt, self.vehicle.substeps,
        )  # fmt: skip
        car = _parked(old, car, command)
        forward = car["vx"] * self.dt * torch.cos(before["heading_error"])
        found = locate(
            self.roads, road, before["node"], car["x"], car["y"], car["heading"], forward
        )
        place = found.tensors()
        car, place, touching = self._stop_at_walls(car, place, self._walls[rows])
        moved = arc_between(self.roads, road, before["s"], place["s"]).double()
        on_road = self._beyond(place) < self.vehicle.width / 2
        laps = count_laps(
            state["laps"], moved, self.roads.length[road].double(), time, self.dt, on_road
        )
        change = {axis: (car[v] - old[v]) / self.dt for axis, v in (("ax", "vx"), ("ay", "vy"))}
        after = {
            "car": car, "place": place, "laps": laps, "change": change,
            "turns": state["turns"] + self._turned(car),
            "crossed": laps["laps"] > state["laps"]["laps"],
            "touching": touching,
        }  # fmt: skip
        map_tree(lambda into, new: into.index_copy_(0, rows, new), self._state, after)

    def _beyond(self, place: State) -> Tensor:
        return torch.maximum(place["n"] - place["width_left"], -place["n"] - place["width_right"])

    def _stop_at_walls(
        self, car: State, place: State, walls: Tensor
    ) -> tuple[State, State, Tensor]:
        """Cars that went into a wall put back to it, with what speed it leaves them."""
        excess = self._beyond(place) - walls
        touching = excess > 0
        if not bool(touching.any()):
            return car, place, touching
        # Away from the road, in the world and then in the body's frame.
        side = torch.where(place["n"] > (place["width_left"] - place["width_right"]) / 2, 1.0, -1.0)
        road = car["heading"] - place["heading_error"]
        back = torch.where(touching, excess, 0.0) * side
        error = place["heading_error"]
        ahead, left = torch.sin(error) * side, torch.cos(error) * side
        into = (car["vx"] * ahead + car["vy"] * left).clamp(min=0.0) * touching
        along = car["vx"] * left - car["vy"] * ahead
        kept = (1 - SCRAPE * into / along.abs().clamp(min=1e-6)).clamp(min=0.0)
        lost, slide = (1 + BOUNCE) * into, along * (kept - 1)
        stopped = car | {
            "x": car["x"] + back * torch.sin(road),
            "y": car["y"] - back * torch.cos(road),
            "vx": car["vx"] - lost * ahead + slide * left,
            "vy": car["vy"] - lost * left - slide * ahead,
            "yaw_rate": torch.where(touching, 0.5 * car["yaw_rate"], car["yaw_rate"]),
        }
        return stopped, place | {"n": place["n"] - back}, touching

    def _turned(self, car: State) -> Tensor:
        """Turns of the four wheels in a step (K, 4)."""
        half = 0.5 * self.vehicle.track_width * car["yaw_rate"]
        left, right = car["vx"] - half, car["vx"] + half
        once = 2 * math.pi * self.vehicle.wheel_radius
        return torch.cat([left, right, left, right], -1) * (self.dt / once)

    # --- looking -------------------------------------------------------------------------------

    def pose(self, rows: Tensor) -> dict[str, Tensor]:
        """x, y, z, heading, and slope of the land along the car, each (K,), for the sensors."""
        car, place = self._state["car"], self._state["place"]
        nose_up = place["climb"] * torch.cos(place["heading_error"])
        return {
            "x": car["x"][rows, 0], "y": car["y"][rows, 0], "z": place["z"][rows, 0],
            "heading": car["heading"][rows, 0], "climb": nose_up[rows, 0],
        }  # fmt: skip

    def read(self, seats: Sequence[int]) -> list[Reading]:
        """The cars in these seats."""
        rows = torch.tensor(seats)
        state = map_tree(lambda leaf: leaf[rows], self._state)
        car, place, laps = state["car"], state["place"], state["laps"]
        error = place["heading_error"]
        columns = [
            car["x"], car["y"], place["z"], car["heading"], car["vx"], car["vy"],
            state["change"]["ax"], state["change"]["ay"], car["yaw_rate"], place["n"],
            place["node"], place["climb"] * torch.cos(error), -place["climb"] * torch.sin(error),
            state["touching"], state["turns"], state["crossed"], laps["lap_began"],
        ]  # fmt: skip
        numbers = torch.cat([column.double() for column in columns], -1).tolist()
        return [_reading(values) for values in numbers]


def _parked(before: State, after: State, command: Tensor) -> State:
    """Cars that stand on their brakes stay where they are; the tyre model lets them creep."""
    _, throttle, brake = command.unsqueeze(1).unbind(-1)
    speed = torch.maximum(before["vx"].abs(), before["vy"].abs())
    held = (brake > 0) & (throttle == 0) & (speed < CREEP)
    still = {name: torch.zeros_like(speed) for name in ("vx", "vy", "yaw_rate", "ax", "ay")}
    still |= {name: before[name] for name in ("x", "y", "heading")}
    return after | {name: torch.where(held, value, after[name]) for name, value in still.items()}


def _reading(values: list[float]) -> Reading:
    x, y, z, heading, vx, vy, ax, ay, yaw_rate, n, node, nose_up, left_up, touching = values[:14]
    crossed, when = values[18 : 18 + MOST_LINES], values[18 + MOST_LINES :]
    return Reading(
        x, y, z, heading, vx, vy, ax, ay, yaw_rate, n, int(node), nose_up, left_up,
        turns=(values[14], values[15], values[16], values[17]),
        crossed=tuple(t if c else None for c, t in zip(crossed, when, strict=True)),
        touching=bool(touching),
    )  # fmt: skip
