"""Drive a DonkeyCar round its tracks.

Sees: a forward camera (120x160x3), a lidar (19 beams and the car's own motion), telemetry, or the
    whole state, for teachers.
Does: steering in [-steer_limit, steer_limit], positive to the right as DonkeyCar has it, and
    throttle between throttle_min and throttle_max, 20 times a second.
Earns: a named reward (`donkey_rewards`); DonkeyCar's own by default, which pays forward speed times
    closeness to the line.
Ends: terminated where |cte| exceeds max_cte or a wall is hit, and with end="road" where no part of
    the car is on the road, it drives backwards or stands; truncated after max_steps or where an
    open road runs out.
Reports: cte (DonkeyCar units, positive to the right), speed, position, velocity, acceleration,
    gyro, progress, laps and lap times (of laps on which some part of the car stayed on the road),
    where on the road the car is, and how far its side is beyond the road's edge (metres).
"""

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from hotlap.config.tasks import DonkeyConfig
from hotlap.sim.atlas import unpack
from hotlap.sim.fields import survey
from hotlap.sim.lidar import cast_road, ray_bytes, wall_limits
from hotlap.sim.random import Stream, make_key, uniform
from hotlap.sim.randomisation import draw_vehicle, strangers
from hotlap.sim.roads import (
    Place,
    Roads,
    arc_between,
    course_ahead,
    curvature_ahead,
    lay_out,
    locate,
    pose_on,
)
from hotlap.sim.tracks import Track, find_track
from hotlap.sim.tracks.selection import expand
from hotlap.sim.vehicles.model import advance, initial_state
from hotlap.tasks.donkey_rewards import (
    Signals,
    Turning,
    needs_slip,
    needs_strange,
    needs_window,
    reward_terms,
)
from hotlap.tasks.efficiency import begin_window, move_window
from hotlap.tasks.laps import begin_laps, count_laps
from hotlap.tasks.road_camera import RoadCamera
from hotlap.tasks.task import Outcome, State, episode_key
from hotlap.tasks.track_choice import TrackTask, difficulty

UNIT = 0.125
"""One DonkeyCar unit in metres."""
PREVIEW = (0.4, 0.8, 1.4, 2.2, 3.2)
"""Distances ahead at which telemetry tells the road's curvature, metres."""
COURSE = (0.3, 0.6, 1.0, 1.4, 1.9, 2.4, 3.0, 3.7, 4.5, 5.5, 6.5, 8.0)
"""Distances ahead at which the whole state tells the road's course, metres."""
MOTION = ("speed", "lateral speed", "yaw rate", "acceleration", "lateral acceleration", "steering")
"""What a car feels of its own motion, in metres, seconds and radians.

Lidar adds its ranges; telemetry adds cte, sine and cosine of the heading error, the room to the
left and to the right edge (these lengths as shares of max_cte), and the curvature at PREVIEW. The
whole state has no cte, which is where the line is and not the road, but slope and grip, and the
road's width, grip and curvature at COURSE.
"""
REVERSING = 0.5
"""Backward speed at which an episode that ends with the road ends too, m/s."""
STANDING = (2.0, 0.2)
"""Seconds after which a car must be on its way, and the speed that counts as such, m/s."""
ROLLING = (-0.5, 2.0)
"""Range of the speed at a random start, m/s; below 0 is at rest, which is one start in five."""


