"""A forward camera on a set of roads: what has to be kept between pictures."""

import math
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor

from hotlap.config.randomisation import RandomisationConfig
from hotlap.config.sensors import CameraConfig
from hotlap.sim.atlas import (
    block_planes,
    first_place,
    read_band,
    read_raw,
    split_channels,
    split_rows,
)
from hotlap.sim.camera import (
    Aim,
    Rows,
    View,
    divide_rows,
    padded_width,
    place_blocks,
    scan_rows,
    take_aim,
)
from hotlap.sim.fields import survey
from hotlap.sim.looks import make_looks
from hotlap.sim.optics import add_noise, blur, make_strip
from hotlap.sim.random import Stream, integers, make_key
from hotlap.sim.randomisation import draw_camera, pitch_play
from hotlap.sim.roads import Roads
from hotlap.sim.uprights import make_uprights, paint_silhouette
from hotlap.tasks.task import State

CHUNK = 32
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
        self._strip = None
        if ranges.noise[1] > 0:
            channels = 3 if config.colour else 1
            self._strip = make_strip(config.height, config.width, channels, roads.device)
        self.frame = divide_rows(config, self.fields, pitch_play(ranges), self.uprights is not None)
        if roads.device.type == "cpu":
            shape = (CHUNK, config.height, padded_width(config))
            self._index = torch.empty(shape, dtype=torch.int32)
        # Compiled one by one: what a stage hands on is stored, where a compiler given the whole
        # would work it out again at every pixel.
        self._aim = _compile(self._take_aim, compiled)
        self._scan = _compile(scan_rows, compiled)
        self._place = _compile(place_blocks, compiled)
        self._read = _compile(read_band, compiled)
        self._planes = _compile(block_planes, compiled)
        self._paint = _compile(paint_silhouette, compiled)

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
        pictures = self._draw(state, body_offset)[:, :, : self.config.width]
        if self._strip is None and self.ranges.blur[1] == 0:
            return pictures
        own = state["camera"]
        pictures = blur(split_channels(pictures), own["blur"] if self.ranges.blur[1] > 0 else None)
        return add_noise(
            pictures, self._strip, own["noise"], make_key(state["key"], clock, Stream.IMAGE)
        )

    def _draw(self, state: State, body_offset: float) -> Tensor:
        """Raw pictures, whole groups wide."""
        view, aim = self._aim(
            state["car"], state["place"], state["camera"], state["road"], body_offset
        )
        rows = self._scan(self.config, self.fields, self.frame, view, aim)
        batch, device = len(view.x), view.x.device
        shape = (batch, self.config.height, padded_width(self.config))
        kind = torch.int32 if self.config.colour else torch.uint8
        pictures = torch.empty(shape, dtype=kind, device=device)
        for start in range(0, batch, CHUNK if device.type == "cpu" else batch):
            part = slice(start, start + CHUNK) if device.type == "cpu" else slice(None)
            self._draw_blocks(_part(view, part), _part(rows, part), pictures[part])
        return pictures

    def _draw_blocks(self, view: View, rows: Rows, out: Tensor) -> None:
        """Draw a few pictures to `out` (B, H, W)."""
        bands, silhouettes = self._place(
            self.config, self.fields, self.frame, view, rows, self.uprights
        )
        if out.is_cuda:
            atlas = self.looks.colour if self.config.colour else self.looks.gray
            first = first_place(view.look)
            for band, part in zip(bands, split_rows(bands, out), strict=True):
                self._read(atlas, first, band, part)
        else:
            index = self._index[: len(out)]
            read_raw(self.looks, view.look, bands, self.config.colour, out, index, self._planes)
        for silhouette in silhouettes:
            self._paint(self.looks, view.look, silhouette, out)

    def _take_aim(
        self, car: State, place: State, own: State, road: Tensor, body_offset: float
    ) -> tuple[View, Aim]:
        """Where each picture is taken from."""
        x, y, heading = car["x"][:, 0], car["y"][:, 0], car["heading"][:, 0]
        reach = self.config.forward + body_offset
        heading_error = place["heading_error"][:, 0]
        view = View(
            x=x + reach * torch.cos(heading),
            y=y + reach * torch.sin(heading),
            z=place["z"][:, 0],
            heading=heading + own["yaw"],
            climb=place["climb"][:, 0] * torch.cos(heading_error),
            road=road[:, 0],
            look=own["look"],
            up=self.config.up * own["up"],
            pitch=math.radians(self.config.pitch) + own["pitch"],
            zoom=own["zoom"],
        )
        return view, take_aim(self.config, self.fields, view)


Record = TypeVar("Record")


def _part(record: Record, part: slice) -> Record:
    """Some pictures of a record of tensors (B, ...), records within it included."""

    def cut(value: object) -> object:
        return value[part] if isinstance(value, Tensor) else _part(value, part)

    return type(record)(**{name: cut(value) for name, value in vars(record).items()})


def _compile(stage: Callable[..., Any], compiled: bool) -> Callable[..., Any]:
    """A stage, compiled if asked for."""
    return torch.compile(stage, dynamic=False, fullgraph=True) if compiled else stage
