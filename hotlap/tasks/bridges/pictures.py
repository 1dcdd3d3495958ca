"""Cameras and pictures between our settings and the simulator's words."""

import base64
import io

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from hotlap.config.sensors import CameraConfig
from hotlap.sim.tracks.named import UNIT
from hotlap.wire.client import SimulatorGone
from hotlap.wire.messages import CamConfig

SIZES = (16, 512)
"""Least and most pixels across and down that simulators draw."""
LUMINANCE = np.array([0.299, 0.587, 0.114], dtype=np.float32)
"""Of red, green and blue: what our own gray cameras take."""

Picture = NDArray[np.uint8]


class WrongSimulator(RuntimeError):
    """The simulator is there, but what it sends is not what a driver needs."""


def camera_command(camera: CameraConfig, encoding: str) -> CamConfig:
    """What makes a simulator draw what our camera draws.

    Colour is asked for in any case: the simulator's own gray weighs the colours otherwise.
    """
    if not all(SIZES[0] <= side <= SIZES[1] for side in (camera.width, camera.height)):
        raise ValueError(
            f"simulators draw pictures of {SIZES[0]} to {SIZES[1]} pixels a side, the camera has "
            f"{camera.width} x {camera.height}; train with another size to drive over the wire"
        )
    return CamConfig(
        fov=camera.fov,
        img_w=camera.width,
        img_h=camera.height,
        img_d=3,
        img_enc=encoding,
        offset_y=camera.up / UNIT,
        offset_z=camera.forward / UNIT,
        rot_x=camera.pitch or 360.0,  # 0 would keep the simulator's own
    )


def read_picture(packed: str, camera: CameraConfig) -> Picture:
    """A picture from telemetry as our camera gives it (height, width, channels).

    Raises:
        WrongSimulator: It has another size or lacks colours.
        SimulatorGone: It is no picture.
    """
    try:
        with Image.open(io.BytesIO(base64.b64decode(packed))) as image:
            got = (*image.size, len(image.getbands()))
            fits = got[:2] == (camera.width, camera.height) and (got[2] >= 3 or not camera.colour)
            pixels = np.array(image.convert("RGB")) if fits else None
    except (ValueError, OSError, Image.DecompressionBombError) as error:
        raise SimulatorGone(f"the simulator sent a picture that cannot be read: {error}") from error
    if pixels is None:
        height, width, channels = camera.shape
        raise WrongSimulator(
            f"expected pictures of {_by((width, height, channels))}, got {_by(got)}: the simulator "
            f"does not follow cam_config; set img_w = {width}, img_h = {height} and "
            f"img_d = {channels} there, or train with a camera of {_by(got)}"
        )
    if camera.colour:
        return pixels
    return np.rint(pixels @ LUMINANCE).astype(np.uint8)[..., None]


def read_any_picture(packed: str) -> Picture:
    """A picture from telemetry in three channels, of whatever size up to the largest drawn.

    Raises:
        SimulatorGone: It is none.
    """
    try:
        with Image.open(io.BytesIO(base64.b64decode(packed))) as image:
            if max(image.size) > SIZES[1]:
                raise ValueError(f"{image.size[0]} x {image.size[1]} pixels are too many")
            return np.array(image.convert("RGB"))
    except (ValueError, OSError, Image.DecompressionBombError) as error:
        raise SimulatorGone(f"the simulator sent a picture that cannot be read: {error}") from error


def _by(size: tuple[int, ...]) -> str:
    return "x".join(str(side) for side in size)
