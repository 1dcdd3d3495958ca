"""A forward camera on a set of roads: what has to be kept between pictures."""

import math

import torch
from torch import Tensor

from hotlap.config.randomisation import RandomisationConfig
from hotlap.config.sensors import CameraConfig
from hotlap.sim.atlas import read_raw
from hotlap.sim.camera import View, look_forward
from hotlap.sim.fields import survey
from hotlap.sim.looks import make_looks
from hotlap.sim.random import Stream, integers, make_key
from hotlap.sim.randomisation import draw_camera, pitch_play
from hotlap.sim.roads import Roads
from hotlap.tasks.task import State

CHUNK = 16
"""Pictures drawn at a time on a CPU, so that what is worked on stays in its cache."""


class RoadCamera:
    """Draws what cars on `roads` see.

    Args:
        config: The camera as mounted.
        roads: Where the cars drive.
        ranges: How pictures may differ between episodes.
        compiled: Whether to compile the drawing.
    """

    def __init__(
        self, config: CameraConfig, roads: Roads, ranges: RandomisationConfig, compiled: bool
    ) -> None:
        self.config = config
        self.ranges = ranges
        self.fields = survey(roads)
        styles = tuple(dict.fromkeys(track.style for track in roads.tracks))
        self.looks = make_looks(
            styles, ranges.looks, 0, ranges.light, ranges.colour, ranges.texture, roads.device
        )
        first = [styles.index(track.style) * ranges.looks for track in roads.tracks]
        self.first_look = torch.tensor(first, device=roads.device)
        self._play = pitch_play(ranges)
        self._look = look_forward
        if compiled and roads.device.type == "cpu":
            # A compiler fuses the sums well but not the reads, so on a CPU it gets the sums alone.
            self._look = torch.compile(look_forward, dynamic=False, fullgraph=True)

    def begin(self, key: Tensor, road: Tensor) -> dict[str, Tensor]:
        """Each episode's own camera and look (B,), for keys and roads (B,)."""
        look = integers(make_key(key, Stream.LOOK), self.ranges.looks).squeeze(-1)
        return draw_camera(self.ranges, key) | {"look": self.first_look[road] + look}

    def draw(self, state: State, body_offset: float) -> Tensor:
        """Raw pictures (B, height, width) from the first car of each environment (see `atlas.unpack`)."""
        view = self._view(state, body_offset)
        batch = len(view.x)
        if view.x.is_cuda or batch <= CHUNK:
            return self._draw(view)
        frames = [self._draw(_part(view, start)) for start in range(0, batch, CHUNK)]
        return torch.cat(frames)

    def _draw(self, view: View) -> Tensor:
        places = self._look(self.config, self.fields, view, pitch_play=self._play)
        return read_raw(self.looks, view.look, places, self.config.colour)[:, :, : self.config.width]

    def _view(self, state: State, body_offset: float) -> View:
        """Where each picture is taken from."""
        car, place, own = state["car"], state["place"], state["camera"]
        x, y, heading = car["x"][:, 0], car["y"][:, 0], car["heading"][:, 0]
        reach = self.config.forward + body_offset
        heading_error = place["heading_error"][:, 0]
        return View(
            x=x + reach * torch.cos(heading),
            y=y + reach * torch.sin(heading),
            z=place["z"][:, 0],
            heading=heading + own["yaw"],
            climb=place["climb"][:, 0] * torch.cos(heading_error),
            road=state["road"][:, 0],
            look=own["look"],
            up=self.config.up * own["up"],
            pitch=math.radians(self.config.pitch) + own["pitch"],
            zoom=own["zoom"],
        )


def _part(view: View, start: int) -> View:
    """CHUNK pictures of a view, from `start` on."""
    return View(**{name: part[start : start + CHUNK] for name, part in vars(view).items()})
