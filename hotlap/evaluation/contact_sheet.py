"""A sheet of what the camera sees on each track."""

from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from hotlap.config.sensors import CameraConfig
from hotlap.config.tasks import DonkeyConfig
from hotlap.sim.tracks.track import Track
from hotlap.tasks.batch import BatchEnv
from hotlap.tasks.donkey import DonkeyTask

VIEWS = 3
"""Pictures of each track, taken at random places of it."""
ACROSS = 2
"""Tracks side by side."""
SIZE = (200, 150)
GAP = 6
CAPTION = 20


def draw_sheet(tracks: list[Track], path: Path, settings: DonkeyConfig) -> Path:
    """Write a PNG with VIEWS pictures of each track, and its name above them."""
    config = replace(settings, camera=CameraConfig(*SIZE), sensor="camera", start="random")
    task = DonkeyTask(config, tracks=tuple(tracks))
    pictures = BatchEnv(task, VIEWS * len(tracks), seed=4).reset().numpy()
    pictures = pictures.reshape(VIEWS, len(tracks), *pictures.shape[1:])
    column, row = VIEWS * SIZE[0] + GAP, SIZE[1] + CAPTION + GAP
    rows = -(-len(tracks) // ACROSS)
    sheet = Image.new("RGB", (ACROSS * column - GAP, rows * row - GAP), "white")
    draw, font = ImageDraw.Draw(sheet), ImageFont.load_default(15)
    for index, track in enumerate(tracks):
        left, top = (index % ACROSS) * column, (index // ACROSS) * row
        draw.text((left + 2, top), track.name, fill=(40, 44, 52), font=font)
        for view in range(VIEWS):
            picture = Image.fromarray(np.ascontiguousarray(pictures[view, index]))
            sheet.paste(picture, (left + view * SIZE[0], top + CAPTION))
    path.parent.mkdir(parents=True, exist_ok=True)
    sheet.save(path)
    return path
