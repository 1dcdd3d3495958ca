"""Settings of cameras and lidars. Metres and degrees, as people state them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class CameraConfig:
    """A camera that looks forward from the car."""

    width: int = 160
    """Columns of the picture, in pixels."""
    height: int = 120
    """Rows of the picture, in pixels."""
    colour: bool = True
    """Three channels (red, green, blue) or one (luminance)."""
    fov: float = 90.0
    """Vertical field of view, degrees."""
    forward: float = 0.069
    """Distance of the lens ahead of the car's origin, metres."""
    up: float = 0.14
    """Height of the lens above the road, metres."""
    pitch: float = 15.0
    """How far the camera looks down, degrees."""
    far: float = 60.0
    """Distance beyond which the ground is not drawn, in half-widths of the road."""

    def __post_init__(self) -> None:
        if not (8 <= self.width <= 1024 and 8 <= self.height <= 1024):
            raise ValueError(f"camera size must lie in 8..1024, got {self.width}x{self.height}")
        if not 10 <= self.fov <= 150:
            raise ValueError(f"camera fov must lie in 10..150 degrees, got {self.fov}")
        if not -30 <= self.pitch <= 80:
            raise ValueError(f"camera pitch must lie in -30..80 degrees, got {self.pitch}")
        if self.up <= 0:
            raise ValueError(f"camera height `up` must be positive, got {self.up}")
        if self.far <= 1:
            raise ValueError(f"camera `far` must exceed 1 half-width, got {self.far}")

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width and channels of a picture."""
        return self.height, self.width, 3 if self.colour else 1


@dataclass(frozen=True)
class TopDownConfig:
    """A camera that looks straight down on the car and turns with it."""

    width: int = 84
    """Columns of the picture, in pixels."""
    height: int = 84
    """Rows of the picture, in pixels."""
    colour: bool = False
    """Three channels (red, green, blue) or one (luminance)."""
    span: float = 7.0
    """Height of the picture on the ground, in half-widths of the road."""
    ahead: float = 0.35
    """Where the car sits: share of the picture's height left behind it is 0.5 - ahead."""

    def __post_init__(self) -> None:
        if not (8 <= self.width <= 1024 and 8 <= self.height <= 1024):
            raise ValueError(f"camera size must lie in 8..1024, got {self.width}x{self.height}")
        if self.span <= 0:
            raise ValueError(f"top-down `span` must be positive, got {self.span}")
        if not 0 <= self.ahead <= 0.5:
            raise ValueError(f"top-down `ahead` must lie in 0..0.5, got {self.ahead}")


@dataclass(frozen=True)
class LidarConfig:
    """Beams in the plane of the road that measure the distance to its edges or walls."""

    beams: int = 19
    """Number of beams, evenly spread over `spread`."""
    spread: float = 180.0
    """Angle between the first beam (right) and the last (left), degrees."""
    reach: float = 20.0
    """Longest distance measured, in half-widths of the road."""
    walls: bool = False
    """Measure to the walls where a track has them, instead of to the road's edges."""
    noise: float = 0.0
    """Standard deviation of the measured distance, as a share of it."""

    def __post_init__(self) -> None:
        if not 1 <= self.beams <= 2048:
            raise ValueError(f"lidar beams must lie in 1..2048, got {self.beams}")
        if not 0 < self.spread <= 360:
            raise ValueError(f"lidar spread must lie in (0, 360] degrees, got {self.spread}")
        if self.reach <= 0:
            raise ValueError(f"lidar reach must be positive, got {self.reach}")
        if not 0 <= self.noise < 1:
            raise ValueError(f"lidar noise must lie in [0, 1), got {self.noise}")
