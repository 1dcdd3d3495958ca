"""What travels between a DonkeyCar simulator and its client.

    command  from the client: a flat JSON object whose numbers are strings
    report   from the simulator: a JSON object whose numbers are numbers
    u        the simulator's raw unit of length, 0.125 m
    m        telemetry's unit of length: raw units divided by 8

Axes are Unity's: x to the right, y up, z ahead at yaw 0; yaw in degrees, clockwise. Field order is
the order on the wire. A field whose name on the wire is not a name of ours carries it in `wire`.
"""

import math
import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from functools import cache
from typing import Any, ClassVar

LARGEST_WHOLE = 2**53
"""Beyond this a whole number may have been rounded on its way."""

LidarPoint = tuple[float, float, float]
"""Distance (u), sweep angle in [0, 360) and angle above the first level, degrees."""


class BadMessage(ValueError):
    """A message lacks a field, or a field is not what it must be."""


def _named(wire: str, default: Any = MISSING) -> Any:
    """A field that is called `wire` on the wire."""
    return field(default=default, metadata={"wire": wire})


# --- Commands ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Command:
    """What a client can say."""

    msg_type: ClassVar[str]


@dataclass(frozen=True)
class GetProtocolVersion(Command):
    """Ask for `ProtocolVersion`."""

    msg_type = "get_protocol_version"


@dataclass(frozen=True)
class GetSceneNames(Command):
    """Ask for `SceneNames`."""

    msg_type = "get_scene_names"


@dataclass(frozen=True)
class LoadScene(Command):
    """Enter a scene; answered by `CarLoaded`."""

    msg_type = "load_scene"
    scene_name: str


@dataclass(frozen=True)
class ExitScene(Command):
    """Go back to the menu; not answered."""

    msg_type = "exit_scene"


@dataclass(frozen=True)
class QuitApp(Command):
    """End the simulator."""

    msg_type = "quit_app"


@dataclass(frozen=True)
class Control(Command):
    """Drive so until told otherwise."""

    msg_type = "control"
    steering: float
    """-1 to 1, positive to the right."""
    throttle: float
    """-1 to 1."""
    brake: float = 0.0
    """0 to 1."""


@dataclass(frozen=True)
class ResetCar(Command):
    """Put the car back to its start, at rest; not answered."""

    msg_type = "reset_car"


@dataclass(frozen=True)
class SetPosition(Command):
    """Put the car somewhere, at rest, in raw units; without a rotation it keeps its own."""

    msg_type = "set_position"
    pos_x: float
    pos_y: float
    pos_z: float
    qx: float | None = _named("Qx", None)
    qy: float | None = _named("Qy", None)
    qz: float | None = _named("Qz", None)
    qw: float | None = _named("Qw", None)


@dataclass(frozen=True)
class GetNodePosition(Command):
    """Ask where a node of the path is; answered by `NodePosition` if there is one."""

    msg_type = "node_position"
    index: int


@dataclass(frozen=True)
class RegenRoad(Command):
    """Build another random road, in a scene that has one; negative numbers are folded."""

    msg_type = "regen_road"
    road_style: int = 0
    rand_seed: int = 0
    turn_increment: float = 0.0
    """Most that the road's turn changes by every 2 u, degrees; 0 leaves it to `rand_seed`."""


@dataclass(frozen=True)
class StepMode(Command):
    """Wait for a control before every step ("synchronous"), or run on."""

    msg_type = "step_mode"
    step_mode: str
    time_step: float = 0.0


@dataclass(frozen=True)
class CarConfig(Command):
    """What the car looks like, and its name."""

    msg_type = "car_config"
    body_style: str = "donkey"
    body_r: float = 255.0
    body_g: float = 255.0
    body_b: float = 255.0
    car_name: str = "car"
    font_size: float = 100.0


@dataclass(frozen=True)
class CamConfig(Command):
    """How the camera is mounted; 0 keeps what is the default."""

    msg_type = "cam_config"
    fov: float = 0.0
    """Vertical field of view, degrees."""
    fish_eye_x: float = 0.0
    fish_eye_y: float = 0.0
    img_w: int = 0
    img_h: int = 0
    img_d: int = 0
    """1 for grey, which still travels as three channels."""
    img_enc: str = "0"
    """JPG, PNG or TGA; anything else means JPG."""
    offset_x: float = 0.0
    """From the car's origin to the right, raw units; likewise up and ahead."""
    offset_y: float = 0.0
    offset_z: float = 0.0
    rot_x: float = 0.0
    """Turn downwards, degrees; then to the right, then over to the left."""
    rot_y: float = 0.0
    rot_z: float = 0.0