class DonkeyTask(TrackTask):
    """See the module's first lines.

    Args:
        config: The task's settings.
        device: Where it lives.
        compiled: Whether steps and pictures are compiled.
        tracks: Tracks to use in place of those the config names.
    """

    name = "donkey"

    def __init__(
        self,
        config: DonkeyConfig,
        device: torch.device | str = "cpu",
        compiled: bool = False,
        tracks: tuple[Track, ...] | None = None,
    ) -> None:
        self.config = config
        self.device = torch.device(device)
        self.compiled = compiled
        self.vehicle = config.car
        self.control_dt = self.vehicle.control_dt
        self.max_steps = config.max_steps
        self.roads = lay_out(
            tracks or [find_track(name) for name in expand(config.tracks)], self.device
        )
        self.share: Tensor | None = None
        """Share () of the episodes that are randomised, where that changes with time."""
        self.turning: Turning | None = None
        """What its reward turns into, where it does."""
        self.starts = _Starts(self.roads)
        self.walls = _wall_distance(self.roads, self.vehicle.width / 2)
        self.camera: RoadCamera | None = None
        if config.sensor == "camera":
            self.camera = RoadCamera(config.camera, self.roads, config.randomise, compiled)
            self.staged = True
        if config.sensor == "lidar":
            self.fields = survey(self.roads)
            self.limits = wall_limits(self.roads, self.fields) if config.lidar.walls else None
        low = np.array([-config.steer_limit, config.throttle_min], dtype=np.float32)
        high = np.array([config.steer_limit, config.throttle_max], dtype=np.float32)
        self.action_space = spaces.Box(low, high)
        self.lowest = torch.as_tensor(low, device=self.device)
        self.highest = torch.as_tensor(high, device=self.device)
        ahead = COURSE if config.sensor == "state" else PREVIEW
        self.preview = torch.tensor(ahead, device=self.device)
        self.observation_space = self._observation_space()

    def _observation_space(self) -> spaces.Box:
        config = self.config
        if config.sensor == "camera":
            return spaces.Box(0, 255, config.camera.shape, np.uint8)
        sizes = {"lidar": config.lidar.beams, "telemetry": 5 + len(PREVIEW)}
        size = len(MOTION) + sizes.get(config.sensor, 6 + 3 * len(COURSE))
        return spaces.Box(-np.inf, np.inf, (size,), np.float32)

    @property
    def bytes_per_env(self) -> int:
        """Memory one environment takes while stepping."""
        sensing = 0 if self.camera is None else self.camera.bytes_per_picture
        if self.config.sensor == "lidar":
            sensing = ray_bytes(self.config.lidar)
        return max(super().bytes_per_env, 4096 + sensing)

    @property
    def track_names(self) -> list[str]:
        """Its tracks by name."""
        return [track.name for track in self.roads.tracks]

    @property
    def difficulties(self) -> list[float]:
        """How hard each of them looks."""
        tracks = self.roads.tracks
        return [difficulty(track.xy, track.closed, track.half_width) for track in tracks]

    def told_of(self, world: State) -> dict[str, Tensor]:
        """What the books of tracks want to know; every end but the clock's is a crash."""
        laps = world["laps"]
        return {
            "road": world["road"], "time": world["time"], "progress": laps["progress"],
            "laps": laps["laps"], "finished": torch.zeros_like(world["road"], dtype=torch.bool),
        }  # fmt: skip

    def vary_share(self) -> Tensor:
        """The share () of randomised episodes, to be written over; asked for before the first step.

        A captured or compiled step reads it where it is.
        """
        if self.share is None:
            self.share = torch.tensor(self.config.randomise.share, device=self.device)
        return self.share

    def turn_reward(self, name: str) -> Tensor:
        """How far its reward has turned into the one called `name` (), to be written over.

        Asked for before the first step; a captured or compiled step reads it where it is.
        """
        if self.turning is None or self.turning.name != name:
            self.turning = Turning(name, torch.zeros((), device=self.device))
        return self.turning.share

    @property
    def _rewards(self) -> list[str]:
        """Its reward, and what that turns into."""
        return [self.config.reward] + ([self.turning.name] if self.turning else [])

    # --- the episode ---------------------------------------------------------------------------

    def begin(self, seed: int | Tensor, who: Tensor, episode: Tensor) -> State:
        """Cars on their tracks, or on those drawn from the table; at a start pose or anywhere."""
        key = episode_key(seed, who, episode)
        if self.choice is not None:
            road = self.choice.draw(key).unsqueeze(-1)  # (B, 1)
        else:
            road = torch.remainder(who, len(self.roads.tracks)).unsqueeze(-1)
        s, n, turn, speed = self._start(key, road)
        x, y, heading, node = pose_on(self.roads, road, s, n)
        heading = heading + turn
        place = locate(self.roads, road, node, x, y, heading, torch.zeros_like(x))
        state: State = {
            "key": key,
            "road": road,
            "car": initial_state(self.vehicle, x, y, heading, speed),
            "params": draw_vehicle(self.config.randomise, self.vehicle, key, self.share),
            "place": place.tensors(),
            "laps": begin_laps(x),
            "time": torch.zeros_like(x),
            "throttle": torch.zeros_like(x),
        }
        if any(map(needs_window, self._rewards)):
            state["window"] = begin_window(x)
        if any(map(needs_strange, self._rewards)):
            state["strange"] = strangers(self.config.randomise, key, self.share).unsqueeze(-1)
        if self.camera is not None:
            state["camera"] = self.camera.begin(key, road.squeeze(-1), self.share)
        return state

    def _start(self, key: Tensor, road: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Arc length, offset, heading error and speed to begin with, each (B, 1)."""
        draws = uniform(make_key(key, Stream.START), 5).unsqueeze(-1).unbind(1)
        if self.config.start == "line":
            which = torch.floor(draws[0] * self.starts.count[road]).to(torch.int64)
            s, n, turn = self.starts.poses[road, which].unbind(-1)
            return s, n, turn, torch.zeros_like(s)
        s = draws[0] * self.roads.length[road] * torch.where(self.roads.closed[road], 1.0, 0.8)
        n = (draws[1] - 0.5) * 0.25 * self.starts.half_width[road]
        slowest, fastest = ROLLING
        speed = (slowest + draws[3] * (fastest - slowest)).clamp(min=0.0)
        return s, n, (draws[2] - 0.5) * 0.3, speed

    def advance(self, state: State, action: Tensor) -> Outcome:
        """Drive one control step and judge it."""
        config, car, road = self.config, state["car"], state["road"]
        action = torch.maximum(torch.minimum(action, self.highest), self.lowest)
        throttle = action[..., 1]
        command = torch.stack([-action[..., 0], throttle, torch.zeros_like(throttle)], -1)
        before = state["place"]
        slope = before["climb"] * torch.cos(before["heading_error"])
        car = advance(
            self.vehicle, car, command, state["params"], before["grip"], slope,
            self.vehicle.physics_dt, self.vehicle.substeps,
        )  # fmt: skip
        forward = car["vx"] * self.control_dt * torch.cos(before["heading_error"])
        place = locate(
            self.roads, road, before["node"], car["x"], car["y"], car["heading"], forward
        )
        moved = arc_between(self.roads, road, before["s"], place.s)
        time = state["time"] + self.control_dt
        window = self._window(state, car, moved)
        signals = self._signals(state, car, place, moved, window)
        laps = count_laps(
            state["laps"], moved, self.roads.length[road], time, self.control_dt, signals.on_road
        )
        after = state | {
            "car": car, "place": place.tensors(), "laps": laps, "time": time, "throttle": throttle,
        }  # fmt: skip
        if window:
            after["window"] = window
        over = (signals.off_track + signals.hit) > 0
        ran_out = ~self.roads.closed[road] & (place.s >= self.roads.length[road] - 2 * UNIT)
        return Outcome(
            state=after,
            terms=reward_terms(config.reward, signals, self.turning),
            terminated=over.squeeze(-1),
            cut=ran_out.squeeze(-1),
            metrics=self._metrics(after, signals),
        )

    def _window(self, state: State, car: State, moved: Tensor) -> State:
        """What efficiency is reckoned from after a step; empty where the reward never asks."""
        if "window" not in state:
            return {}
        before = state["car"]
        driven = torch.sqrt((car["x"] - before["x"]) ** 2 + (car["y"] - before["y"]) ** 2)
        return move_window(state["window"], moved, driven, self._clock(state).unsqueeze(-1))

    def _signals(
        self, before: State, car: State, place: Place, moved: Tensor, window: State
    ) -> Signals:
        """What the car did, as the rewards and endings read it."""
        off = place.n.abs() / (self.config.max_cte * UNIT)
        beyond = torch.maximum(place.n - place.width_left, -place.n - place.width_right)
        return Signals(
            closeness=(1 - off).clamp(min=0.0),
            forward=car["vx"],
            speed=torch.sqrt(car["vx"] ** 2 + car["vy"] ** 2),
            off_track=self._left(off, beyond, car["vx"], before["time"]).to(torch.float32),
            hit=(beyond > self.walls[before["road"]]).to(torch.float32),
            on_road=beyond < self.vehicle.width / 2,
            outside=(beyond / self.vehicle.width + 0.5).clamp(0.0, 1.0),
            moved=moved,
            steer_before=before["car"]["steer"],
            steer=car["steer"],
            full_steer=self.vehicle.full_steer,
            dt=self.control_dt,
            window=window,
            slip=self._slip(car) if any(map(needs_slip, self._rewards)) else None,
            strange=before.get("strange"),
        )

    def _slip(self, car: State) -> Tensor | None:
        """Slip of the rear tyres over that at which they hold best (B, 1); None without tyres."""
        vehicle = self.vehicle
        if vehicle.model != "dynamic":
            return None
        sideways = car["vy"] - vehicle.lr * car["yaw_rate"]
        rolling = torch.sqrt(car["vx"] ** 2 + vehicle.blend_speed**2)
        return sideways.abs() / (rolling * vehicle.peak_slip_rear)

    def _left(self, off: Tensor, beyond: Tensor, forward: Tensor, time: Tensor) -> Tensor:
        """Whether the car has left the road, or given up driving on it, for good (B, 1) bool."""
        left = off > 1
        if self.config.end == "cte":
            return left
        late, slow = STANDING
        stands = (time > late) & (forward < slow)
        return left | (beyond >= self.vehicle.width / 2) | (forward < -REVERSING) | stands

    def _metrics(self, state: State, signals: Signals) -> dict[str, Tensor]:
        car, place, laps = state["car"], state["place"], state["laps"]
        zero = torch.zeros_like(car["vx"])
        beyond = torch.maximum(place["n"] - place["width_left"], -place["n"] - place["width_right"])
        values = {
            "cte": -place["n"] / UNIT,
            "speed": signals.speed,
            "forward_vel": car["vx"],
            "hit": signals.hit,
            "s": place["s"],
            "n": place["n"],
            "heading_error": place["heading_error"],
            "over_edge": beyond + self.vehicle.width / 2,
            "progress": laps["progress"],
            "passed": laps["passed"],
            "laps": laps["laps"],
            "lap_time": laps["lap_time"],
        }
        vectors = {
            "pos": (car["x"], car["y"], place["z"]),
            "vel": (car["vx"], car["vy"], zero),
            "accel": (car["ax"], car["ay"], zero),
            "gyro": (zero, zero, car["yaw_rate"]),
        }
        stacked = {name: torch.cat(parts, -1) for name, parts in vectors.items()}
        return {name: value.squeeze(-1) for name, value in values.items()} | stacked

    # --- the senses ----------------------------------------------------------------------------

    def observe(self, state: State) -> Tensor:
        """A picture, raw (B, 1, H, W) or with channels (B, 1, H, W, C), or numbers (B, 1, K)."""
        if self.camera is not None:
            return self.camera.draw(state, self.vehicle.body_offset, self._clock(state)).unsqueeze(
                1
            )
        car, place = state["car"], state["place"]
        motion = [car[name] for name in ("vx", "vy", "yaw_rate", "ax", "ay", "steer")]
        if self.config.sensor == "lidar":
            return torch.cat([torch.stack(motion, -1), self._lidar(state)], -1)
        limit = self.config.max_cte * UNIT
        road_sense = [
            -place["n"] / limit,
            torch.sin(place["heading_error"]),
            torch.cos(place["heading_error"]),
            (place["width_left"] - place["n"]) / limit,
            (place["width_right"] + place["n"]) / limit,
        ]
        if self.config.sensor == "state":
            course = course_ahead(self.roads, state["road"], place["s"], self.preview)
            known = [*motion, *road_sense[1:], place["climb"], place["grip"]]
            return torch.cat([torch.stack(known, -1), course.flatten(-2)], -1)
        ahead = curvature_ahead(self.roads, state["road"], place["s"], self.preview)
        return torch.cat([torch.stack(motion + road_sense, -1), ahead], -1)

    def present(self, observed: Tensor) -> Tensor:
        """A picture (B, 1, H, W, C) or numbers (B, 1, K)."""
        raw = self.camera is not None and observed.dim() == 4
        return unpack(observed) if raw else observed

    def _clock(self, state: State) -> Tensor:
        """Control steps since the episode began (B,) int64."""
        return torch.round(state["time"][:, 0] / self.control_dt).to(torch.int64)

    def _lidar(self, state: State) -> Tensor:
        """Ranges (B, 1, beams) as shares of the longest."""
        car, road, config = state["car"], state["road"], self.config.lidar
        key = None
        if config.noise:
            key = make_key(state["key"], self._clock(state), Stream.LIDAR).unsqueeze(-1)
        ranges = cast_road(
            config, self.fields, road, car["x"], car["y"], car["heading"],
            limits=self.limits, key=key,
        )  # fmt: skip
        return ranges / (config.reach * self.starts.half_width[road].unsqueeze(-1))


class _Starts:
    """Start poses of every track: s, n, heading error (T, K, 3), how many (T,), half-width (T,)."""

    def __init__(self, roads: Roads) -> None:
        most = max(len(track.starts) for track in roads.tracks)
        poses = np.zeros((len(roads.tracks), most, 3))
        for row, track in enumerate(roads.tracks):
            for column, start in enumerate(track.starts):
                poses[row, column] = start.s, start.n, start.heading_error
        counts = [float(len(track.starts)) for track in roads.tracks]
        halves = [track.half_width for track in roads.tracks]
        self.poses = torch.tensor(poses, dtype=torch.float32, device=roads.device)
        self.count = torch.tensor(counts, device=roads.device)
        self.half_width = torch.tensor(halves, device=roads.device)


def _wall_distance(roads: Roads, half_car: float) -> Tensor:
    """How far beyond either edge a car's centre touches a wall (T,); infinite without one."""
    gaps = [torch.inf if t.wall_gap is None else t.wall_gap - half_car for t in roads.tracks]
    return torch.tensor(gaps, device=roads.device)
