"""Films of drives: what the camera saw, beside a map with the way driven so far."""

from pathlib import Path
from types import TracebackType

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
Picture = NDArray[np.uint8]


class Film:
    """Writes an MP4 frame by frame; use as a context manager.

    Args:
        path: Where the film goes; its folder is made.
        track: The road, for the map.
        fps: Frames per second of the film.
        fastest: Speed shown in the warmest colour, m/s.
    """

    def __init__(self, path: Path, track: Track, fps: float, fastest: float) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.fastest = fastest
        self._writer = imageio_ffmpeg.write_frames(
            str(path), (CAMERA_WIDTH + MAP_WIDTH, HEIGHT), fps=fps, quality=7, macro_block_size=16
        )
        self._writer.send(None)
        self._map, self._scale, self._origin = _draw_map(track)
        self._font = ImageFont.load_default(16)
        self._last: tuple[float, float] | None = None

    def __enter__(self) -> "Film":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._writer.close()

    def add(self, picture: Picture, x: float, y: float, speed: float, lines: list[str]) -> None:
        """Append a frame: the camera's picture, where the car is, and lines of text."""
        self._writer.send(np.ascontiguousarray(self.compose(picture, x, y, speed, lines)))

    def compose(
        self, picture: Picture, x: float, y: float, speed: float, lines: list[str]
    ) -> Picture:
        """One frame of the film (HEIGHT, CAMERA_WIDTH + MAP_WIDTH, 3)."""
        if picture.shape[-1] == 1:
            picture = np.repeat(picture, 3, -1)
        camera = Image.fromarray(np.ascontiguousarray(picture))
        frame = Image.new("RGB", (CAMERA_WIDTH + MAP_WIDTH, HEIGHT), PAPER)
        frame.paste(camera.resize((CAMERA_WIDTH, HEIGHT), Image.Resampling.BILINEAR), (0, 0))
        spot = self._spot(x, y)
        share = min(max(speed / self.fastest, 0.0), 1.0)
        colour = tuple(int(v) for v in SLOW + share * (FAST - SLOW))
        if self._last is not None and max(abs(np.subtract(spot, self._last))) < 60:
            ImageDraw.Draw(self._map).line([self._last, spot], fill=colour, width=3)
        self._last = spot
        frame.paste(self._map, (CAMERA_WIDTH, 0))
        draw = ImageDraw.Draw(frame)
        centre = (CAMERA_WIDTH + spot[0], spot[1])
        draw.ellipse(
            [centre[0] - 6, centre[1] - 6, centre[0] + 6, centre[1] + 6], fill=colour, outline=INK
        )
        for row, line in enumerate(lines):
            draw.text((CAMERA_WIDTH + 12, 8 + 20 * row), line, fill=INK, font=self._font)
        return np.asarray(frame)

    def _spot(self, x: float, y: float) -> tuple[float, float]:
        """Place of a point of the world on the map, in pixels."""
        across = MARGIN + (x - self._origin[0]) * self._scale
        return across, HEIGHT - MARGIN - (y - self._origin[1]) * self._scale


def _draw_map(track: Track) -> tuple[Image.Image, float, NDArray[np.float64]]:
    """The road seen from above, its scale in pixels per metre, and its lower left corner."""
    left, right = road_edges(track)
    both = np.vstack([left, right])
    low, high = both.min(0), both.max(0)
    room = np.array([MAP_WIDTH - 2 * MARGIN, HEIGHT - 2 * MARGIN - 60])
    scale = float(np.min(room / (high - low)))
    origin = low - (np.array([MAP_WIDTH, HEIGHT - 60]) / scale - (high - low)) / 2 + MARGIN / scale
    image = Image.new("RGB", (MAP_WIDTH, HEIGHT), PAPER)
    draw = ImageDraw.Draw(image)

    def pixels(points: NDArray[np.float64]) -> list[tuple[float, float]]:
        spots = MARGIN + (points - origin) * scale
        return [(float(a), float(HEIGHT - b)) for a, b in spots]

    ends = range(len(left) if track.closed else len(left) - 1)
    for i in ends:
        j = (i + 1) % len(left)
        draw.polygon(pixels(np.stack([left[i], left[j], right[j], right[i]])), fill=ROAD)
    for side in (left, right):
        loop = np.vstack([side, side[:1]]) if track.closed else side
        draw.line(pixels(loop), fill=(120, 120, 118), width=1)
    return image, scale, origin
