"""The camera that looks straight down on the car and turns with it.

    B pictures, R rows, G groups of pixels in a row (see `atlas`).
    metre     ground metres per pixel                                    (B, 1)
    forward   distance of a row ahead of the car, in pixels              (R,)
    right     place of a group in its row, in pixels right of the car    (G,)

Ahead is up. The road is read from the same atlas as the forward camera's; the car is a small sprite
that always lies in the same place and covers about what a car covers of a road.
"""

import torch
from torch import Tensor

from hotlap.config.sensors import TopDownConfig
from hotlap.sim.atlas import GROUP, read_raw, road_places, unpack
from hotlap.sim.fields import Fields
from hotlap.sim.ground import GroundRows, road_coordinates
from hotlap.sim.looks import PAINT_TOP, PAINTS, ROWS, WIDTH, Looks

CAR_LENGTH = 0.6
"""Length of the sprite, in half-widths of the road: a DonkeyCar on its generated track."""
CAR_WIDTH = 0.34


def draw_topdown(
    config: TopDownConfig,
    fields: Fields,
    looks: Looks,
    road: Tensor,
    look: Tensor,
    x: Tensor,
    y: Tensor,
    heading: Tensor,
) -> Tensor:
    """Pictures (B, height, width, 3 or 1), uint8.

    Args:
        config: The camera.
        fields: Road coordinates of the ground.
        looks: Atlases to draw with.
        road: Which track each car is on (B,) int64.
        look: Which look (B,) int64.
        x: Position of the car, metres (B,).
        y: The same.
        heading: Direction of the car (B,), which becomes up.
    """
    points = _ground_points(config, fields, road, x, y, heading)
    groups = -(-config.width // GROUP)
    right = torch.arange(groups, device=x.device) * GROUP + GROUP / 2 - config.width / 2
    band, _ = road_places(road_coordinates(fields, points, right, 1.0))
    pictures = unpack(read_raw(looks, look, [band], config.colour))[:, :, : config.width]
    _put_car(config, looks, look, pictures)
    return pictures


def _ground_points(
    config: TopDownConfig, fields: Fields, road: Tensor, x: Tensor, y: Tensor, heading: Tensor
) -> GroundRows:
    """Ground points of a picture's rows, in cells."""
    grids = fields.grids.index_select(0, road)
    left, bottom, scale, columns, rows, half_width = grids.unsqueeze(1).unbind(-1)  # (B, 1)
    metre = config.span * half_width / config.height
    along_x = torch.cos(heading).unsqueeze(-1) * metre * scale  # cells per pixel ahead
    along_y = torch.sin(heading).unsqueeze(-1) * metre * scale
    row = torch.arange(config.height, device=x.device) + 0.5
    forward = config.height * (0.5 + config.ahead) - row
    at_x = (x.unsqueeze(-1) - left) * scale + forward * along_x
    at_y = (y.unsqueeze(-1) - bottom) * scale + forward * along_y
    still = torch.zeros_like(at_x)
    lines = [
        (at_x, still + along_y),
        (at_y, still - along_x),
        (still - along_x, still),
        (still - along_y, still),
    ]
    first_cell = fields.first.index_select(0, road).unsqueeze(-1)
    stacked = torch.stack([torch.stack(line, -1) for line in lines], 1)
    return GroundRows(stacked, columns, rows, first_cell)


def car_box(config: TopDownConfig) -> tuple[int, int, int, int]:
    """Rows and columns that the car's sprite covers: first row, past the last, and of columns."""
    pixels = config.height / config.span  # per half-width
    length = max(3, round(CAR_LENGTH * pixels))
    wide = max(2, round(CAR_WIDTH * pixels))
    top = round(config.height * (0.5 + config.ahead) - length / 2)
    side = round(config.width / 2 - wide / 2)
    return (
        max(top, 0),
        min(top + length, config.height),
        max(side, 0),
        min(side + wide, config.width),
    )


def _put_car(config: TopDownConfig, looks: Looks, look: Tensor, pictures: Tensor) -> None:
    """Paint the sprite over the pictures: a body with a dark windscreen in front of its middle."""
    top, bottom, left, right = car_box(config)
    glass = top + max(1, round(0.25 * (bottom - top)))
    glass_end = max(glass + 1, top + round(0.4 * (bottom - top)))
    for start, stop, paint in (
        (top, glass, "car"),
        (glass, glass_end, "shadow"),
        (glass_end, bottom, "car"),
    ):
        pictures[:, start:stop, left:right] = _paint(looks, look, paint, config.colour)


def _paint(looks: Looks, look: Tensor, name: str, colour: bool) -> Tensor:
    """Colour of a paint in each picture's look (B, 1, 1, 3 or 1) uint8."""
    place = look * (ROWS * WIDTH) + (PAINT_TOP + PAINTS.index(name)) * WIDTH
    atlas = looks.colour if colour else looks.gray
    paint = atlas.index_select(0, place).view(-1, 1, 1, 1)
    return paint.view(torch.uint8)[..., :3] if colour else paint
