"""What may differ from one episode to the next, and by how much.

Every setting is a range (low, high); a range of zero width changes nothing. Factors multiply the
nominal value, offsets are added to it.
"""

from dataclasses import dataclass, fields

Range = tuple[float, float]
ONE: Range = (1.0, 1.0)
ZERO: Range = (0.0, 0.0)
STRONGEST_NOISE = 25.0
"""Grey levels: a sensor noisier than this is not simulated (its sums would leave 16 bits)."""


@dataclass(frozen=True)
class RandomisationConfig:
    """Ranges that each episode draws from."""

    light: Range = ONE
    """Brightness of the world, factor."""
    colour: float = 0.0
    """How far each colour of the world may wander, as a share of full scale."""
    texture: Range = ONE
    """Strength of the grain of road and land, factor."""
    looks: int = 1
    """How many differently lit and painted looks of each style are made to draw from."""
    styles: bool = False
    """Whether half of the episodes that differ are painted in any style, such as a warehouse's; the
    others stay in their track's own."""
    paint: int = 0
    """Number of the set of looks; two sets have the plain looks in common and nothing else."""
    noise: Range = ZERO
    """Standard deviation of the picture's noise, in grey levels of 255."""
    blur: Range = ZERO
    """Strength of the picture's blur, 0 (sharp) to 1."""
    camera_up: Range = ONE
    """Height of the lens, factor."""
    camera_pitch: Range = ZERO
    """Change of the camera's pitch, degrees."""
    camera_yaw: Range = ZERO
    """Turn of the camera to the left, degrees."""
    camera_zoom: Range = ONE
    """Focal length of the lens, factor: above 1 narrows the field of view."""
    friction: Range = ONE
    """Grip of the tyres, factor."""
    mass: Range = ONE
    """Mass of the car, factor."""
    engine: Range = ONE
    """Force of the engine, factor."""
    steering_offset: Range = ZERO
    """Misalignment of the front wheels, degrees to the left."""
    steering_lag: Range = ZERO
    """Time constant added to the steering's own, seconds."""
    delay: tuple[int, int] = (0, 0)
    """Control steps of delay added to the vehicle's own; both ends of the range count."""
    share: float = 1.0
    """Share of the episodes that differ; in the others everything is as it is by itself."""

    def __post_init__(self) -> None:
        """Refuse ranges that are upside down or impossible."""
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, tuple) and value[0] > value[1]:
                raise ValueError(f"{field.name} must be (low, high), got {value}")
        for name in ("light", "texture", "camera_up", "camera_zoom", "friction", "mass", "engine"):
            if getattr(self, name)[0] <= 0:
                raise ValueError(
                    f"{name} is a factor and must be positive, got {getattr(self, name)}"
                )
        for name in ("noise", "steering_lag", "delay", "blur"):
            if getattr(self, name)[0] < 0:
                raise ValueError(f"{name} must not be negative, got {getattr(self, name)}")
        if self.noise[1] > STRONGEST_NOISE:
            raise ValueError(f"noise must not exceed {STRONGEST_NOISE}, got {self.noise}")
        if self.blur[1] > 1:
            raise ValueError(f"blur must lie between 0 and 1, got {self.blur}")
        if not 0 <= self.share <= 1:
            raise ValueError(f"share must lie between 0 and 1, got {self.share}")
        if not 0 <= self.colour <= 0.5:
            raise ValueError(f"colour must lie between 0 and 0.5, got {self.colour}")
        if not 1 <= self.looks <= 256:
            raise ValueError(f"looks must lie between 1 and 256, got {self.looks}")
        if self.looks == 1 and (self.colour or self.light != ONE or self.texture != ONE):
            raise ValueError("light, colour and texture need looks > 1: try looks=16")
