"""Two drives of CarRacing side by side.

Either is driven to its end first and kept; the film shows both from the first frame on, and the one
that is over waits.
"""

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from hotlap.config.carracing import FRAMES_PER_SECOND
from hotlap.evaluation.carracing_film import STAY, Episode, Font, Shot, fitted
from hotlap.evaluation.film import INK, PAPER, Colour, FilmWriter, Picture

FRAME = (600, 480)
"""Width and height of either frame: those of Gymnasium's window, 5 to 4."""
GAP, HEAD, FOOT = 16, 48, 80
"""Between the frames, above and below them."""
SIZE = (2 * FRAME[0] + 3 * GAP, FRAME[1] + HEAD + FOOT)
LARGE, SMALL = 34, 17


@dataclass
class Reel:
    """A drive that is kept; a screen."""

    name: str
    colour: Colour
    shots: list[Shot] = field(default_factory=list)
    episode: Episode | None = None
    """How it went, once it is over."""

    def add(self, shot: Shot, seen: Picture, done: tuple[float, float, float]) -> None:
        """Keep the next frame."""
        self.shots.append(shot)


def film_side_by_side(path: Path, title: str, reels: tuple[Reel, Reel]) -> Path:
    """Write both drives as one MP4."""
    length = max(len(reel.shots) for reel in reels)
    with FilmWriter(path, SIZE, FRAMES_PER_SECOND) as film:
        for number in range(length):
            frame = compose(title, reels, number)
            film.write(frame)
        for _ in range(round(STAY * FRAMES_PER_SECOND)):
            film.write(frame)
    return path


def compose(title: str, reels: tuple[Reel, Reel], number: int) -> Picture:
    """One frame of the film."""
    image = Image.new("RGB", SIZE, PAPER)
    draw = ImageDraw.Draw(image)
    large, small = _fonts()
    third = SIZE[0] / 3 - GAP
    title = fitted(title, small, third)
    draw.text((SIZE[0] / 2, HEAD / 2), title, fill=INK, font=small, anchor="mm")
    for place, reel in enumerate(reels):
        left = GAP + place * (FRAME[0] + GAP)
        shot = reel.shots[min(number, len(reel.shots) - 1)]
        picture = Image.fromarray(shot.frame).resize(FRAME, Image.Resampling.BICUBIC)
        image.paste(picture, (left, HEAD))
        box = [left - 4, HEAD - 4, left + FRAME[0] + 3, HEAD + FRAME[1] + 3]
        draw.rectangle(box, outline=reel.colour, width=4)
        inside = left + FRAME[0]
        edge, anchor = ((left, "lm"), (inside, "rm"))[place]
        name = fitted(reel.name, small, third)
        draw.text((edge, HEAD / 2), name, fill=reel.colour, font=small, anchor=anchor)
        top = HEAD + FRAME[1] + 12
        draw.text((left, top), f"{shot.score:.1f}", fill=reel.colour, font=large)
        draw.text((inside, top + 12), _told(reel, shot, number), fill=INK, font=small, anchor="ra")
    return np.asarray(image)


@cache
def _fonts() -> tuple[Font, Font]:
    """The large one and the small one, read once and not for every frame."""
    return ImageFont.load_default(LARGE), ImageFont.load_default(SMALL)


def _told(reel: Reel, shot: Shot, number: int) -> str:
    """What is written below a frame: how far it has come, or how it ended."""
    if reel.episode is not None and number >= len(reel.shots) - 1:
        return ", ".join(reel.episode.lines()[1:])
    return f"{shot.tiles:.1%} of tiles, {shot.frames / FRAMES_PER_SECOND:.2f} s"
