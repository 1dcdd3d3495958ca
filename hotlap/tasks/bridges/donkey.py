"""A DonkeyCar in a simulator over the wire, as a `gymnasium.Env`.

Sees, does, earns and ends as the donkey task with its camera does in this process, so that a policy
drives in either unchanged; in Unity's simulator or in `hotlap serve`, here or on another machine.
"""

from typing import Any

import gymnasium as gym
import numpy as np

from hotlap.config.bridges import USUAL_HOST, USUAL_PORT, BridgeConfig
from hotlap.config.tasks import DonkeyConfig
from hotlap.tasks.adapters.arrays import Array, check_render_mode
from hotlap.tasks.bridges.lidar import LidarRows
from hotlap.tasks.bridges.pictures import read_any_picture
from hotlap.tasks.bridges.verdicts import has_run_out, judge_sights, refuse_untold
from hotlap.tasks.bridges.wire_batch import camera_spaces
from hotlap.tasks.bridges.wire_car import Sight, WireCar
from hotlap.wire.client import SimulatorGone
from hotlap.wire.messages import Command, LidarConfig

__all__ = ["DonkeyBridge", "SimulatorGone"]


class DonkeyBridge(gym.Env[Array, Array]):
    """One car in one simulator.

    It connects with the first `reset`, and again with any `reset` after the simulator went away. A
    simulator that does not answer within `timeout` seconds ends a call with `SimulatorGone`. A seed
    changes nothing: simulators always begin alike.

    Args:
        track: Scene to drive in.
        host: Where the simulator runs.
        port: Where it listens.
        render_mode: None, or "rgb_array" for pictures from `render`.
        frame_skip: Frames that every action is held for; the last one is seen and paid.
        timeout: Seconds after which a simulator that does not answer is gone.
        patience: Seconds to go on trying to connect.
        lockstep: Have the car wait for every command: auto (does with hotlap serve), on or off.
        encoding: How pictures travel: PNG or JPG.
        dressing: What else the simulator is told where the car is new.
        mount: How the camera is mounted, beyond what our own cameras can, by `CamConfig`'s names.
        **settings: Settings of the donkey task.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 20}  # noqa: RUF012

    def __init__(
        self,
        track: str = "generated_track",
        host: str = USUAL_HOST,
        port: int = USUAL_PORT,
        render_mode: str | None = None,
        *,
        frame_skip: int = 1,
        timeout: float = 5.0,
        patience: float = 5.0,
        lockstep: Any = "auto",
        encoding: Any = "PNG",
        dressing: tuple[Command, ...] = (),
        mount: dict[str, float] | None = None,
        **settings: Any,
    ) -> None:
        self.config = DonkeyConfig(**{"tracks": (track,), **settings})
        refuse_untold(self.config)
        if frame_skip < 1:
            raise ValueError(f"frame_skip must be at least 1, got {frame_skip}")
        self.track = track
        self.frame_skip = frame_skip
        self.render_mode = check_render_mode(render_mode)
        self.observation_space, self._bounds = camera_spaces(self.config)
        self.action_space = self._bounds
        shown = f"[{host}]" if ":" in host else host
        bridge = BridgeConfig((f"{shown}:{port}",), timeout, patience, lockstep, encoding)
        camera = self.config.camera
        self.car = WireCar(bridge.addresses[0], camera, bridge, dressing, mount)
        lidars = [command for command in dressing if isinstance(command, LidarConfig)]
        self._lidar = LidarRows(lidars[-1]) if lidars else None
        self._sight: Sight | None = None
        self._steps = 0
        self._over = True

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Put the car at its start; finds the simulator again where it went away."""
        super().reset(seed=seed)
        if options:
            raise ValueError(f"reset takes no options, got {', '.join(options)}")
        self._over = True
        self._sight = self.car.reset(self.track)
        self._steps, self._over = 0, False
        return self._sight.picture, self._info(self._sight)

    def step(self, action: Array) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """Drive for one action."""
        if self._over:
            raise RuntimeError("the episode has ended; call reset before the next step")
        action = np.asarray(action, dtype=np.float32)
        if action.shape != (2,) or not np.isfinite(action).all():
            raise ValueError(
                f"an action is two finite numbers, steering and throttle, got {action}"
            )
        self._over = True  # unless nothing fails on the way
        steering, throttle = np.clip(action, self._bounds.low, self._bounds.high).tolist()
        for _ in range(self.frame_skip):
            self.car.send(steering, throttle)
            self._sight = sight = self.car.receive()
            terms, over = judge_sights(self.config, [sight])
            terminated, late = bool(over), has_run_out(self.track, sight.telemetry)
            if terminated or late:
                break
        self._steps += 1
        truncated = (late or self._steps >= self.config.max_steps) and not terminated
        self._over = terminated or truncated
        told = {f"reward/{name}": float(term) for name, term in terms.items()}
        reward = sum(told.values())
        return sight.picture, reward, terminated, truncated, self._info(sight) | told

    def _info(self, sight: Sight) -> dict[str, Any]:
        """What gym_donkeycar tells, by its names and in its axes."""
        report = sight.telemetry
        ahead = report.speed if report.vel_z is None else report.vel_z
        info: dict[str, Any] = {
            "pos": (report.pos_x or 0.0, report.pos_y or 0.0, report.pos_z or 0.0),
            "cte": report.cte or 0.0,
            "speed": report.speed,
            "forward_vel": ahead,
            "hit": report.hit,
            "gyro": (report.gyro_x, report.gyro_y, report.gyro_z),
            "accel": (report.accel_x, report.accel_y, report.accel_z),
            "vel": (report.vel_x or 0.0, report.vel_y or 0.0, report.vel_z or 0.0),
            "car": (report.roll, report.pitch, report.yaw),
            "lidar": [] if self._lidar is None else self._lidar(report.lidar or ()),
            "last_lap_time": sight.last_lap_time,
            "lap_count": sight.laps,
        }
        second = report.image_b or report.imageb
        if second is not None:
            info["image_b"] = read_any_picture(second)
        return info

    def render(self) -> Array | None:  # type: ignore[override]
        """The camera's picture, in three channels."""
        if self.render_mode is None or self._sight is None:
            return None
        picture = self._sight.picture
        return picture if picture.shape[-1] == 3 else np.repeat(picture, 3, axis=-1)

    def close(self) -> None:
        """Leave the simulator."""
        self.car.close()
