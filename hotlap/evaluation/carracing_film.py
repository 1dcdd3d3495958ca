"""Films of CarRacing: the frame, what the driver sees of it, what it does, and what it earned.

    frame  all of the picture, 96 x 96 in colour, in the episode's look
    seen   the newest picture that the driver was given, as it was given
    shot   a frame with what was earned by then

A decision lasts several frames, of which a driver sees the last. A film has them all: they come
from a `Show`, a second car that drives the same way and is looked at after every frame.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from hotlap.config.carracing import FRAMES_PER_SECOND, controls
from hotlap.evaluation.film import INK, PAPER, Colour, FilmWriter, Picture
from hotlap.evaluation.first_episodes import Policy
from hotlap.tasks.adapters.arrays import to_array
from hotlap.tasks.carracing import CarRacingTask
from hotlap.tasks.interface import Interface
from hotlap.tasks.task import State, clone_tree

FRAME = (720, 576)
"""Width and height of the frame in a film: those of Gymnasium's window, 5 to 4."""
SIDE = 304
"""Width of the panel beside it."""
SEEN = 252
"""Width and height of what the driver sees."""
LEFT = FRAME[0] + (SIDE - SEEN) // 2
SCORE, SMALL, LINE = 58, 15, 22
"""Heights of the score, of other text, and from line to line."""
BAR_LEFT = LEFT + 56
BAR_HEIGHT = 14
GROOVE = (222, 220, 213)
STEERING, GAS, BRAKE = (49, 104, 189), (58, 140, 72), (200, 54, 42)
Font = ImageFont.FreeTypeFont | ImageFont.ImageFont
STAY = 1.0
"""Seconds that the final score stays."""


@dataclass(frozen=True)
class Shot:
    """A frame, and what was earned by then."""

    frame: Picture
    """96 x 96 in colour."""
    score: float
    tiles: float
    """Share of the tiles that were touched."""
    frames: int
    """Frames driven."""


class Show(Protocol):
    """A drive, frame by frame."""

    def begin(self) -> Shot:
        """The first frame; the driver's own car has begun already."""

    def drive(self, action: Tensor) -> list[Shot]:
        """All frames of a decision, an action (1, A) as the task takes it."""


class Screen(Protocol):
    """Where a drive is shown."""

    def add(self, shot: Shot, seen: Picture, done: tuple[float, float, float]) -> None:
        """The next frame, what the driver saw before it, and steering, gas and brake."""


class TwinShow:
    """A drive in the twin.

    Args:
        env: The driver's own car, which has the look of the film.
    """

    def __init__(self, env: Interface) -> None:
        task = env.task
        assert isinstance(task, CarRacingTask)
        settings = replace(task.config, view="full", colour=True, repeat=1)
        self.env = env
        self.task = CarRacingTask(settings, task.device, tracks=task.tracks)
        self._world: State = {}
        self._score, self._frames = 0.0, 0

    def begin(self) -> Shot:
        """The first frame."""
        self._world = clone_tree(self.env.world)
        self._score, self._frames = 0.0, 0
        return self._shot(0.0)

    def drive(self, action: Tensor) -> list[Shot]:
        """All frames of a decision."""
        own = self.env.task
        assert isinstance(own, CarRacingTask)
        shots: list[Shot] = []
        for _ in range(own.config.repeat):
            outcome = self.task.advance(self._world, action)
            self._world = outcome.state
            self._score += sum(float(paid) for paid in outcome.terms.values())
            self._frames += 1
            shots.append(self._shot(float(outcome.metrics["tiles"])))
            if bool(outcome.terminated):
                break
        return shots

    def _shot(self, tiles: float) -> Shot:
        frame = to_array(self.task.observe(self._world)[0, 0])
        return Shot(frame, self._score, tiles, self._frames)


@dataclass(frozen=True)
class Episode:
    """How a filmed episode went."""

    end: str
    score: float
    tiles: float
    seconds: float

    def lines(self) -> list[str]:
        """The same in words, the score first."""
        return [f"{self.score:.1f}", self.end, f"{self.tiles:.1%} of tiles, {self.seconds:.2f} s"]


def drive_episode(
    env: Interface, act: Policy, show: Show | None = None, film: Screen | None = None
) -> Episode:
    """Drive one episode, and film it if asked.

    Args:
        env: One environment.
        act: Who drives.
        show: The same drive, frame by frame; needed for a film.
        film: Where it goes.
    """
    config = env.task.config  # type: ignore[attr-defined]
    with torch.no_grad():
        observation = env.reset()
        shot = None if show is None else show.begin()
        if film is not None and shot is not None:
            film.add(shot, newest(env, observation), (0.0, 0.0, 0.0))
        while True:
            seen = newest(env, observation)
            action = act(observation)
            step = env.step(action)
            if show is not None and film is not None:
                chosen = (
                    action if env.table is None else env.table[action.flatten().to(torch.int64)]
                )
                for shot in show.drive(chosen):
                    film.add(shot, seen, controls(chosen[0].tolist(), config))
            observation = step.observation
            if bool(step.done):
                break
    earned, tiles = float(step.episode_return), float(step.metrics["tiles"])
    # Sums of a thousand frames in 32 bits; a tile is worth more than 2.
    if shot is not None and abs(shot.score - earned) > 0.5:
        raise RuntimeError(
            f"the film shows a score of {shot.score:.2f}, the driver has {earned:.2f}"
        )
    end = "out of time"
    if bool(step.terminated):
        end = "all tiles" if tiles > 1 - 1e-6 else "left the field"
    seconds = (
        int(step.episode_length) * env.task.control_dt
        if shot is None
        else shot.frames / FRAMES_PER_SECOND
    )
    return Episode(end, earned, tiles, seconds)


