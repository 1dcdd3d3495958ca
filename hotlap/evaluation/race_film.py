"""Two drivers side by side: what either camera saw, and one map with both driven lines."""

from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageColor, ImageDraw, ImageFont

from hotlap.evaluation.film import (
    INK,
    PAPER,
    Colour,
    FilmWriter,
    Picture,
    RoadMap,
    draw_car,
    picture_of,
)
from hotlap.evaluation.film import Spot as Pixel
from hotlap.evaluation.film_camera import FilmCamera
from hotlap.evaluation.first_episodes import Env, Policy
from hotlap.evaluation.lap_plot import A, B
from hotlap.sim.tracks.track import Track
from hotlap.tasks.donkey import DonkeyTask

VIEW = (480, 360)
"""Of either camera, pixels; one stands above the other."""
MAP = (720, 720)
COLOURS: tuple[Colour, Colour] = (ImageColor.getrgb(A)[:3], ImageColor.getrgb(B)[:3])
"""Lines of the two drivers."""
STAY = 1.0
"""Seconds that the last frame stays."""


class Racer:
    """One of the two, on the way to its first lap.

    Args:
        name: What it is called in the film.
        policy: Who drives.
        env: One environment of a road task.
        colour: Of its line.
    """

    def __init__(self, name: str, policy: Policy, env: Env, colour: Colour) -> None:
        assert isinstance(env.task, DonkeyTask)
        self.name, self.policy, self.env, self.colour = name, policy, env, colour
        self.camera = FilmCamera(env, env.task)
        self.seen = env.reset()
        self.picture: Picture = self.camera.picture(self.seen)
        self.time, self.speed, self.end = 0.0, 0.0, ""
        self.spots: list[tuple[float, float]] = []

    def drive(self) -> None:
        """Drive a step, unless it is over."""
        if self.end:
            return
        self.picture = self.camera.picture(self.seen)
        step = self.env.step(self.policy(self.seen))
        self.seen = step.observation
        self.time += self.env.task.control_dt
        self.speed = float(step.metrics["speed"])
        x, y, _ = step.metrics["pos"][0].tolist()
        self.spots.append((x, y))
        if (lap := float(step.metrics["lap_time"])) > 0:
            self.end = f"lap in {lap:.2f} s"
        elif bool(step.terminated):
            self.end = f"crashed after {self.time:.2f} s"
        elif bool(step.done):
            self.end = f"ended after {self.time:.2f} s"

    @property
    def caption(self) -> str:
        """Its line of text."""
        now = self.end or f"{self.time:6.2f} s   {self.speed:4.2f} m/s"
        return f"{self.name}   {now}"


def film_race(path: Path, track: Track, racers: tuple[Racer, Racer]) -> Path:
    """Film both until either has driven a lap, crashed, or run out of time."""
    fps = round(1 / racers[0].env.task.control_dt)
    road, font = RoadMap(track, *MAP), ImageFont.load_default(20)
    with FilmWriter(path, (VIEW[0] + MAP[0], MAP[1]), fps) as film, torch.no_grad():
        while not all(racer.end for racer in racers):
            for racer in racers:
                racer.drive()
            frame = compose(road, racers, track.name, font)
            film.write(frame)
        for _ in range(round(STAY * fps)):
            film.write(frame)
    return path


def compose(
    road: RoadMap,
    racers: tuple[Racer, Racer],
    title: str,
    font: ImageFont.FreeTypeFont | ImageFont.ImageFont,
) -> Picture:
    """One frame of the film (720, 1200, 3)."""
    frame = Image.new("RGB", (VIEW[0] + MAP[0], MAP[1]), PAPER)
    places: list[Pixel] = []
    for racer in racers:
        spots = [road.spot(x, y) for x, y in racer.spots[-2:]]
        road.draw_leg(spots[0], spots[-1], racer.colour)
        places.append(spots[-1])
    frame.paste(road.image, (VIEW[0], 0))
    draw = ImageDraw.Draw(frame)
    draw.text((VIEW[0] + 16, 8), title, fill=INK, font=font)
    for row, (racer, (x, y)) in enumerate(zip(racers, places, strict=True)):
        top = row * VIEW[1]
        frame.paste(picture_of(racer.picture, VIEW), (0, top))
        draw.rectangle([2, top + 2, VIEW[0] - 3, top + VIEW[1] - 3], outline=racer.colour, width=4)
        draw.text((VIEW[0] + 16, 32 + 24 * row), racer.caption, fill=racer.colour, font=font)
        draw_car(frame, (VIEW[0] + x, y), racer.colour)
    return np.ascontiguousarray(np.asarray(frame))
