"""The cars' cameras: mounting, drawing, and packing into a message.

Fish-eye lenses and cameras that lean to a side (`rot_z`) are not drawn; what is asked beyond the
documented ranges is held to them.
"""

import base64
import io
import math
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from hotlap.config.sensors import CameraConfig
from hotlap.sim.camera import View, draw_forward
from hotlap.sim.tracks.named import UNIT
from hotlap.wire.messages import CamConfig
from hotlap.wire.server.scenes import Scene

SIZES = (16, 512)
"""Least and most pixels across and down."""
FOVS = (10.0, 150.0)
PITCHES = (-30.0, 80.0)
FARTHEST = 100.0
"""Most that a camera may be mounted away from its car (u)."""
LOWEST = 0.1
"""Least height of a lens (u)."""
FORMATS = {"PNG": "PNG", "TGA": "TGA"}
"""By the simulator's word; any other means JPEG."""
OPTIONS: dict[str, dict[str, int]] = {"JPEG": {"quality": 75}, "PNG": {"compress_level": 1}}
"""How Pillow packs: Unity's quality; PNG as fast as it goes."""
LUMA = np.array([0.2126, 0.7152, 0.0722], dtype=np.float32)
PIXELS_AT_ONCE = 16 * 160 * 120
"""Drawn together: more would leave the processor's cache."""

Picture = NDArray[np.uint8]


@dataclass(frozen=True)
class Mount:
    """A camera as it is mounted; metres and radians."""

    lens: CameraConfig = field(default_factory=CameraConfig)
    right: float = 0.0
    """From the car's middle line."""
    turn: float = 0.0
    """To the left."""
    grey: bool = False
    format: str = "JPEG"


CAMERA_A = Mount()
CAMERA_B = Mount(right=0.452 * UNIT)


def mounted(mount: Mount, config: CamConfig) -> Mount:
    """A camera mounted anew; where the config says 0 it stays as it is."""
    lens = mount.lens
    if config.img_w and config.img_h:
        width, height = (int(_within(side, SIZES)) for side in (config.img_w, config.img_h))
        lens = replace(lens, width=width, height=height)
    if config.fov:
        lens = replace(lens, fov=_within(config.fov, FOVS))
    right, turn = mount.right, mount.turn
    if config.offset_x or config.offset_y or config.offset_z:
        right = _within(config.offset_x, (-FARTHEST, FARTHEST)) * UNIT
        up = _within(config.offset_y, (LOWEST, FARTHEST)) * UNIT
        forward = _within(config.offset_z, (-FARTHEST, FARTHEST)) * UNIT
        lens = replace(lens, up=up, forward=forward)
    if config.rot_x or config.rot_y or config.rot_z:
        turn = -math.radians(config.rot_y % 360)
        pitch = (config.rot_x + 180) % 360 - 180
        lens = replace(lens, pitch=_within(pitch, PITCHES))
    grey = config.img_d == 1 if config.img_d else mount.grey
    format = FORMATS.get(config.img_enc.upper(), "JPEG")
    return Mount(lens, right, turn, grey, format)


def _within(value: float, limits: tuple[float, float]) -> float:
    return min(max(value, limits[0]), limits[1])


def draw(scene: Scene, mount: Mount, pose: dict[str, Tensor], body_offset: float) -> list[Picture]:
    """What cars in one scene see through cameras mounted alike: (height, width, 3) each.

    Args:
        scene: Where they are.
        mount: How their cameras are mounted.
        pose: Of the cars, as `Fleet.pose` gives it, each (K,).
        body_offset: From a car's position forward to the origin its camera is mounted on.
    """
    lens = mount.lens
    pictures: list[Picture] = []
    size = max(1, PIXELS_AT_ONCE // (lens.width * lens.height))
    parts = zip(*(torch.split(value, size) for value in pose.values()), strict=True)
    for part in parts:
        view = _view(mount, dict(zip(pose, part, strict=True)), body_offset)
        drawn = draw_forward(lens, scene.fields, scene.looks, view, uprights=scene.uprights)
        pictures += [_grey(picture) if mount.grey else picture for picture in drawn.numpy()]
    return pictures


def _view(mount: Mount, pose: dict[str, Tensor], body_offset: float) -> View:
    heading = pose["heading"]
    ahead, right = mount.lens.forward + body_offset, mount.right
    none = torch.zeros_like(heading)
    return View(
        x=pose["x"] + ahead * torch.cos(heading) + right * torch.sin(heading),
        y=pose["y"] + ahead * torch.sin(heading) - right * torch.cos(heading),
        z=pose["z"],
        heading=heading + mount.turn,
        climb=pose["climb"] * math.cos(mount.turn),
        road=none.long(),
        look=none.long(),
        up=none + mount.lens.up,
        pitch=none + math.radians(mount.lens.pitch),
        zoom=none + 1.0,
    )


def _grey(picture: Picture) -> Picture:
    """The same in three equal channels."""
    level = np.rint(picture @ LUMA).astype(np.uint8)
    return np.repeat(level[..., None], 3, axis=-1)


def pack(picture: Picture, format: str) -> str:
    """A picture as telemetry carries it: encoded, in base64."""
    buffer = io.BytesIO()
    # The picture is a view of wider pixels; copied channel by channel, which is five times faster.
    whole = np.dstack([picture[..., channel] for channel in range(3)])
    Image.fromarray(whole).save(buffer, format, **OPTIONS.get(format, {}))
    return base64.b64encode(buffer.getvalue()).decode()
