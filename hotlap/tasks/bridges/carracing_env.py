"""Gymnasium's own CarRacing-v3: one environment, driven and seen as the settings say.

    frame   what a car shows every fiftieth of a second: 96 x 96 points in colour
    triple  steering (right is positive), gas and brake, as Gymnasium takes them

A car is Gymnasium's, or EnvPool's port of it to C++. Either ends an episode only when every tile
was touched: cars begin on tile 0, so the rule of 95 % never fires. Needs Box2D and pygame, or
envpool; nothing here needs torch, so that processes full of cars begin quickly.
"""

import math
import os
import signal
import traceback
import warnings
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.error import DependencyNotInstalled
from numpy.typing import NDArray

from hotlap.config.carracing import FIVE_ACTIONS, FRAMES_PER_SECOND, Backend, CarRacingConfig
from hotlap.sim.carracing.tile_track import PLAYFIELD, TileTrack
from hotlap.tasks.bridges.carracing_frames import LOOKS, Pixels, driver_spaces, driver_view

os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")  # or importing it would print a greeting
MISSING: dict[str, str] = {}
"""Backends that cannot be driven here, and what to do about it."""
try:
    import Box2D
    import pygame
    from gymnasium.envs.box2d import car_racing

    CarRacing: Any = car_racing.CarRacing
except (ImportError, DependencyNotInstalled):
    MISSING["gymnasium"] = "CarRacing needs Box2D and pygame: pip install 'hotlap[carracing]'"
    CarRacing = gym.Env
try:
    import envpool  # type: ignore[import-not-found]
except ImportError:
    MISSING["envpool"] = "this backend needs EnvPool: pip install 'hotlap[envpool]'"

SCREEN = (1000, 800)
"""Width and height of what Gymnasium draws, before it is shrunk to a frame."""
GRASS = PLAYFIELD / 20.0
"""Side of a lighter square of grass; every other one along both ways is there."""
SHADE = 0.01 * 255
"""Levels between the three shades of tiles."""
PER_FRAME, FOR_LEAVING = -0.1, -100.0
"""Rewards of a frame, and in its place of one that leaves the field."""

Corners = Sequence[Sequence[float]]
Stepped = tuple[Pixels, float, bool, bool, dict[str, Any]]


def version_line(backend: Backend = "gymnasium") -> str:
    """What scores are driven in, to be printed with each.

    Raises:
        ImportError: It is not installed; says how to.
    """
    if backend == "twin":
        raise ValueError("the twin is no original: drive it as CarRacingTask")
    if backend in MISSING:
        raise ImportError(MISSING[backend])
    if backend == "envpool":
        return f"CarRacing-v3 of EnvPool {envpool.__version__}, whose seeds are not Gymnasium's"
    drawn = f"pygame {pygame.version.ver}"
    return f"CarRacing-v3 of Gymnasium {gym.__version__}, Box2D {Box2D.__version__}, {drawn}"


class GymnasiumCar(CarRacing):
    """CarRacing-v3, drawn only where somebody looks, on any track.

    It draws what Gymnasium does, point by point, but leaves out squares and tiles that are not on
    the screen before they are turned and shifted: that is half of the time.
    """

    def __init__(self) -> None:
        super().__init__()
        self.looking = True
        """Whether the next frame is seen; an episode's last one always is."""
        self._given: TileTrack | None = None
        lows = [GRASS * cell for cell in range(-20, 20, 2)]
        self._squares: list[Corners] = [
            [(x + GRASS, y), (x, y), (x, y + GRASS), (x + GRASS, y + GRASS)]
            for x in lows
            for y in lows
        ]
        self._square_discs = _discs(self._squares)
        self._tile_discs = np.empty((0, 3))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Pixels, dict[str, Any]]:
        """Begin on the seed's track, or on the one that options name `track`."""
        self.looking = True
        self._given = (options or {}).get("track")
        return super().reset(seed=seed)

    def told(self) -> dict[str, Any]:
        """What is known of the car beside its frame."""
        (x, y), speed = self.car.hull.position, self.car.hull.linearVelocity.length
        tiles, visited = len(self.track), self.tile_visited_count
        share = visited / tiles
        return {
            "tiles": tiles, "visited": visited, "share": share, "speed": speed, "x": x, "y": y
        }  # fmt: skip

    def picture(self) -> Pixels:
        """A larger picture (400, 600, 3), for videos."""
        return super()._render("rgb_array")

    # --- the track -----------------------------------------------------------------------------

    def _create_track(self) -> bool:
        laid = super()._create_track() if self._given is None else self._lay(self._given)
        if laid:
            self._tile_discs = _discs([corners for corners, _ in self.road_poly])
        return laid

    def _lay(self, given: TileTrack) -> bool:
        """Lay the tiles and kerbs of a track, in the order in which they are drawn."""
        self.road = []
        nodes = zip(given.turn.tolist(), given.x.tolist(), given.y.tolist(), strict=True)
        self.track = [(0.0, *node) for node in nodes]
        quads = zip(given.tiles.tolist(), given.kerbs.tolist(), given.kerb.tolist(), strict=True)
        for index, (corners, kerb, side) in enumerate(quads):
            self.fd_tile.shape.vertices = corners
            tile = self.world.CreateStaticBody(fixtures=self.fd_tile)
            tile.userData = tile
            tile.color = self.road_color + SHADE * (index % 3)
            tile.road_visited, tile.road_friction, tile.idx = False, 1.0, index
            tile.fixtures[0].sensor = True
            self.road.append(tile)
            self.road_poly.append((corners, tile.color))
            if side:
                self.road_poly.append((kerb, (255, 0, 0) if index % 2 else (255, 255, 255)))
        return True

    # --- the picture ---------------------------------------------------------------------------

    def _render(self, mode: str) -> Any:
        if mode == "state_pixels" and not (self.looking or self._is_over()):
            return self.state
        return super()._render(mode)

    def _is_over(self) -> bool:
        """Whether the frame being made ends the episode; Gymnasium finds out after drawing it."""
        outside = max(abs(place) for place in self.car.hull.position) > PLAYFIELD
        return outside or self.new_lap or self.tile_visited_count == len(self.track)

    def _render_road(self, zoom: float, translation: Sequence[float], angle: float) -> None:
        edge, where = PLAYFIELD, (zoom, translation, angle)
        field = [(edge, edge), (edge, -edge), (-edge, -edge), (-edge, edge)]
        self._draw_colored_polygon(self.surf, field, self.bg_color, *where, clip=False)
        for index in _on_screen(self._square_discs, *where):
            self._draw_colored_polygon(self.surf, self._squares[index], self.grass_color, *where)
        for index in _on_screen(self._tile_discs, *where):
            corners, colour = self.road_poly[index]
            levels = [int(level) for level in colour]
            self._draw_colored_polygon(self.surf, corners, levels, *where)


