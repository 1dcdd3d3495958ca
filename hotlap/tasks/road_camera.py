"""A forward camera on a set of roads: what has to be kept between pictures."""

import math
from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Any, TypeVar

import torch
from torch import Tensor

from hotlap.config.randomisation import RandomisationConfig
from hotlap.config.sensors import CameraConfig
from hotlap.sim.atlas import (
    GROUP,
    Planes,
    Sky,
    block_planes,
    first_place,
    read_band,
    read_raw,
    split_channels,
    split_rows,
)
from hotlap.sim.camera import (
    Aim,
    Frame,
    Play,
    Rows,
    View,
    divide_rows,
    padded_width,
    place_blocks,
    scan_rows,
    take_aim,
)
from hotlap.sim.fields import Fields, survey
from hotlap.sim.looks import DONKEY_STYLES, make_looks
from hotlap.sim.optics import add_noise, blur, make_strip
from hotlap.sim.random import Stream, integers, make_key, uniform
from hotlap.sim.randomisation import differs, draw_camera
from hotlap.sim.roads import Roads
from hotlap.sim.silhouettes import Silhouette
from hotlap.sim.uprights import Uprights, make_uprights, paint_silhouette
from hotlap.tasks.task import State
from hotlap.tasks.task import compiled as compile_whole

CHUNK = 64
"""Pictures drawn at a time on a CPU, so that what is worked on stays in its cache."""
DISGUISED = 0.5
"""Share of the randomised episodes that wear any style, where styles may change. In the others a
track varies in its own: roads that hardly differ from their land are hardest, and only some styles
have them."""
BYTES_PER_BLOCK = 128
"""What a compiled step keeps of each block of a picture at once; measured on a GPU."""


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
        if ranges.styles:
            styles = tuple(dict.fromkeys([*styles, *DONKEY_STYLES]))
        self.looks = make_looks(
            styles, ranges.looks, ranges.paint, ranges.light, ranges.colour, ranges.texture,
            roads.device,
        )  # fmt: skip
        first = [styles.index(track.style) * ranges.looks for track in roads.tracks]
        self.first_look = torch.tensor(first, device=roads.device)
        self._strip = None
        if ranges.noise[1] > 0:
            self._strip = make_strip(*config.shape, roads.device)
        most = math.radians(max(abs(end) for end in ranges.camera_pitch))
        play = Play(most, ranges.camera_zoom)
        self.frame = divide_rows(config, self.fields, play)
        if roads.device.type == "cpu":
            shape = (CHUNK, config.height, padded_width(config))
            self._index = torch.empty(shape, dtype=torch.int32)
        # Compiled one by one: what a stage hands on is stored, where a compiler given the whole
        # would work it out again at every pixel.
        on_cpu = roads.device.type == "cpu"
        place = _place_planes if on_cpu else place_blocks
        self._aim = _compile(self._take_aim, compiled)
        self._scan = _compile(scan_rows, compiled)
        self._place = _compile(place, compiled)
        self._read = _compile(read_band, compiled)
        self._paint = _compile(paint_silhouette, compiled)
        self._spoil = _compile(self._spoiled, compiled and not on_cpu)
        self._plain = {
            "aim": self._take_aim, "scan": scan_rows, "place": place, "read": read_band,
            "paint": paint_silhouette, "spoil": self._spoiled,
        }  # fmt: skip

    def compile_only(self, *stages: str) -> None:
        """Draw without a compiler but for these stages."""
        for name, plain in self._plain.items():
            if name not in stages:
                setattr(self, f"_{name}", plain)

    @property
    def bytes_per_picture(self) -> int:
        """Memory that drawing a picture takes: raw, as handed out and as kept, and its blocks."""
        pixels = self.config.height * padded_width(self.config)
        rows = self.frame.near - self.frame.first_ground + self.frame.high
        blocks = rows * padded_width(self.config) // GROUP
        return 3 * pixels * (4 if self.config.colour else 1) + BYTES_PER_BLOCK * blocks

    def begin(self, key: Tensor, road: Tensor, share: Tensor | None = None) -> dict[str, Tensor]:
        """Each episode's own camera and look (B,), for keys and roads (B,).

        A `share` () of the episodes differs, in place of the ranges' own.
        """
        own, drawn = self.first_look[road], self.ranges.looks
        look = own + integers(make_key(key, Stream.LOOK), drawn).squeeze(-1)
        if self.ranges.styles:
            any_look = integers(make_key(key, Stream.STYLE), drawn * len(self.looks.styles))
            disguised = uniform(make_key(key, Stream.STYLE, 1), 1) < DISGUISED
            look = torch.where(disguised, any_look, look.unsqueeze(-1)).squeeze(-1)
        differ = differs(self.ranges, key, share)
        if differ is not None:
            look = torch.where(differ, look, own)  # the first of a style is the plain one
        return draw_camera(self.ranges, key, share) | {"look": look}

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
        return self._spoil(pictures, state["camera"], make_key(state["key"], clock, Stream.IMAGE))

    def _spoiled(self, pictures: Tensor, own: State, key: Tensor) -> Tensor:
        """Raw pictures with their lens's blur and their sensor's noise, which the keys decide."""
        sharpness = own["blur"] if self.ranges.blur[1] > 0 else None
        return add_noise(blur(split_channels(pictures), sharpness), self._strip, own["noise"], key)

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
        size = CHUNK if device.type == "cpu" else batch
        views = _split(view, size) if self.uprights is not None else repeat(None)
        parts = (_split(rows, size), view.look.split(size), pictures.split(size))
        for part, look, out, eye in zip(*parts, views, strict=False):
            self._draw_part(part, look, out, eye)
        return pictures

    def _draw_part(self, rows: Rows, look: Tensor, out: Tensor, view: View | None) -> None:
        """Draw some pictures to `out` (B, H, W)."""
        bands, silhouettes = self._place(
            self.config, self.fields, self.frame, rows, view, self.uprights
        )
        if out.is_cuda:
            atlas = self.looks.colour if self.config.colour else self.looks.gray
            first = first_place(look)
            for band, part in zip(bands, split_rows(bands, out), strict=True):
                self._read(atlas, first, band, part)
        else:
            index = self._index[: len(out)]
            read_raw(self.looks, look, bands, self.config.colour, out, index)
        for silhouette in silhouettes:
            self._paint(self.looks, look, silhouette, out)

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


def _place_planes(
    config: CameraConfig,
    fields: Fields,
    frame: Frame,
    rows: Rows,
    view: View | None,
    uprights: Uprights | None,
) -> tuple[list[Sky | Planes], tuple[Silhouette, ...]]:
    """`place_blocks`, as far as a CPU is fast with."""
    bands, silhouettes = place_blocks(config, fields, frame, rows, view, uprights)
    planes = [band if isinstance(band, Sky) else block_planes(band) for band in bands]
    return planes, silhouettes


Record = TypeVar("Record")


def _split(record: Record, size: int) -> list[Record]:
    """A record of tensors (B, ...) in parts of `size`, records within it included."""

    def cut(value: object) -> Sequence[object]:
        return value.split(size) if isinstance(value, Tensor) else _split(value, size)

    values = vars(record)
    parts = zip(*(cut(value) for value in values.values()), strict=True)
    return [type(record)(*part) for part in parts]


def _compile(stage: Callable[..., Any], compiled: bool) -> Callable[..., Any]:
    """A stage, compiled if asked for."""
    return compile_whole(stage) if compiled else stage
