"""What a film shows of a drive: what the driver sees, or would see if it had a camera."""

import numpy as np
import torch
from torch import Tensor

from hotlap.config.randomisation import RandomisationConfig
from hotlap.config.sensors import CameraConfig
from hotlap.evaluation.film import CAMERA_WIDTH, HEIGHT, Picture
from hotlap.evaluation.first_episodes import Env
from hotlap.sim.atlas import unpack
from hotlap.tasks.adapters.arrays import to_array
from hotlap.tasks.donkey import DonkeyTask
from hotlap.tasks.road_camera import RoadCamera

CAMERA = CameraConfig(width=320, height=240)
"""Mounted on cars whose drivers see no pictures."""


class FilmCamera:
    """Takes the pictures of a film.

    Args:
        env: One environment.
        task: The road task it plays.
    """

    def __init__(self, env: Env, task: DonkeyTask) -> None:
        self.env = env
        self.task = task
        self.camera = None
        if task.camera is None:
            self.camera = RoadCamera(CAMERA, task.roads, RandomisationConfig(), compiled=False)

    def picture(self, observation: Tensor) -> Picture:
        """What there is to see now; a copy, as a step may overwrite what the last one showed."""
        if self.camera is None:
            channels = self.task.observation_space.shape[-1]
            return _widened(to_array(observation[0, ..., -channels:]))  # the last of the stack
        world = self.env.world
        own = self.camera.begin(world["key"], world["road"][:, 0])
        clock = torch.zeros_like(world["key"])  # only for noise, of which there is none
        raw = self.camera.draw(world | {"camera": own}, self.task.vehicle.body_offset, clock)
        return to_array(unpack(raw)[0])


def _widened(picture: Picture) -> Picture:
    """The picture with black at its sides, or above and below, to have the film's proportions."""
    height, width = picture.shape[:2]
    across = max(0, round(height * CAMERA_WIDTH / HEIGHT) - width)
    upright = max(0, round(width * HEIGHT / CAMERA_WIDTH) - height)
    room = [(side // 2, side - side // 2) for side in (upright, across)]
    return np.pad(picture, [*room, (0, 0)])
