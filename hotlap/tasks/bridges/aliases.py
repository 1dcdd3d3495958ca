"""gym_donkeycar's environments by their own names, without gym_donkeycar.

`register_aliases` tells Gymnasium about those that nobody has registered yet. They take the same
`conf`; with a host, a port or an `exe_path` in it they drive in a simulator over the wire, without
one in this process.
"""

import math
from collections.abc import Mapping
from typing import Any

import gymnasium as gym

from hotlap.config.bridges import SCENES
from hotlap.tasks.adapters.arrays import Array
from hotlap.tasks.adapters.gym_env import GymEnv
from hotlap.tasks.bridges.conf import Conf, read_conf
from hotlap.tasks.bridges.donkey import DonkeyBridge
from hotlap.tasks.bridges.pictures import UNIT
from hotlap.tasks.donkey import DonkeyTask
from hotlap.tasks.task import State
from hotlap.wire.messages import CarConfig

BRIDGE_ID = "hotlap/DonkeyBridge-v0"


def register_aliases() -> list[str]:
    """Register what is not there yet: real gym_donkeycar's own are left alone."""
    here = "hotlap.tasks.bridges"
    if BRIDGE_ID not in gym.registry:
        gym.register(BRIDGE_ID, entry_point=f"{here}.donkey:DonkeyBridge")
    for name, scene in SCENES.items():
        if name not in gym.registry:
            gym.register(name, entry_point=f"{here}.aliases:make_alias", kwargs={"level": scene})
    return [BRIDGE_ID, *SCENES]


def make_alias(
    level: str, conf: Mapping[str, Any] | None = None, render_mode: str | None = None
) -> gym.Env[Array, Array]:
    """The environment that gym_donkeycar would make.

    Args:
        level: The scene.
        conf: gym_donkeycar's settings; left as it is.
        render_mode: None, or "rgb_array" for pictures from `render`.
    """
    asked = read_conf(level, conf)
    if asked.address is None:
        return DonkeyHere(asked, render_mode)
    host, port = asked.address
    settings = vars(asked.settings)
    return DonkeyBridge(
        level, host, port, render_mode,
        frame_skip=asked.frame_skip, patience=asked.patience, encoding=asked.encoding,
        dressing=asked.dressing, mount=asked.mount, **settings,
    )  # fmt: skip


class DonkeyHere(gym.Env[Array, Array]):
    """An environment of gym_donkeycar's, in this process.

    Args:
        conf: What is asked for.
        render_mode: None, or "rgb_array" for pictures from `render`.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 20}  # noqa: RUF012

    def __init__(self, conf: Conf, render_mode: str | None = None) -> None:
        _refuse_here(conf)
        self.inner = GymEnv(DonkeyTask(conf.settings), render_mode)
        self.render_mode = render_mode
        self.frame_skip = conf.frame_skip
        self.observation_space = self.inner.observation_space
        self.action_space = self.inner.action_space
        self._last_lap_time = 0.0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Begin an episode."""
        seen, _ = self.inner.reset(seed=seed, options=options)
        self._last_lap_time = 0.0
        return seen, self._info(self.inner.batch.world, hit=False)

    def step(self, action: Array) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """Hold an action for `frame_skip` frames, the last of which is seen and paid."""
        for _ in range(self.frame_skip):
            seen, reward, terminated, truncated, told = self.inner.step(action)
            self._last_lap_time = told["lap_time"] or self._last_lap_time
            if terminated or truncated:
                break
        info = self._info(self.inner.batch.ended_world, hit=told["hit"] > 0)
        return seen, reward, terminated, truncated, info

    def _info(self, world: State, hit: bool) -> dict[str, Any]:
        """What gym_donkeycar tells, by its names and in Unity's axes: right, up, ahead."""
        car = {name: float(value[0, 0]) for name, value in world["car"].items() if value.dim() == 2}
        place, laps = world["place"], world["laps"]
        climb, error = float(place["climb"][0, 0]), float(place["heading_error"][0, 0])
        pitch = -math.degrees(math.atan(climb * math.cos(error)))
        roll = math.degrees(math.atan(climb * math.sin(error)))
        return {
            "pos": (car["x"], float(place["z"][0, 0]), car["y"]),
            "cte": -float(place["n"][0, 0]) / UNIT,
            "speed": math.hypot(car["vx"], car["vy"]),
            "forward_vel": car["vx"],
            "hit": "wall" if hit else "none",
            "gyro": (0.0, -car["yaw_rate"], 0.0),
            "accel": (-car["ay"], 0.0, car["ax"]),
            "vel": (-car["vy"], 0.0, car["vx"]),
            "car": (roll % 360, pitch % 360, (90 - math.degrees(car["heading"])) % 360),
            "lidar": [],
            "last_lap_time": self._last_lap_time,
            "lap_count": int(laps["laps"][0, 0]),
        }

    def render(self) -> Array | None:  # type: ignore[override]
        """The camera's picture."""
        return self.inner.render()


def _refuse_here(conf: Conf) -> None:
    """Stop at what only a simulator over the wire can do; how the car looks is of no matter."""
    beyond = [c.msg_type for c in conf.dressing if not isinstance(c, CarConfig)]
    beyond += [f"{name} of cam_config" for name in conf.mount]
    if beyond:
        raise ValueError(
            f"{beyond[0]} is for simulators over the wire; give conf a host and a port (see "
            "hotlap serve), or leave it out"
        )
    if conf.frame_skip < 1:
        raise ValueError(f"frame_skip must be at least 1, got {conf.frame_skip}")