def _discs(shapes: Sequence[Corners]) -> NDArray[np.float64]:
    """Middle and radius of discs (K, 3) that hold shapes of four corners."""
    corners = np.array(shapes)
    middle = corners.mean(1)
    radius = np.linalg.norm(corners - middle[:, None], axis=-1).max(1)
    return np.column_stack([middle, radius])


def _on_screen(
    discs: NDArray[np.float64], zoom: float, translation: Sequence[float], angle: float
) -> list[int]:
    """Which discs (K, 3) reach the screen, or come within two points of it."""
    x, y, radius = discs.T * zoom
    across = math.cos(angle) * x - math.sin(angle) * y + translation[0]
    down = math.sin(angle) * x + math.cos(angle) * y + translation[1]
    reach = radius + 2.0
    near = (across > -reach) & (across < SCREEN[0] + reach)
    near &= (down > -reach) & (down < SCREEN[1] + reach)
    found: list[int] = np.flatnonzero(near).tolist()
    return found


class EnvPoolCar:
    """CarRacing-v3 of EnvPool: every frame is drawn, and its seeds make tracks of their own."""

    looking = True

    def __init__(self) -> None:
        self._pool: Any = None
        self._earned, self._frames = 0.0, 0
        self._frame = np.zeros((96, 96, 3), np.uint8)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Pixels, dict[str, Any]]:
        """Begin on the seed's track."""
        if (options or {}).get("track") is not None:
            raise ValueError("EnvPool drives only tracks of its own; use --backend gymnasium")
        # A pool of one, made anew: within a pool, an episode cannot be given its seed.
        seed = int(np.random.default_rng().integers(1 << 31)) if seed is None else seed
        self.close()
        with warnings.catch_warnings(action="ignore"):  # of its own spaces' precision
            self._pool = envpool.make_gymnasium(
                "CarRacing-v3", num_envs=1, num_threads=1, seed=seed % (1 << 31),
                max_episode_steps=1 << 30,
            )  # fmt: skip
        self._earned, self._frames, self._frame = 0.0, 0, self._pool.reset()[0][0]
        return self._frame, {}

    def step(self, triple: NDArray[np.float64]) -> Stepped:
        """Drive a frame."""
        frames, rewards, terminated, _, _ = self._pool.step(triple[None].astype(np.float32))
        self._frame, reward, over = frames[0], float(rewards[0]), bool(terminated[0])
        left = over and reward <= FOR_LEAVING
        self._earned += 0.0 if left else reward - PER_FRAME
        return self._frame, reward, over, False, {"lap_finished": over and not left}

    def told(self) -> dict[str, Any]:
        """What is known of the car beside its frame: all tiles together earn 1000."""
        return {"share": self._earned / 1000.0}

    def picture(self) -> Pixels:
        """The frame itself: EnvPool draws nothing larger."""
        return self._frame

    def close(self) -> None:
        """Let go of its thread."""
        if self._pool is not None:
            self._pool.close()


