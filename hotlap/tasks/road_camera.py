"""A forward camera on a set of roads: what has to be kept between pictures."""

import math

import torch
from torch import Tensor

from hotlap.config.randomisation import RandomisationConfig
from hotlap.config.sensors import CameraConfig
from hotlap.sim.atlas import read_raw, split_channels
from hotlap.sim.camera import View, look_around, padded_width
from hotlap.sim.fields import survey
from hotlap.sim.looks import make_looks
from hotlap.sim.optics import add_noise, blur, make_strip
from hotlap.sim.random import Stream, integers, make_key
from hotlap.sim.randomisation import draw_camera, pitch_play
from hotlap.sim.roads import Roads
from hotlap.sim.uprights import make_uprights, paint_silhouette
from hotlap.tasks.task import State

CHUNK = 64
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
        self.uprights = make_uprights(roads, self.fields)
        styles = tuple(dict.fromkeys(track.style for track in roads.tracks))
        self.looks = make_looks(
            styles, ranges.looks, 0, ranges.light, ranges.colour, ranges.texture, roads.device
        )
        first = [styles.index(track.style) * ranges.looks for track in roads.tracks]
        self.first_look = torch.tensor(first, device=roads.device)
        self._play = pitch_play(ranges)
        self._strip = None
        if ranges.noise[1] > 0:
            channels = 3 if config.colour else 1
            self._strip = make_strip(config.height, config.width, channels, roads.device)
        self._look = look_around
        if compiled and roads.device.type == "cpu":
            # A compiler fuses the sums well but not the reads, so on a CPU it gets the sums alone.
            self._look = torch.compile(look_around, dynamic=False, fullgraph=True)

    def begin(self, key: Tensor, road: Tensor) -> dict[str, Tensor]:
        """Each episode's own camera and look (B,), for keys and roads (B,)."""
        look = integers(make_key(key, Stream.LOOK), self.ranges.looks).squeeze(-1)
        return draw_camera(self.ranges, key) | {"look": self.first_look[road] + look}

    def draw(self, state: State, body_offset: float, clock: Tensor) -> Tensor:
        """Pictures from the first car of each environment.

        Raw (B, height, width), for `atlas.unpack`, if they are clean; with channels
        (B, height, width, C) if a lens or sensor spoils them.

        Args:
            state: The task's state.
            body_offset: From the car's centre of mass forward to the origin the camera is mounted
                on.
            clock: Control steps since the episode began (B,), for noise that changes every step.
        """
        view = self._view(state, body_offset)
        whole = view.x.is_cuda or torch.compiler.is_compiling()
        pictures = self._draw(view) if whole else self._draw_in_chunks(view)
        pictures = pictures[:, :, : self.config.width]
        if self._strip is None and self.ranges.blur[1] == 0:
            return pictures
        own = state["camera"]
        pictures = blur(split_channels(pictures), own["blur"] if self.ranges.blur[1] > 0 else None)
        return add_noise(
            pictures, self._strip, own["noise"], make_key(state["key"], clock, Stream.IMAGE)
        )

    def _draw_in_chunks(self, view: View) -> Tensor:
        """The same as `_draw`, a few pictures at a time."""
        columns = padded_width(self.config)
        kind = torch.int32 if self.config.colour else torch.uint8
        pictures = torch.empty(len(view.x), self.config.height, columns, dtype=kind)
        for start in range(0, len(view.x), CHUNK):
            self._draw(_part(view, start), pictures[start : start + CHUNK])
        return pictures

    def _draw(self, view: View, out: Tensor | None = None) -> Tensor:
        """Raw pictures of a view, whole groups wide."""
        bands, silhouettes = self._look(
            self.config, self.fields, view, self.uprights, pitch_play=self._play
        )
        pixels = read_raw(self.looks, view.look, bands, self.config.colour, out)
        for silhouette in silhouettes:
            pixels = paint_silhouette(self.looks, view.look, silhouette, pixels)
        return pixels

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