@dataclass(frozen=True)
class CamConfigB(CamConfig):
    """The same for the second camera, which it switches on."""

    msg_type = "cam_config_b"


@dataclass(frozen=True)
class LidarConfig(Command):
    """How the lidar sweeps; switches it on."""

    msg_type = "lidar_config"
    deg_per_sweep_inc: float = _named("degPerSweepInc", 2.0)
    """Degrees between beams of a sweep."""
    deg_ang_down: float = _named("degAngDown", 0.0)
    """How far the first level looks down, degrees."""
    deg_ang_delta: float = _named("degAngDelta", -1.0)
    """What the angle down changes by from level to level."""
    num_sweeps_levels: int = _named("numSweepsLevels", 1)
    max_range: float = _named("maxRange", 50.0)
    """Raw units."""
    noise: float = 0.0
    offset_x: float = 0.0
    offset_y: float = 0.5
    offset_z: float = 0.5
    rot_x: float = 0.0


# --- Reports -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Report:
    """What a simulator can say."""

    msg_type: ClassVar[str]


@dataclass(frozen=True)
class ProtocolVersion(Report):
    """Which protocol this is."""

    msg_type = "protocol_version"
    version: str = "2"


@dataclass(frozen=True)
class SceneSelectionReady(Report):
    """The menu is shown: a scene can be loaded."""

    msg_type = "scene_selection_ready"
    loaded: str = "1"


@dataclass(frozen=True)
class SceneNames(Report):
    """What can be loaded."""

    msg_type = "scene_names"
    scene_names: tuple[str, ...]


@dataclass(frozen=True)
class CarLoaded(Report):
    """The car stands in its scene; telemetry follows."""

    msg_type = "car_loaded"


@dataclass(frozen=True)
class NodePosition(Report):
    """Where a node of the path is, in raw units, and which way the path goes on."""

    msg_type = "node_position"
    index: int
    pos_x: float
    pos_y: float
    pos_z: float
    qx: float = _named("Qx", 0.0)
    qy: float = _named("Qy", 0.0)
    qz: float = _named("Qz", 0.0)
    qw: float = _named("Qw", 1.0)


@dataclass(frozen=True)
class StartLine(Report):
    """The car crossed a start line."""

    msg_type = "collision_with_starting_line"
    starting_line_index: int
    time_stamp: float = _named("timeStamp")
    """Simulated seconds."""


@dataclass(frozen=True)
class Telemetry(Report):
    """What the car sees and feels, 20 times a simulated second; None is not sent."""

    msg_type = "telemetry"
    steering_angle: float
    """Last steering asked for, -1 to 1."""
    throttle: float
    image: str
    """An encoded picture in base64."""
    imageb: str | None = None
    """The second camera's, as the simulator calls it."""
    image_b: str | None = None
    """The same, as gym-donkeycar looks for it."""
    lidar: tuple[LidarPoint, ...] | None = None
    """Beams that met something; null on the wire where none did."""
    front_left_odom: float = 0.0
    """Turns of a wheel."""
    front_right_odom: float = 0.0
    rear_left_odom: float = 0.0
    rear_right_odom: float = 0.0
    hit: str = "none"
    """What was hit since the last telemetry."""
    time: float = 0.0
    """Simulated seconds since the scene was loaded."""
    speed: float = 0.0
    """Size of the velocity, m/s."""
    accel_x: float = 0.0
    """Change of the velocity in the body's frame, m/s2."""
    accel_y: float = 0.0
    accel_z: float = 0.0
    gyro_x: float = 0.0
    gyro_y: float = 0.0
    """Yaw rate, rad/s, clockwise positive."""
    gyro_z: float = 0.0
    pitch: float = 0.0
    """Nose down, degrees in [0, 360); likewise yaw, clockwise from +z, and roll, right side up."""
    yaw: float = 0.0
    roll: float = 0.0
    cte: float | None = None
    """Distance from the path, raw units, positive to its right."""
    active_node: int | None = _named("activeNode", None)
    total_nodes: int | None = _named("totalNodes", None)
    pos_x: float | None = None
    """Metres."""
    pos_y: float | None = None
    pos_z: float | None = None
    vel_x: float | None = None
    """In the body's frame, m/s: to the right, up, ahead."""
    vel_y: float | None = None
    vel_z: float | None = None
    frame: int | None = None
    """Ours alone: counts the states of this connection's car, so that gaps and repeats show."""
    episode: int | None = None
    """Ours alone: how often the car has been put somewhere."""


Message = Command | Report


def _by_name(*kinds: type[Any]) -> dict[str, type[Any]]:
    return {kind.msg_type: kind for kind in kinds}


