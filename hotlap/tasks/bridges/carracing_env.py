"""The real CarRacing-v3: one environment, driven and seen as the settings say.

    frame   what a car shows every fiftieth of a second: 96 x 96 points in colour
    triple  steering (right is positive), gas and brake, as Gymnasium takes them

A car is Gymnasium's, or EnvPool's port of it to C++. Either ends an episode only when every tile
was touched: cars begin on tile 0, so the rule of 95 % never fires. Needs Box2D and pygame, or
envpool; nothing here needs torch, so that processes full of cars begin quickly.
"""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from hotlap.config.carracing import FIVE_ACTIONS, FRAMES_PER_SECOND, CarRacingConfig, controls
from hotlap.tasks.bridges.carracing_backends import FOR_LEAVING, PER_FRAME, Stepped, version_line
from hotlap.tasks.bridges.carracing_frames import LOOKS, Pixels, driver_spaces, driver_view
from hotlap.tasks.bridges.envpool_car import EnvPoolCar
from hotlap.tasks.bridges.gymnasium_car import GymnasiumCar


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
        return np.array(controls(told.tolist(), self.config))

    def _seen(self, frame: Pixels) -> Pixels:
        changed = LOOKS[self.config.look](frame[None], [self._seed], [self._frames])
        seen = driver_view(changed, self.config)[0]
        return np.ascontiguousarray(seen.transpose(2, 0, 1) if self.channels_first else seen)
