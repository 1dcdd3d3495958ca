"""Visit every tile of a CarRacing track: the twin of Gymnasium's CarRacing-v3.

Sees: the picture from above, 84x84 or 96x96, gray or in colour; the first second zooms in.
Does: steering, right positive, and gas (above 0) or brake (below); or steering, gas and brake.
Earns: 1000 / tiles for each tile that a wheel touches first, less 0.1 a frame; -100 in place of
    both in the frame that leaves the field. `thorough` also charges for every tile left behind,
    most for an episode's first, and for every frame with no wheel on the road.
Ends: terminated when all tiles were touched, when the first one is touched after 95 % of the others
    (which never happens, as a car that begins on the line begins on it: a lap that lacks one tile
    goes on to the clock's end), or beyond the field;
    `thorough` also ends when no wheel was on the road for a second and a half. Truncated after
    `max_frames`.
Reports: tiles touched, as a share and as a distance, lap time, speed, place, wheels on the road.

    B environments, N tiles at most, W = 4 wheels.
    track    which track                                              (B,) int64
    grip     of the ground under each wheel in the next frame         (B, 1, W)
    visited  whether a tile was touched                               (B, N + 1) bool
    node     where the car began                                      (B,) int64
    owed     tiles touched where the car began, which the first frame pays for   (B,) int64
    frame    pictures so far: Gymnasium's own reset makes the first   (B,) int64
    began    number of the episode's first picture                    (B,) int64
    spoiled  whether a tile was left behind                           (B,) bool
    off      frames since a wheel was on the road                     (B,) int64
    tile     the farthest one that wheels touched last                (B,) int64

Box2D finds contacts before it moves bodies: a frame is driven with the grip found in the one
before, and pays for the tiles under its own beginning.
"""

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from hotlap.config.carracing import FIVE_ACTIONS, FRAMES_PER_SECOND, CarRacingConfig
from hotlap.config.vehicles import find_vehicle
from hotlap.sim.carracing.catalogue import find_tile_tracks
from hotlap.sim.carracing.first_pose import first_pose
from hotlap.sim.carracing.looks import Looks
from hotlap.sim.carracing.picture import Painter
from hotlap.sim.carracing.tile_track import HALF_WIDTH, PLAYFIELD, STEP, TileTrack
from hotlap.sim.carracing.tiles import lay_tiles, nearby, touching
from hotlap.sim.random import Stream, make_key, uniform
from hotlap.sim.vehicles.model import advance, initial_state, vehicle_params
from hotlap.tasks.task import Outcome, State, choose_tree, episode_key
from hotlap.tasks.task import compiled as compile_whole
from hotlap.tasks.track_choice import TrackTask, difficulty

REWARD = {"tiles": 1000.0, "time": -0.1, "left": -100.0}
"""For all tiles; per frame; for leaving the field, in place of both."""
THOROUGH = {"missed": -4.0, "spoiled": -100.0, "grass": -0.2}
"""Per tile left behind; for the first of them beside that, as the lap can hardly close any more;
per frame with no wheel on the road."""
GRASS = 0.6
"""Grip of the grass; the road's is 1."""
HULL = 0.0805
"""From the centre of mass forward to the hull's origin, which Gymnasium calls its position."""
ENOUGH = 0.95
"""Share of the tiles after which the first one ends a lap."""
BEHIND = 12
"""A tile is left behind once the one that lies as many ahead of it is touched."""
NEAR = 30
"""Tiles to either side of the last one that belong to the same piece of road."""
COURSE = (1, 2, 3, 4, 6, 8, 11, 15, 20, 26)
"""Nodes ahead that a critic knows of."""
PATIENCE = 75
"""Frames off the road after which `thorough` ends an episode."""
ON_LINE = 0.25
"""Share of the episodes that begin on the line with mixed starts."""


class Contact(NamedTuple):
    """What the wheels touch."""

    visited: Tensor
    """Tiles touched by now (B, N + 1) bool."""
    gained: Tensor
    """Tiles touched for the first time (B,) int64."""
    missed: Tensor
    """Tiles left behind with that (B,) int64."""
    first: Tensor
    """Whether the first tile is among the new ones (B,) bool."""
    on_road: Tensor
    """Whether each wheel touches any tile (B, W) bool."""
    tile: Tensor
    """The farthest tile under the wheels, or under them last (B,) int64."""