COMMANDS: dict[str, type[Command]] = _by_name(
    GetProtocolVersion, GetSceneNames, LoadScene, ExitScene, QuitApp, Control, ResetCar,
    SetPosition, GetNodePosition, RegenRoad, StepMode, CarConfig, CamConfig, CamConfigB,
    LidarConfig,
)  # fmt: skip
"""What a client can say, by its `msg_type`."""
REPORTS: dict[str, type[Report]] = _by_name(
    ProtocolVersion, SceneSelectionReady, SceneNames, CarLoaded, NodePosition, StartLine, Telemetry
)
"""What a simulator can say, by its `msg_type`."""


# --- To and from JSON's own values ---------------------------------------------------------------


def read_command(values: Mapping[str, Any]) -> Command | None:
    """The command that a JSON object holds; None where its type is not known.

    Raises:
        BadMessage: The type is missing, or a field is missing or is not what it must be.
    """
    kind = COMMANDS.get(_type_of(values))
    return None if kind is None else _read(kind, values)


def read_report(values: Mapping[str, Any]) -> Report | None:
    """The report that a JSON object holds; None where its type is not known.

    Raises:
        BadMessage: The type is missing, or a field is missing or is not what it must be.
    """
    kind = REPORTS.get(_type_of(values))
    return None if kind is None else _read(kind, values)


def command_values(command: Command) -> dict[str, str]:
    """A command as the simulator takes it: numbers as strings, nothing nested."""
    values = {name: getattr(command, own) for own, name, _, _ in _layout(type(command))}
    said = {name: str(value) for name, value in values.items() if value is not None}
    return {"msg_type": command.msg_type, **said}


def report_values(report: Report) -> dict[str, Any]:
    """A report in the simulator's order; its list of scenes comes before the type."""
    values = {name: getattr(report, own) for own, name, _, _ in _layout(type(report))}
    said = {name: value for name, value in values.items() if value is not None}
    if "lidar" in said:
        points = [{"d": d, "rx": rx, "ry": ry} for d, rx, ry in said["lidar"]]
        said["lidar"] = points or None
    if isinstance(report, SceneNames):
        return {**said, "msg_type": report.msg_type}
    return {"msg_type": report.msg_type, **said}


def _type_of(values: Mapping[str, Any]) -> str:
    kind = values.get("msg_type")
    if not isinstance(kind, str):
        raise BadMessage(f"msg_type must be a word, got {kind!r}")
    return kind


def _read(kind: type[Any], values: Mapping[str, Any]) -> Any:
    found = {}
    for own, name, reader, needed in _layout(kind):
        if name in values:
            try:
                found[own] = reader(values[name])
            except (TypeError, ValueError, OverflowError) as error:
                raise BadMessage(f"{kind.msg_type}: {name} {error}") from None
        elif needed:
            raise BadMessage(f"{kind.msg_type}: {name} is missing")
    return kind(**found)


def _layout(kind: Any) -> tuple[tuple[str, str, Any, bool], ...]:
    """Of every field: our name, its name on the wire, how it is read, whether it must be there."""
    return _layout_of(kind)


@cache
def _layout_of(kind: Any) -> tuple[tuple[str, str, Any, bool], ...]:
    hints = typing.get_type_hints(kind)
    return tuple(
        (f.name, f.metadata.get("wire", f.name), _reader(hints[f.name]), f.default is MISSING)
        for f in fields(kind)
    )


def _reader(hint: Any) -> Any:
    """How a field of a type is read."""
    if isinstance(hint, types.UnionType):
        hint = next(part for part in typing.get_args(hint) if part is not types.NoneType)
    if hint == tuple[LidarPoint, ...]:
        return _points
    return {float: _number, int: _whole, str: _text, tuple[str, ...]: _texts}[hint]


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError("must be a number")
    number = float(value)
    if not math.isfinite(number):
        raise ValueError("must be finite")
    return number


def _whole(value: Any) -> int:
    number = _number(value)
    if not number.is_integer() or abs(number) > LARGEST_WHOLE:
        raise ValueError("must be a whole number")
    return int(number)


def _text(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError("must be text")
    return str(value)


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ValueError("must be a list")
    return tuple(_text(item) for item in value)


def _points(value: Any) -> tuple[LidarPoint, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(point, dict) for point in value):
        raise ValueError("must be a list of points")
    lacking = object()
    rows = [[point.get(name, lacking) for name in ("d", "rx", "ry")] for point in value]
    return tuple((_number(d), _number(rx), _number(ry)) for d, rx, ry in rows)