def newest(env: Interface, observation: Tensor) -> Picture:
    """The newest picture of what a driver is given; a copy, as a step may overwrite it."""
    channels = env.task.observation_space.shape[-1]
    return to_array(observation[0, ..., -channels:])


def fitted(line: str, font: Font, width: float) -> str:
    """As much of the end of a line as there is room for."""
    while font.getlength(line) > width:
        line = line[1:]
    return line


class CarRacingFilm(FilmWriter):
    """Writes an MP4 frame by frame; use as a context manager.

    Args:
        path: Where the film goes; its folder is made.
        title: Lines above what the driver sees.
    """

    def __init__(self, path: Path, title: Sequence[str]) -> None:
        super().__init__(path, (FRAME[0] + SIDE, FRAME[1]), FRAMES_PER_SECOND)
        self.title = title
        self._large, self._small = (ImageFont.load_default(size) for size in (SCORE, SMALL))
        self._last: Picture | None = None

    def add(self, shot: Shot, seen: Picture, done: tuple[float, float, float]) -> None:
        """Append a shot, with what the driver saw before it and what it does."""
        self._last = self.compose(shot, seen, done)
        self.write(self._last)

    def close_with(self, lines: Sequence[str]) -> None:
        """Let the last frame stay for a while, under lines of text."""
        assert self._last is not None
        final = self._under(self._last, lines)
        for _ in range(round(STAY * FRAMES_PER_SECOND)):
            self.write(final)

    def compose(self, shot: Shot, seen: Picture, done: tuple[float, float, float]) -> Picture:
        """One frame of the film."""
        image = Image.new("RGB", (FRAME[0] + SIDE, FRAME[1]), PAPER)
        image.paste(Image.fromarray(shot.frame).resize(FRAME, Image.Resampling.BICUBIC), (0, 0))
        draw = ImageDraw.Draw(image)
        top = 22
        for line in self.title:
            draw.text((LEFT, top), fitted(line, self._small, SEEN), fill=INK, font=self._small)
            top += LINE
        top += 6
        own = np.repeat(seen, 3, -1) if seen.shape[-1] == 1 else seen
        sight = Image.fromarray(np.ascontiguousarray(own)).resize(
            (SEEN, SEEN), Image.Resampling.NEAREST
        )
        image.paste(sight, (LEFT, top))
        top = self._draw_bars(draw, top + SEEN + 20, done)
        draw.text((LEFT, top), f"{shot.score:.1f}", fill=INK, font=self._large)
        told = f"{shot.tiles:.1%} of tiles     {shot.frames / FRAMES_PER_SECOND:.2f} s"
        draw.text((LEFT, top + SCORE + 14), told, fill=INK, font=self._small)
        return np.asarray(image)

    def _draw_bars(
        self, draw: ImageDraw.ImageDraw, top: int, done: tuple[float, float, float]
    ) -> int:
        """Draw steering, gas and brake; the height where they end."""
        width = LEFT + SEEN - BAR_LEFT
        steer, gas, brake = done
        middle = BAR_LEFT + width / 2
        bars: list[tuple[str, Colour, float, float]] = [
            ("steer", STEERING, middle, middle + steer * width / 2),
            ("gas", GAS, BAR_LEFT, BAR_LEFT + gas * width),
            ("brake", BRAKE, BAR_LEFT, BAR_LEFT + brake * width),
        ]
        for name, colour, begin, end in bars:
            draw.text((LEFT, top - 2), name, fill=INK, font=self._small)
            draw.rectangle([BAR_LEFT, top, BAR_LEFT + width, top + BAR_HEIGHT], fill=GROOVE)
            left, right = sorted((begin, end))
            if right - left >= 1:
                draw.rectangle([left, top, right, top + BAR_HEIGHT], fill=colour)
            top += LINE
        draw.line([middle, top - 3 * LINE - 2, middle, top - 3 * LINE + BAR_HEIGHT + 2], fill=INK)
        return top + 10

    def _under(self, picture: Picture, lines: Sequence[str]) -> Picture:
        """A frame of the film with lines over its larger part."""
        image = Image.fromarray(picture)
        dark = Image.new("RGB", FRAME, INK)
        image.paste(Image.blend(image.crop((0, 0, *FRAME)), dark, 0.55), (0, 0))
        draw = ImageDraw.Draw(image)
        top = FRAME[1] // 2 - SCORE
        for row, line in enumerate(lines):
            font = self._small if row else self._large
            draw.text((FRAME[0] / 2, top), line, fill=PAPER, font=font, anchor="ma")
            top += LINE if row else SCORE + 22
        return np.asarray(image)
