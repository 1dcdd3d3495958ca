"""A client's car, beyond what the fleet knows of it."""

from dataclasses import dataclass

from hotlap.wire.messages import Control, LidarConfig, LidarPoint
from hotlap.wire.server.cameras import CAMERA_A, Mount
from hotlap.wire.server.scenes import Scene

FREE_STEPS = 5
"""Steps without touching a wall after which touching it again is another hit."""
STANDING = Control(0.0, 0.0, 1.0)


@dataclass
class Car:
    """What a car has been told and what has befallen it."""

    scene: Scene
    control: Control = STANDING
    camera: Mount = CAMERA_A
    second: Mount | None = None
    lidar: LidarConfig | None = None
    ticks: int = 0
    """Steps since the scene was loaded."""
    placed: bool = False
    """Whether it was put somewhere and has not moved since."""
    free: int = FREE_STEPS
    """Steps since it last touched a wall."""
    hit: str = "none"


@dataclass
class Count:
    """What goes on counting from scene to scene of a connection."""

    frame: int = 0
    episode: int = 0


@dataclass(frozen=True)
class Senses:
    """What a car sees, packed for a message."""

    image: str
    second: str | None
    lidar: tuple[LidarPoint, ...] | None