class CarRacingEnv(gym.Env[Pixels, Any]):
    """CarRacing-v3 with the action, view and look of a config.

    `reset(seed=7)` begins on the track that Gymnasium makes of seed 7, which also draws the look;
    `options={"track": TileTrack}` lays another one. Every step's info has `frames`,
    `lap_finished`, `share` (of tiles touched) and `terms` (the reward by name), with Gymnasium's
    car also `tiles`, `visited`, `speed`, `x` and `y`; the last step's has `lap_time`, in seconds,
    0 where the lap was not finished.

    Args:
        config: Backend, action, view, look, repeat and limit.
        channels_first: Pictures (C, H, W) in place of (H, W, C).
        discrete: Gymnasium's five actions (`FIVE_ACTIONS`) in place of the config's.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": FRAMES_PER_SECOND}  # noqa: RUF012

    def __init__(
        self,
        config: CarRacingConfig | None = None,
        channels_first: bool = False,
        discrete: bool = False,
    ) -> None:
        self.config = config or CarRacingConfig(backend="gymnasium")
        self.version_line = version_line(self.config.backend)
        self.render_mode = "rgb_array"
        self.channels_first, self.discrete = channels_first, discrete
        seen, self._acts = driver_spaces(self.config)
        size, _, channels = seen.shape
        shape = (channels, size, size) if channels_first else seen.shape
        self.observation_space = spaces.Box(0, 255, shape, np.uint8)
        self.action_space = spaces.Discrete(len(FIVE_ACTIONS)) if discrete else self._acts
        self.car: Any = EnvPoolCar() if self.config.backend == "envpool" else GymnasiumCar()
        self._seed, self._frames = 0, 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Pixels, dict[str, Any]]:
        """Begin an episode."""
        super().reset(seed=seed)
        self._seed = int(self.np_random.integers(1 << 31)) if seed is None else seed
        frame, _ = self.car.reset(seed=seed, options=options)
        self._frames = 0
        return self._seen(frame), {"frames": 0, "lap_finished": False} | self.car.told()

    def step(self, action: Any) -> Stepped:
        """Drive as many frames as an action lasts, or until the episode ends."""
        triple = self._triple(action)
        config, began, earned = self.config, self._frames, 0.0
        until = min(began + config.repeat, config.max_frames)
        if began >= until:
            raise RuntimeError("the episode is over; call reset first")
        over, finished = False, False
        while self._frames < until and not over:
            self._frames += 1
            self.car.looking = self._frames == until
            frame, reward, over, _, info = self.car.step(triple)
            earned += reward
            finished = over and info["lap_finished"]
        left = over and not finished
        terms = {
            "time": PER_FRAME * (self._frames - began - left),
            "left": FOR_LEAVING * left,
        }
        terms["tiles"] = earned - terms["time"] - terms["left"]
        late = self._frames >= config.max_frames
        told = {"frames": self._frames, "lap_finished": finished, "terms": terms} | self.car.told()
        if over or late:
            told["lap_time"] = self._frames / FRAMES_PER_SECOND if finished else 0.0
        return self._seen(frame), earned, over, late, told

    def render(self) -> Pixels:  # type: ignore[override]
        """A picture for videos, 600 x 400."""
        picture: Pixels = self.car.picture()
        return picture

    def close(self) -> None:
        """Let go of what was drawn on."""
        self.car.close()

    def _triple(self, action: Any) -> NDArray[np.float64]:
        if self.discrete:
            return np.array(FIVE_ACTIONS[int(action)])
        told = np.asarray(action, np.float64)
        if told.shape != self._acts.shape or not np.isfinite(told).all():
            raise ValueError(f"an action is {self._acts.shape[0]} finite numbers, got {action}")
        told = np.clip(told, self._acts.low, self._acts.high)
        if self.config.actions == "triple":
            return told
        steer, pedal = told
        return np.array([steer, max(pedal, 0.0), self.config.brake * max(-pedal, 0.0)])

    def _seen(self, frame: Pixels) -> Pixels:
        changed = LOOKS[self.config.look](frame[None], [self._seed], [self._frames])
        seen = driver_view(changed, self.config)[0]
        return np.ascontiguousarray(seen.transpose(2, 0, 1) if self.channels_first else seen)


def serve(
    pipe: Connection, config: CarRacingConfig, count: int, tracks: Sequence[TileTrack]
) -> None:
    """Life of a process full of cars: do what comes through a pipe until that closes.

    `[(place, seed, track), ...]` begins episodes and answers their pictures; where `track` is not
    None it is one of the given. An array of actions (count, A) drives all cars and answers their
    steps. What goes wrong is answered as words.
    """
    # A user's Ctrl-C reaches every process: the one that was asked closes the pipe.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        try:
            envs = [CarRacingEnv(config) for _ in range(count)]
            pipe.send(None)
            while True:
                told = pipe.recv()
                if isinstance(told, np.ndarray):
                    pipe.send([env.step(act) for env, act in zip(envs, told, strict=True)])
                else:
                    pipe.send([
                        envs[place].reset(
                            seed=seed, options={"track": None if track is None else tracks[track]}
                        )[0]
                        for place, seed, track in told
                    ])  # fmt: skip
        except (EOFError, BrokenPipeError, ConnectionResetError):
            raise
        except BaseException:
            pipe.send(traceback.format_exc())
