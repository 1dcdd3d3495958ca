"""gym_donkeycar's `conf`, key by key, in the words of our own settings."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from hotlap.config.bridges import USUAL_HOST, USUAL_PORT
from hotlap.config.naming import nearest
from hotlap.config.sensors import CameraConfig
from hotlap.config.tasks import DonkeyConfig
from hotlap.tasks.bridges.pictures import UNIT
from hotlap.wire.messages import CamConfig, CamConfigB, CarConfig, Command, LidarConfig

LOOKS = ("body_style", "body_rgb", "car_name", "font_size")
"""What the car looks like; also taken inside `car_config`."""
UNUSED = ("level", "log_level", "racer_name", "bio", "country", "guid")
"""Taken, and of no consequence: the environment's name says which level, and nothing is logged."""
KEYS = (
    "host", "port", "exe_path", "start_delay", "max_cte", "frame_skip", "cam_resolution",
    "steer_limit", "throttle_min", "throttle_max", "car_config", "cam_config", "cam_config_b",
    "lidar_config", *LOOKS, *UNUSED,
)  # fmt: skip
NOT_LAUNCHED = ("remote", "manual")
"""What `exe_path` may say: hotlap starts no programs."""
ENDLESS = 10**9
"""Steps of an episode, which gym_donkeycar never cuts off."""
MOUNTING = ("fish_eye_x", "fish_eye_y", "offset_x", "rot_y", "rot_z")
"""Settings of a camera that simulators know and ours does not."""


@dataclass(frozen=True)
class Conf:
    """What a conf asks for."""

    settings: DonkeyConfig
    """Of the donkey task."""
    address: tuple[str, int] | None
    """Host and port of a simulator; None drives in this process."""
    frame_skip: int
    patience: float
    """Seconds to go on trying to connect."""
    encoding: str
    dressing: tuple[Command, ...]
    """What a simulator is told beyond the camera."""
    mount: dict[str, float]
    """What it is told of the camera beyond what ours can."""


def read_conf(scene: str, conf: Mapping[str, Any] | None) -> Conf:
    """Read a conf; a key that is not known is refused with the nearest that is."""
    told = dict(conf or {})
    _refuse_unknown(told, KEYS, "conf key")
    camera = _read(CamConfig, told.get("cam_config"), "key of cam_config")
    limits = {
        name: float(told[name])
        for name in ("max_cte", "steer_limit", "throttle_min", "throttle_max")
        if name in told
    }
    settings = DonkeyConfig(
        tracks=(scene,),
        camera=_lens(camera, told.get("cam_resolution")),
        max_steps=ENDLESS,
        **limits,  # type: ignore[arg-type]
    )
    exe = str(told.get("exe_path", "remote"))
    if exe not in NOT_LAUNCHED:
        raise ValueError(
            f"hotlap does not start {exe!r}; start the simulator, or hotlap serve --port 9091, and "
            "give its host and port in place of exe_path"
        )
    wired = any(key in told for key in ("host", "port", "exe_path"))
    address = (str(told.get("host", USUAL_HOST)), int(told.get("port", USUAL_PORT)))
    return Conf(
        settings=settings,
        address=address if wired else None,
        frame_skip=int(told.get("frame_skip", 1)),
        patience=max(float(told.get("start_delay", 5.0)), 0.1),
        encoding="PNG" if camera.img_enc.upper() not in ("JPG", "JPEG") else "JPG",
        dressing=_dressing(told),
        mount={name: getattr(camera, name) for name in MOUNTING if getattr(camera, name)},
    )


def _lens(config: CamConfig, resolution: Any) -> CameraConfig:
    """Our own camera, as far as it can be mounted so; 0 keeps what is usual."""
    camera = CameraConfig()
    asked = (config.img_h, config.img_w)
    if resolution is None:
        height, width, depth = (*asked, 3) if all(asked) else (camera.height, camera.width, 3)
    else:
        height, width, depth = (int(side) for side in resolution)
    if all(asked) and asked != (height, width):
        raise ValueError(
            f"cam_resolution is {height} x {width} (rows first) and cam_config's picture "
            f"{config.img_h} x {config.img_w}; make them the same"
        )
    if depth not in (1, 3):
        raise ValueError(f"cam_resolution ends in 1 (gray) or 3 (colour), got {depth}")
    camera = replace(camera, width=width, height=height, colour=depth == 3)
    if config.fov:
        camera = replace(camera, fov=config.fov)
    if config.offset_x or config.offset_y or config.offset_z:
        camera = replace(camera, up=config.offset_y * UNIT, forward=config.offset_z * UNIT)
    if config.rot_x or config.rot_y or config.rot_z:
        camera = replace(camera, pitch=(config.rot_x + 180) % 360 - 180)
    return camera


def _dressing(told: Mapping[str, Any]) -> tuple[Command, ...]:
    commands: list[Command] = []
    looks = {name: told[name] for name in LOOKS if name in told}
    inner = dict(told.get("car_config") or {})
    _refuse_unknown(inner, LOOKS, "key of car_config")
    if looks | inner:
        commands.append(_car(looks | inner))
    if "cam_config_b" in told:
        commands.append(_read(CamConfigB, told["cam_config_b"], "key of cam_config_b"))
    if "lidar_config" in told:
        commands.append(_read(LidarConfig, told["lidar_config"], "key of lidar_config"))
    return tuple(commands)


def _car(looks: Mapping[str, Any]) -> CarConfig:
    values = {name: value for name, value in looks.items() if name != "body_rgb"}
    if "body_rgb" in looks:
        red, green, blue = (float(part) for part in looks["body_rgb"])
        values |= {"body_r": red, "body_g": green, "body_b": blue}
    return CarConfig(**values)


def _read(kind: Any, table: Mapping[str, Any] | None, what: str) -> Any:
    """A command whose fields a table gives."""
    table = dict(table or {})
    _refuse_unknown(table, [field.name for field in fields(kind)], what)
    if "img_enc" in table:
        table["img_enc"] = str(table["img_enc"])
    return kind(**table)


def _refuse_unknown(table: Mapping[str, Any], known: Any, what: str) -> None:
    for key in table:
        if key in known:
            continue
        if what == "conf key" and key in {field.name for field in fields(CamConfig)}:
            raise ValueError(f"unknown conf key {key!r}; write it inside cam_config")
        raise ValueError(nearest(str(key), known, what))
