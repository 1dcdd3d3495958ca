"""Settings of the tasks."""

from dataclasses import dataclass, field
from typing import Literal

from hotlap.config.naming import nearest
from hotlap.config.randomisation import RandomisationConfig
from hotlap.config.sensors import CameraConfig, LidarConfig
from hotlap.config.vehicles import VehicleConfig, find_vehicle

SENSORS = ("camera", "lidar", "telemetry", "state")
DONKEY_REWARDS = (
    "default", "v1", "v2", "v3", "v4", "v5", "v6", "racing", "sure", "wary", "poised", "composed",
    "careful",
)  # fmt: skip


@dataclass(frozen=True)
class DonkeyConfig:
    """Drive a DonkeyCar round its tracks."""

    tracks: tuple[str, ...] = ("generated_track",)
    """Tracks by name, `family:seed`, CSV path, range (`circuit:0-199`) or word (`all`, `unseen`);
    environment i gets track i modulo their number, where no schedule decides. A
    training that has more tracks than environments draws one for every episode."""
    vehicle: str = "donkey"
    """Named vehicle."""
    sensor: Literal["camera", "lidar", "telemetry", "state"] = "camera"
    """What the driver sees; state is all that is known, for teachers."""
    camera: CameraConfig = field(default_factory=CameraConfig)
    """The camera, where it is what the driver sees."""
    lidar: LidarConfig = field(default_factory=LidarConfig)
    """The lidar, where it is what the driver sees."""
    reward: str = "default"
    """Named reward: default is DonkeyCar's own, v6 pays no circling, racing pays lap time,
    sure, wary and careful too, with higher prices on an end."""
    max_cte: float = 8.0
    """Cross-track error at which an episode ends, in DonkeyCar units of 0.125 m."""
    end: Literal["cte", "road"] = "cte"
    """What ends an episode: max_cte alone, or also the first step with no part of the car on the
    road, in reverse, or standing after two seconds."""
    max_steps: int = 1000
    """Control steps after which an episode is cut off."""
    steer_limit: float = 1.0
    """Largest steering command, to either side."""
    throttle_min: float = 0.0
    """Throttle of the lowest action."""
    throttle_max: float = 1.0
    """Throttle of the highest action."""
    start: Literal["line", "random"] = "line"
    """Begin at the track's own start poses at rest, or anywhere on it, most of them rolling."""
    randomise: RandomisationConfig = field(default_factory=RandomisationConfig)
    """What differs between episodes."""

    def __post_init__(self) -> None:
        """Refuse settings that cannot be driven."""
        if not self.tracks:
            raise ValueError("tracks must name at least one track")
        if self.sensor not in SENSORS:
            raise ValueError(nearest(self.sensor, SENSORS, "sensor"))
        if self.reward not in DONKEY_REWARDS:
            raise ValueError(nearest(self.reward, DONKEY_REWARDS, "reward"))
        if self.start not in ("line", "random"):
            raise ValueError(nearest(self.start, ("line", "random"), "start"))
        if not self.max_cte > 0:
            raise ValueError(f"max_cte must be positive, got {self.max_cte}")
        if self.max_steps < 1:
            raise ValueError(f"max_steps must be at least 1, got {self.max_steps}")
        if not 0 < self.steer_limit <= 1:
            raise ValueError(f"steer_limit must lie in (0, 1], got {self.steer_limit}")
        if not -1 <= self.throttle_min < self.throttle_max <= 1:
            raise ValueError(
                f"throttle_min and throttle_max must rise within -1..1, "
                f"got {self.throttle_min} and {self.throttle_max}"
            )
        car, longest = self.car, self.car.delay_steps + self.randomise.delay[1]
        if longest > car.max_delay_steps:
            raise ValueError(
                f"a delay of {longest} control steps is more than the {car.max_delay_steps} that "
                f"vehicle {self.vehicle} can hold; lower randomise.delay or raise max_delay_steps"
            )

    @property
    def car(self) -> VehicleConfig:
        """The vehicle's own settings."""
        return find_vehicle(self.vehicle)


@dataclass(frozen=True)
class TagConfig:
    """Catch a runner in a walled square."""

    arena: float = 4.0
    """Side of the square, metres."""
    vehicle: str = "turtlebot"
    """Named vehicle of both players; must be a unicycle."""
    runner_speed: float = 0.8
    """Speed of the runner as a share of the chaser's."""
    capture: float = 0.25
    """Distance at which the runner is caught, metres."""
    max_steps: int = 600
    """Control steps after which the runner has escaped."""
    seats: Literal[1, 2] = 1
    """1: a script plays the runner; 2: both players are learners' (chaser first)."""
    vehicle_config: VehicleConfig | None = field(default=None)
    """Overrides `vehicle` with settings of one's own."""

    def __post_init__(self) -> None:
        """Refuse games that cannot be played."""
        if not self.arena > 4 * self.capture > 0:
            raise ValueError(
                f"arena must exceed four capture distances, got {self.arena} and {self.capture}"
            )
        if not 0 < self.runner_speed <= 2:
            raise ValueError(f"runner_speed must lie in (0, 2], got {self.runner_speed}")
        if self.max_steps < 1:
            raise ValueError(f"max_steps must be at least 1, got {self.max_steps}")
        if self.seats not in (1, 2):
            raise ValueError(f"seats must be 1 or 2, got {self.seats}")
        if self.car.model != "unicycle":
            raise ValueError(f"tag is played with unicycles, {self.vehicle!r} is {self.car.model}")

    @property
    def car(self) -> VehicleConfig:
        """The vehicle's own settings."""
        return self.vehicle_config or find_vehicle(self.vehicle)
