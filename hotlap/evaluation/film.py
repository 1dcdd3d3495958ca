"""Films of drives: what the camera saw, beside a map with the way driven so far."""

from pathlib import Path
from types import TracebackType
from typing import Self

import imageio_ffmpeg
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from hotlap.evaluation.track_maps import road_edges
from hotlap.sim.tracks.track import Track

HEIGHT = 480
CAMERA_WIDTH = 640
MAP_WIDTH = 480
MARGIN = 36
PAPER = (247, 246, 242)
ROAD = (205, 205, 200)
INK = (40, 44, 52)
SLOW, FAST = np.array([49, 104, 189]), np.array([224, 63, 42])
TEXT = 60
"""Room above a map for lines of text, pixels."""
JUMP = 60
"""Pixels that no car drives in a step."""
Picture = NDArray[np.uint8]
Spot = tuple[float, float]
Colour = tuple[int, int, int]


class FilmWriter:
    """Writes an MP4 frame by frame; use as a context manager.

    Args:
        path: Where the film goes; its folder is made.
        size: Width and height.
        fps: Frames per second of the film.
    """

    def __init__(self, path: Path, size: tuple[int, int], fps: float) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._writer = imageio_ffmpeg.write_frames(
            str(path), size, fps=fps, quality=7, macro_block_size=16
        )
        self._writer.send(None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._writer.close()

    def write(self, frame: Picture) -> None:
        """Append a frame (height, width, 3)."""
        self._writer.send(np.ascontiguousarray(frame))


class Film(FilmWriter):
    """A film of one car.

    Args:
        path: Where the film goes; its folder is made.
        track: The road, for the map.
        fps: Frames per second of the film.
        fastest: Speed shown in the warmest colour, m/s.
    """

    def __init__(self, path: Path, track: Track, fps: float, fastest: float) -> None:
        super().__init__(path, (CAMERA_WIDTH + MAP_WIDTH, HEIGHT), fps)
        self.fastest = fastest
        self._map = RoadMap(track, MAP_WIDTH, HEIGHT)
        self._font = ImageFont.load_default(16)
        self._last: Spot | None = None

    def add(self, picture: Picture, x: float, y: float, speed: float, lines: list[str]) -> None:
        """Append a frame: the camera's picture, where the car is, and lines of text."""
        self.write(self.compose(picture, x, y, speed, lines))

    def compose(
        self, picture: Picture, x: float, y: float, speed: float, lines: list[str]
    ) -> Picture:
        """One frame of the film (HEIGHT, CAMERA_WIDTH + MAP_WIDTH, 3)."""
        frame = Image.new("RGB", (CAMERA_WIDTH + MAP_WIDTH, HEIGHT), PAPER)
        frame.paste(picture_of(picture, (CAMERA_WIDTH, HEIGHT)), (0, 0))
        spot = self._map.spot(x, y)
        share = min(max(speed / self.fastest, 0.0), 1.0)
        red, green, blue = (int(v) for v in SLOW + share * (FAST - SLOW))
        self._map.draw_leg(self._last, spot, (red, green, blue))
        self._last = spot
        frame.paste(self._map.image, (CAMERA_WIDTH, 0))
        draw_car(frame, (CAMERA_WIDTH + spot[0], spot[1]), (red, green, blue))
        draw = ImageDraw.Draw(frame)
        for row, line in enumerate(lines):
            draw.text((CAMERA_WIDTH + 12, 8 + 20 * row), line, fill=INK, font=self._font)
        return np.asarray(frame)


class RoadMap:
    """A road seen from above, on which driven lines grow.

    Args:
        track: The road.
        width: Of the picture, pixels.
        height: The same upwards.
    """

    def __init__(self, track: Track, width: int, height: int) -> None:
        left, right = road_edges(track)
        both = np.vstack([left, right])
        low, high = both.min(0), both.max(0)
        room = np.array([width - 2 * MARGIN, height - 2 * MARGIN - TEXT])
        self._height = height
        self._scale = float(np.min(room / (high - low)))
        unused = np.array([width, height - TEXT]) / self._scale - (high - low)
        self._origin = low - unused / 2 + MARGIN / self._scale
        self.image = Image.new("RGB", (width, height), PAPER)
        self._draw_road(track, left, right)

    def spot(self, x: float, y: float) -> tuple[float, float]:
        """Place of a point of the world on the map, in pixels."""
        across = MARGIN + (x - self._origin[0]) * self._scale
        return float(across), float(self._height - MARGIN - (y - self._origin[1]) * self._scale)

    def draw_leg(self, begin: Spot | None, end: Spot, colour: Colour) -> None:
        """Draw a step of a drive; none where a car was put elsewhere."""
        if begin is not None and max(abs(np.subtract(end, begin))) < JUMP:
            ImageDraw.Draw(self.image).line([begin, end], fill=colour, width=3)

    def _draw_road(
        self, track: Track, left: NDArray[np.float64], right: NDArray[np.float64]
    ) -> None:
        draw = ImageDraw.Draw(self.image)

        def pixels(points: NDArray[np.float64]) -> list[Spot]:
            return [self.spot(x, y) for x, y in points]

        for i in range(len(left) if track.closed else len(left) - 1):
            j = (i + 1) % len(left)
            draw.polygon(pixels(np.stack([left[i], left[j], right[j], right[i]])), fill=ROAD)
        for side in (left, right):
            loop = np.vstack([side, side[:1]]) if track.closed else side
            draw.line(pixels(loop), fill=(120, 120, 118), width=1)


def draw_car(frame: Image.Image, centre: Spot, colour: Colour) -> None:
    """A dot where a car is."""
    x, y = centre
    ImageDraw.Draw(frame).ellipse([x - 6, y - 6, x + 6, y + 6], fill=colour, outline=INK)


def picture_of(seen: Picture, size: tuple[int, int]) -> Image.Image:
    """What a camera saw, in colour and of a size."""
    if seen.shape[-1] == 1:
        seen = np.repeat(seen, 3, -1)
    image = Image.fromarray(np.ascontiguousarray(seen))
    return image.resize(size, Image.Resampling.BILINEAR)
