"""Settings of what is done to pictures when they are learned from."""

from dataclasses import dataclass

from hotlap.config.randomisation import ONE, Range


@dataclass(frozen=True)
class AugmentationConfig:
    """How pictures are changed at random when they are learned from; nothing is, by default."""

    shift: int = 0
    """Most pixels by which a picture is moved, either way; its edges are repeated."""
    crop: float = 1.0
    """Least share of a picture's width and height that is cut out and enlarged again; 1 is all."""
    blur: float = 0.0
    """Greatest standard deviation of the blur, pixels."""
    flip: float = 0.0
    """Chance that left and right are exchanged, in the picture and in the steering."""
    brightness: Range = ONE
    """Range of a factor on the grey levels."""
    contrast: Range = ONE
    """Range of a factor on the distance of the grey levels from the middle one."""

    def __post_init__(self) -> None:
        """Refuse what no picture would survive."""
        for name in ("shift", "blur"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"augment.{name} must be 0 or more, got {getattr(self, name)}")
        if not 0 < self.crop <= 1:
            raise ValueError(f"augment.crop must lie in (0, 1], got {self.crop}; 0.8 is usual")
        if not 0 <= self.flip <= 1:
            raise ValueError(f"augment.flip must lie in 0..1, got {self.flip}; 0.5 is usual")
        for name in ("brightness", "contrast"):
            low, high = getattr(self, name)
            if not 0 < low <= high:
                raise ValueError(
                    f"augment.{name} is a range of a factor, low then high and both positive, "
                    f"got {low} and {high}; 0.7 1.3 is usual"
                )

    @property
    def active(self) -> bool:
        """Whether anything is changed at all."""
        return self != AugmentationConfig()
