"""Every client's car and what it is asked to do; no sockets here.

    order    what one client's car has been told since the last, and whether to move it on
    answer   what goes back to that client

Orders given together are played together: one batch of cars moves, and pictures of one scene are
drawn at once. A car that is put somewhere stands there for the step, so that the first telemetry
after a reset shows the start. Where one order fails, the others go on.
"""

import math
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch

from hotlap.sim.tracks.named import UNIT
from hotlap.wire.codec import encode_report
from hotlap.wire.messages import (
    CamConfig,
    CamConfigB,
    CarLoaded,
    Command,
    Control,
    ExitScene,
    GetNodePosition,
    LidarConfig,
    LidarPoint,
    ResetCar,
    SetPosition,
    StartLine,
)
from hotlap.wire.server.cameras import CAMERA_B, Mount, draw, mounted, pack
from hotlap.wire.server.car import FREE_STEPS, STANDING, Car, Count, Senses
from hotlap.wire.server.fleet import Fleet, Reading
from hotlap.wire.server.scenes import Scene
from hotlap.wire.server.sweeps import sweep
from hotlap.wire.server.unity import describe, heading_of, node_position

FARTHEST = 1e5
"""A car cannot be put farther from the origin than this (u)."""


@dataclass(frozen=True)
class Arrival:
    """A car comes to a scene; `anew` where a client loaded it, not where its road was rebuilt."""

    scene: Scene
    anew: bool


@dataclass(frozen=True)
class Order:
    """What one client's car is to do."""

    seat: int
    commands: tuple[Command | Arrival, ...] = ()
    """In the order they came."""
    step: bool = True
    """Move on by one step."""
    look: bool = True
    """Answer with telemetry."""


@dataclass
class Answer:
    """What goes back to one client."""

    reports: list[bytes] = field(default_factory=list)
    """Messages that must arrive."""
    lines: list[bytes] = field(default_factory=list)
    """Start lines crossed."""
    telemetry: bytes | None = None
    moved: float = 0.0
    """Speed of the car, m/s."""
    cost: float = 0.0
    """Seconds that its commands and its telemetry took."""
    failure: str | None = None
    """A traceback, where the order could not be carried out."""


