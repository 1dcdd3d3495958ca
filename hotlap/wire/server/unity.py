"""Our world in the simulator's words, units and axes.

    ours     metres, radians, counter-clockwise from +x, left positive, z up
    Unity's  raw units (or metres, in telemetry), degrees, clockwise from +z, right positive, y up

So our x is Unity's x, our y is its z, and our heading is 90 degrees less its yaw.
"""

import math

from hotlap.sim.tracks import Track
from hotlap.sim.tracks.named import UNIT
from hotlap.wire.messages import NodePosition, SetPosition, Telemetry
from hotlap.wire.server.car import Car, Count, Senses
from hotlap.wire.server.fleet import Reading


def yaw_of(heading: float) -> float:
    """Unity's yaw, degrees clockwise from +z in [0, 360), of a heading of ours."""
    return _turn(90.0 - math.degrees(heading))


def _turn(degrees: float) -> float:
    """Degrees rounded, in [0, 360)."""
    return round(degrees % 360.0, 4) % 360.0


def _rounded(value: float, digits: int = 6) -> float:
    """Rounded, without a minus before a zero."""
    return round(value, digits) + 0.0


def heading_of(command: SetPosition) -> float | None:
    """The heading that a command's rotation means; None where it has none."""
    x, y, z, w = command.qx, command.qy, command.qz, command.qw
    if x is None or y is None or z is None or w is None:
        return None
    right, ahead = 2 * (x * z + w * y), w * w + z * z - x * x - y * y
    if not 0 < math.hypot(right, ahead) < math.inf:
        return None
    return math.pi / 2 - math.atan2(right, ahead)


def node_position(track: Track, index: int) -> NodePosition | None:
    """Where a node of a track's path is; None where there is no such node."""
    if not 0 <= index < track.num_points:
        return None
    after = (index + 1) % track.num_points if track.closed else index + 1
    first, second = (index, after) if after < track.num_points else (index - 1, index)
    dx, dy = (track.xy[second] - track.xy[first]).tolist()
    half = math.radians(yaw_of(math.atan2(dy, dx))) / 2
    x, y = (track.xy[index] / UNIT).tolist()
    return NodePosition(
        index=index,
        pos_x=round(x, 5),
        pos_y=round(float(track.z[index]) / UNIT, 5),
        pos_z=round(y, 5),
        qy=round(math.sin(half), 7),
        qw=round(math.cos(half), 7),
    )


def describe(car: Car, reading: Reading, senses: Senses, dt: float, count: Count) -> Telemetry:
    """A car in the simulator's words, units and axes."""
    turns = [_rounded(turn, 4) for turn in reading.turns]
    return Telemetry(
        steering_angle=_rounded(car.control.steering),
        throttle=_rounded(car.control.throttle),
        image=senses.image,
        imageb=senses.second,
        image_b=senses.second,
        lidar=senses.lidar,
        front_left_odom=turns[0],
        front_right_odom=turns[1],
        rear_left_odom=turns[2],
        rear_right_odom=turns[3],
        hit=car.hit,
        time=_rounded(car.ticks * dt, 4),
        speed=_rounded(math.hypot(reading.vx, reading.vy)),
        accel_x=_rounded(-reading.ay),
        accel_z=_rounded(reading.ax),
        gyro_y=_rounded(-reading.yaw_rate),
        pitch=_turn(-math.degrees(math.atan(reading.nose_up))),
        yaw=yaw_of(reading.heading),
        roll=_turn(-math.degrees(math.atan(reading.left_up))),
        cte=_rounded(-reading.n / UNIT, 5),
        active_node=reading.node,
        total_nodes=car.scene.track.num_points,
        pos_x=_rounded(reading.x),
        pos_y=_rounded(reading.z),
        pos_z=_rounded(reading.y),
        vel_x=_rounded(-reading.vy),
        vel_y=0.0,
        vel_z=_rounded(reading.vx),
        frame=count.frame,
        episode=count.episode,
    )