class CarRacingTask(TrackTask):
    """See the module's first lines.

    Args:
        config: The task's settings.
        device: Where it lives.
        compiled: Whether steps and pictures are compiled.
        tracks: Tracks to use in place of those the config names.
    """

    name = "carracing"
    staged = True
    stages_steps = True

    def __init__(
        self,
        config: CarRacingConfig,
        device: torch.device | str = "cpu",
        compiled: bool = False,
        tracks: tuple[TileTrack, ...] | None = None,
    ) -> None:
        self.config = config
        self.device = torch.device(device)
        self.compiled = compiled
        self.vehicle = replace(find_vehicle("carracing"), max_delay_steps=0)
        self.control_dt = config.repeat / FRAMES_PER_SECOND
        self.max_steps = config.max_steps
        self.tracks = tracks or tuple(find_tile_tracks(config.tracks))
        self.tiles = lay_tiles(self.tracks, self.vehicle, self.device)
        self.painter = Painter(self.tracks, config, self.device, compiled)
        self.looks = Looks(config, self.device, compiled)
        self.starts = self._find_starts()
        self.ahead = torch.tensor(COURSE, device=self.device)
        self.nodes = torch.zeros(len(self.tracks), self.tiles.most, 2, device=self.device)
        for row, one in enumerate(self.tracks):
            self.nodes[row, : len(one)] = torch.tensor(np.stack([one.x, one.y], -1))
        lowest = [-1.0, -1.0] if config.actions == "pair" else [-1.0, 0.0, 0.0]
        self.lowest = torch.tensor(lowest, device=self.device)
        self.action_space = spaces.Box(
            np.array(lowest, np.float32), np.ones(len(lowest), np.float32)
        )
        self.observation_space = spaces.Box(0, 255, config.shape, np.uint8)
        self.action_table = five_actions(config)
        # One frame, however many an action lasts: a compiler given all of them takes as many times
        # as long.
        self._drive = compile_whole(self._frame) if compiled else self._frame

    @property
    def bytes_per_env(self) -> int:
        """Memory one environment takes while stepping."""
        gathered = 20 * 4 * self.tiles.near.shape[1]
        looks = self.looks.bytes_per_picture
        return super().bytes_per_env + gathered + 4 * self.tiles.most + looks

    @property
    def track_names(self) -> list[str]:
        """Its tracks by name."""
        return [track.name for track in self.tracks]

    @property
    def difficulties(self) -> list[float]:
        """How hard each of them looks."""
        lines = (np.stack([track.x, track.y], -1) for track in self.tracks)
        return [difficulty(line, True, HALF_WIDTH) for line in lines]

    def told_of(self, world: State) -> dict[str, Tensor]:
        """What the books of tracks want to know; a lap is all tiles, and ends an episode."""
        lap = world["count"] == self.tiles.count[world["track"]]
        return {
            "road": world["track"],
            "time": self._driven(world) / FRAMES_PER_SECOND,
            "progress": world["count"] * STEP,
            "laps": lap.to(torch.float32),
            "finished": lap,
        }

    # --- the episode ---------------------------------------------------------------------------

    def begin(self, seed: int | Tensor, who: Tensor, episode: Tensor) -> State:
        """Cars at rest, each on its track's line or anywhere on it."""
        key = episode_key(seed, who, episode)
        if self.choice is not None:
            track = self.choice.draw(key)
        else:
            track = torch.remainder(who, len(self.tracks))
        on_line, node = self._start(key, track)
        place = torch.where(on_line, 0, node + 1)
        x, y, turn, wheels = self.starts[track, place].unsqueeze(1).unbind(-1)  # (B, 1)
        # Those who begin anywhere else have zoomed in already.
        frame = torch.where(on_line, 1, FRAMES_PER_SECOND + 1)
        heading = turn + math.pi / 2
        x, y = x - HULL * torch.cos(heading), y - HULL * torch.sin(heading)
        car = initial_state(self.vehicle, x, y, heading, torch.zeros_like(x))
        none = torch.zeros_like(who)
        state: State = {
            "key": key,
            "track": track,
            "car": car | {"steer": wheels - turn, "rear": wheels - turn},
            "params": vehicle_params(self.vehicle, len(who), who.device),
            "visited": who.new_zeros(len(who), self.tiles.most + 1, dtype=torch.bool),
            "count": none,
            "frame": frame,
            "began": frame,
            "node": node,
            "tile": node,
            "off": none,
            "spoiled": none.to(torch.bool),
        }
        contact = self._touch(state)
        return state | {
            "visited": contact.visited,
            "owed": contact.gained,
            "grip": _grip(contact.on_road),
        }

    def _find_starts(self) -> Tensor:
        """Poses to begin in (T, S, 4): the hull, its angle, and the wheels'; first on the line."""
        nodes = 0 if self.config.start == "line" else self.tiles.most
        poses = np.zeros((len(self.tracks), 1 + nodes, 4))
        for row, track in enumerate(self.tracks):
            poses[row, 0] = *first_pose(track), track.turn[0]
            here = np.stack((track.x, track.y, track.turn, track.turn), -1)[:nodes]
            poses[row, 1 : 1 + len(here)] = here
        return torch.tensor(poses, dtype=torch.float32, device=self.device)

    def _start(self, key: Tensor, track: Tensor) -> tuple[Tensor, Tensor]:
        """Whether to begin on the line (B,) bool, and the node to begin on (B,) int64."""
        if self.config.start == "line":
            return torch.ones_like(track, dtype=torch.bool), torch.zeros_like(track)
        place, lot = uniform(make_key(key, Stream.START), 2).unbind(-1)
        node = torch.floor(place * self.tiles.count[track]).to(torch.int64)
        on_line = lot < (ON_LINE if self.config.start == "mixed" else 0.0)
        return on_line, torch.where(on_line, 0, node)

    @staticmethod
    def _driven(state: State) -> Tensor:
        """Frames since the episode began (B,)."""
        frame: Tensor = state["frame"]
        return frame - state["began"]

    def advance(self, state: State, action: Tensor) -> Outcome:
        """Drive some frames under one action and judge them."""
        command = self._command(action)
        over = torch.zeros_like(state["off"], dtype=torch.bool)
        terms: dict[str, Tensor] = {}
        for frame in range(self.config.repeat):
            after, paid, ended = self._drive(state, command)
            if frame:
                stands = over | (self._driven(state) >= self.config.max_frames)
                after = choose_tree(stands, state, after)
                paid = {name: torch.where(stands, 0.0, part) for name, part in paid.items()}
                paid = {name: terms[name] + part for name, part in paid.items()}
                ended = ended & ~stands
            state, terms, over = after, paid, over | ended
        return Outcome(
            state=state,
            terms={name: part.unsqueeze(-1) for name, part in terms.items()},
            terminated=over,
            cut=self._driven(state) >= self.config.max_frames,
            metrics=self._metrics(state),
        )

    def _command(self, action: Tensor) -> Tensor:
        """Steering to the left, gas and brake (B, 1, 3)."""
        action = torch.maximum(action, self.lowest).clamp(max=1.0)
        if self.config.actions == "pair":
            steer, pedal = action.unbind(-1)
            gas, brake = pedal.clamp(min=0.0), pedal.clamp(max=0.0) * -self.config.brake
        else:
            steer, gas, brake = action.unbind(-1)
        return torch.stack([-steer, gas, brake], -1)

    def _frame(self, state: State, command: Tensor) -> tuple[State, dict[str, Tensor], Tensor]:
        """The state a frame later, what it paid by name (B,), whether it ended the episode (B,)."""
        contact = self._touch(state)
        car = advance(
            self.vehicle, state["car"], command, state["params"], state["grip"],
            torch.zeros_like(state["car"]["x"]), self.vehicle.physics_dt, 1,
        )  # fmt: skip
        gained = contact.gained + state["owed"]
        count = state["count"] + gained
        off = torch.where(contact.on_road.any(-1), 0, state["off"] + 1)
        after = state | {
            "car": car,
            "grip": _grip(contact.on_road),
            "tile": contact.tile,
            "visited": contact.visited,
            "count": count,
            "owed": torch.zeros_like(count),
            "frame": state["frame"] + 1,
            "off": off,
            "spoiled": state["spoiled"] | (contact.missed > 0),
        }
        tiles = self.tiles.count[state["track"]]
        x, y = _hull(car)
        left = torch.maximum(x.abs(), y.abs()) > PLAYFIELD
        again = contact.first & (state["node"] == 0) & (count > ENOUGH * tiles)
        lap = (count == tiles) | again
        time = torch.full_like(x, REWARD["time"])
        paid = {
            "tiles": torch.where(left, 0.0, REWARD["tiles"] * gained / tiles),
            "time": torch.where(left, 0.0, time),
            "left": left * REWARD["left"],
        }
        if self.config.reward == "thorough":
            paid["missed"] = contact.missed * THOROUGH["missed"]
            paid["spoiled"] = (after["spoiled"] & ~state["spoiled"]) * THOROUGH["spoiled"]
            paid["grass"] = (off > 0) * THOROUGH["grass"]
            return after, paid, left | lap | (off >= PATIENCE)
        return after, paid, left | lap

    def _touch(self, state: State) -> Contact:
        """What the wheels touch where they are."""
        car, track, visited = state["car"], state["track"], state["visited"]
        x, y, heading, steer = (car[name][:, 0] for name in ("x", "y", "heading", "steer"))
        ids = nearby(self.tiles, track, x, y)
        touched = touching(self.tiles, track, ids, x, y, heading, steer)  # (B, W, K)
        known, here = visited.gather(1, ids), touched.any(1)
        new = here & ~known
        visited = visited.scatter(1, ids, known | new)
        tiles, node = self.tiles.count[track].unsqueeze(-1), state["node"].unsqueeze(-1)
        behind = visited.gather(1, torch.remainder(ids - BEHIND, tiles))
        along = torch.remainder(ids - node, tiles)
        # Where roads cross, the one that the car came along.
        reach = torch.remainder(ids - state["tile"].unsqueeze(-1) + NEAR, tiles) < 2 * NEAR
        most, place = torch.where(here, along + tiles * reach, -1).max(-1)
        tile = torch.where(most < 0, state["tile"], ids.gather(1, place.unsqueeze(-1))[:, 0])
        return Contact(
            visited=visited,
            gained=new.sum(-1),
            missed=(new & reach & (along >= BEHIND) & ~behind).sum(-1),
            first=(new & (ids == 0)).any(-1),
            on_road=touched.any(-1),
            tile=tile,
        )

    def know(self, state: State) -> Tensor:
        """All that decides how good a moment is, in numbers (B, K)."""
        car, track, tiles = state["car"], state["track"], self.tiles.count[state["track"]]
        own = [car[name] for name in ("vx", "vy", "yaw_rate", "steer", "gas")]
        x, y, cos, sin = car["x"], car["y"], car["heading"].cos(), car["heading"].sin()
        ahead = torch.remainder(state["tile"].unsqueeze(-1) + self.ahead, tiles.unsqueeze(-1))
        node_x, node_y = self.nodes[track.unsqueeze(-1), ahead].unbind(-1)  # (B, course)
        dx, dy = node_x - x, node_y - y
        left = (tiles - state["count"]) / tiles
        late = self._driven(state) / self.config.max_frames
        new = (~state["visited"].gather(1, ahead)).to(x.dtype)
        parts = [torch.cat(own, -1), car["spin"][:, 0], state["grip"][:, 0]]
        parts += [dx * cos + dy * sin, dy * cos - dx * sin, new]
        parts += [torch.stack([left, late, state["off"] / PATIENCE, state["spoiled"]], -1)]
        return torch.cat(parts, -1)

    def _metrics(self, state: State) -> dict[str, Tensor]:
        car, count = state["car"], state["count"]
        tiles = self.tiles.count[state["track"]]
        x, y = _hull(car)
        time = self._driven(state) / FRAMES_PER_SECOND
        return {
            "tiles": count / tiles,
            "progress": count * STEP,
            "lap_time": torch.where(count == tiles, time, 0.0),
            "speed": self._speed(car),
            "on_road": (state["off"] == 0).to(torch.float32),
            "x": x,
            "y": y,
        }

    def _speed(self, car: State) -> Tensor:
        """Speed of the hull (B,), which is held back last of all."""
        speed = torch.sqrt(car["vx"] ** 2 + car["vy"] ** 2)[:, 0]
        return speed.clamp(max=self.vehicle.top_speed)

    # --- the picture ---------------------------------------------------------------------------

    def observe(self, state: State) -> Tensor:
        """Pictures (B, 1, H, W), or with colours (B, 1, H, W, 3)."""
        car = state["car"]
        x, y = _hull(car)
        pictures = self.painter.draw(
            track=state["track"],
            x=x,
            y=y,
            turn=car["heading"][:, 0] - math.pi / 2,
            steer=car["steer"][:, 0],
            frame=state["frame"],
            spin=car["spin"][:, 0],
            yaw_rate=car["yaw_rate"][:, 0],
            speed=self._speed(car),
        )
        return self.looks.change(pictures, state["key"], state["frame"]).unsqueeze(1)

    def present(self, observed: Tensor) -> Tensor:
        """Pictures (B, 1, H, W, C)."""
        return observed.unsqueeze(-1) if observed.dim() == 4 else observed


def five_actions(config: CarRacingConfig) -> Tensor:
    """Gymnasium's five discrete actions as this task takes them (5, A)."""
    table = torch.tensor(FIVE_ACTIONS)
    if config.actions == "triple":
        return table
    return torch.stack([table[:, 0], table[:, 1] - table[:, 2] / config.brake], -1)


def _grip(on_road: Tensor) -> Tensor:
    """Grip under wheels that touch a tile or not (B, W), as (B, 1, W)."""
    return torch.where(on_road, 1.0, GRASS).unsqueeze(1)


def _hull(car: State) -> tuple[Tensor, Tensor]:
    """Place of the hull's origin (B,)."""
    heading = car["heading"][:, 0]
    return car["x"][:, 0] + HULL * torch.cos(heading), car["y"][:, 0] + HULL * torch.sin(heading)