class World:
    """Cars in seats, and what they see.

    Args:
        seats: How many cars there can be.
    """

    def __init__(self, seats: int) -> None:
        self.fleet = Fleet(seats)
        self.dt = self.fleet.dt
        self._cars: dict[int, Car] = {}
        self._counts = [Count() for _ in range(seats)]

    def vacate(self, seat: int) -> None:
        """Take a client's car away and forget the client."""
        self._counts[seat] = Count()
        if self._cars.pop(seat, None) is not None:
            self.fleet.leave(seat)

    @torch.inference_mode()
    def play(self, orders: Sequence[Order]) -> list[Answer]:
        """Carry out orders, at most one for each seat; answers in the same order."""
        answers = {order.seat: Answer() for order in orders}
        for order in orders:
            with self._charged([order.seat], answers):
                for command in order.commands:
                    self._obey(order.seat, command, answers[order.seat])
        present = [order for order in orders if order.seat in self._cars]
        self._move([order.seat for order in present if order.step])
        self._tell([order.seat for order in present], {o.seat for o in present if o.look}, answers)
        return [answers[order.seat] for order in orders]

    # --- what a car is told --------------------------------------------------------------------

    def _obey(self, seat: int, command: Command | Arrival, answer: Answer) -> None:
        if isinstance(command, Arrival):
            self._arrive(seat, command, answer)
            return
        car = self._cars.get(seat)
        if car is None:  # in the menu there is nothing to tell a car
            return
        match command:
            case Control():
                car.control = _clamped(command)
            case ResetCar():
                self.fleet.restart(seat)
                self._put(seat, car)
            case SetPosition():
                self._put_at(seat, car, command)
            case GetNodePosition():
                if (report := node_position(car.scene.track, command.index)) is not None:
                    answer.reports.append(encode_report(report))
            case CamConfigB():
                car.second = mounted(car.second or CAMERA_B, command)
            case CamConfig():
                car.camera = mounted(car.camera, command)
            case LidarConfig():
                car.lidar = command
            case ExitScene():
                del self._cars[seat]
                self.fleet.leave(seat)

    def _arrive(self, seat: int, arrival: Arrival, answer: Answer) -> None:
        self.fleet.enter(seat, arrival.scene)
        car = self._cars.get(seat)
        if arrival.anew or car is None:
            car = self._cars[seat] = Car(arrival.scene)
            answer.reports.append(encode_report(CarLoaded()))
        car.scene = arrival.scene
        self._put(seat, car)

    def _put_at(self, seat: int, car: Car, command: SetPosition) -> None:
        x, z = command.pos_x, command.pos_z
        if max(abs(x), abs(z)) <= FARTHEST:
            self.fleet.put(seat, x * UNIT, z * UNIT, heading_of(command))
            self._put(seat, car)

    def _put(self, seat: int, car: Car) -> None:
        car.control, car.placed, car.free, car.hit = STANDING, True, FREE_STEPS, "none"
        self._counts[seat].episode += 1
        self._counts[seat].frame += 1

    # --- moving and looking --------------------------------------------------------------------

    def _move(self, seats: list[int]) -> None:
        """Move cars on by a step; those just put somewhere let it pass."""
        moving = []
        for seat in seats:
            car = self._cars[seat]
            car.ticks += 1
            if not car.placed:
                moving.append(seat)
                self._counts[seat].frame += 1
        if moving:
            cars = [self._cars[seat] for seat in moving]
            commands = [
                (-car.control.steering, car.control.throttle, car.control.brake) for car in cars
            ]
            times = torch.tensor([[car.ticks * self.dt] for car in cars], dtype=torch.float64)
            self.fleet.advance(torch.tensor(moving), torch.tensor(commands), times)
        self._moved = set(moving)

    def _tell(self, seats: list[int], look: set[int], answers: dict[int, Answer]) -> None:
        """Read the cars, note laps and hits, and make telemetry for those who look."""
        readings = dict(zip(seats, self._read(seats), strict=True))
        for seat, reading in readings.items():
            if seat in self._moved:
                self._note(self._cars[seat], reading, answers[seat])
            self._cars[seat].placed = False
            answers[seat].moved = math.hypot(reading.vx, reading.vy)
        self._look([seat for seat in seats if seat in look], readings, answers)

    def _read(self, seats: list[int]) -> list[Reading]:
        """The cars' readings; one that flew apart is put back to its start."""
        readings = self.fleet.read(seats) if seats else []
        for place, (seat, reading) in enumerate(zip(seats, readings, strict=True)):
            if not math.isfinite(reading.x + reading.y + reading.vx + reading.vy + reading.n):
                self.fleet.restart(seat)
                self._put(seat, self._cars[seat])
                readings[place] = self.fleet.read([seat])[0]
        return readings

    def _note(self, car: Car, reading: Reading, answer: Answer) -> None:
        for line, when in enumerate(reading.crossed):
            if when is not None:
                answer.lines.append(encode_report(StartLine(line, round(when, 4))))
        if reading.touching and car.free >= FREE_STEPS:
            car.hit = "wall"
        car.free = 0 if reading.touching else car.free + 1

    def _look(
        self, seats: list[int], readings: dict[int, Reading], answers: dict[int, Answer]
    ) -> None:
        """Telemetry for these seats; pictures of one scene and mounting are drawn together."""
        packed: dict[tuple[int, bool], str] = {}
        for (_, mount, second), members in self._alike(seats).items():
            with self._charged(members, answers):
                pose = self.fleet.pose(torch.tensor(members))
                scene, offset = self._cars[members[0]].scene, self.fleet.vehicle.body_offset
                for seat, picture in zip(members, draw(scene, mount, pose, offset), strict=True):
                    packed[seat, second] = pack(picture, mount.format)
        for seat in [seat for seat in seats if seat in self._cars]:
            with self._charged([seat], answers):
                car = self._cars[seat]
                senses = Senses(packed[seat, False], packed.get((seat, True)), self._sweep(seat))
                telemetry = describe(car, readings[seat], senses, self.dt, self._counts[seat])
                answers[seat].telemetry = encode_report(telemetry)
                car.hit = "none"

    def _alike(self, seats: list[int]) -> dict[tuple[int, Mount, bool], list[int]]:
        """Seats by scene, mounting and whether it is the second camera."""
        groups: dict[tuple[int, Mount, bool], list[int]] = {}
        for seat in seats:
            car = self._cars[seat]
            for mount, second in ((car.camera, False), (car.second, True)):
                if mount is not None:
                    groups.setdefault((id(car.scene), mount, second), []).append(seat)
        return groups

    def _sweep(self, seat: int) -> tuple[LidarPoint, ...] | None:
        car = self._cars[seat]
        if car.lidar is None:
            return None
        pose = self.fleet.pose(torch.tensor([seat]))
        return sweep(car.scene, car.lidar, pose, self.fleet.vehicle.body_offset)

    @contextmanager
    def _charged(self, seats: list[int], answers: dict[int, Answer]) -> Iterator[None]:
        """Share out what something costs; where it fails, it fails for these seats alone."""
        began = time.thread_time()  # what others take meanwhile is not its cost
        try:
            yield
        except Exception:
            for seat in seats:
                answers[seat].failure = traceback.format_exc()
                self.vacate(seat)
        for seat in seats:
            answers[seat].cost += (time.thread_time() - began) / len(seats)


def _clamped(control: Control) -> Control:
    return Control(
        steering=min(max(control.steering, -1.0), 1.0),
        throttle=min(max(control.throttle, -1.0), 1.0),
        brake=min(max(control.brake, 0.0), 1.0),
    )
