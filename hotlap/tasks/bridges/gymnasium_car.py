"""Gymnasium's own CarRacing-v3, drawn only where somebody looks, on any track.

frame  what a car shows every fiftieth of a second: 96 x 96 points in colour
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotlap.sim.carracing.tile_track import PLAYFIELD, TileTrack
from hotlap.tasks.bridges.carracing_backends import CarRacing
from hotlap.tasks.bridges.carracing_frames import Pixels

SCREEN = (1000, 800)
"""Width and height of what Gymnasium draws, before it is shrunk to a frame."""
GRASS = PLAYFIELD / 20.0
"""Side of a lighter square of grass; every other one along both ways is there."""
SHADE = 0.01 * 255
"""Levels between the three shades of tiles."""

Corners = Sequence[Sequence[float]]


class GymnasiumCar(CarRacing):
    """CarRacing-v3, drawn only where somebody looks, on any track.

    It draws what Gymnasium does, point by point, but leaves out squares and tiles that are not on
    the screen before they are turned and shifted: that is half of the time.
    """

    def __init__(self) -> None:
        super().__init__()
        self.looking = True
        """Whether the next frame is seen; an episode's last one always is."""
        self._given: TileTrack | None = None
        lows = [GRASS * cell for cell in range(-20, 20, 2)]
        self._squares: list[Corners] = [
            [(x + GRASS, y), (x, y), (x, y + GRASS), (x + GRASS, y + GRASS)]
            for x in lows
            for y in lows
        ]
        self._square_discs = _discs(self._squares)
        self._tile_discs = np.empty((0, 3))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Pixels, dict[str, Any]]:
        """Begin on the seed's track, or on the one that options name `track`."""
        self.looking = True
        self._given = (options or {}).get("track")
        return super().reset(seed=seed)

    def told(self) -> dict[str, Any]:
        """What is known of the car beside its frame."""
        (x, y), speed = self.car.hull.position, self.car.hull.linearVelocity.length
        tiles, visited = len(self.track), self.tile_visited_count
        share = visited / tiles
        return {
            "tiles": tiles, "visited": visited, "share": share, "speed": speed, "x": x, "y": y
        }  # fmt: skip

    def picture(self) -> Pixels:
        """A larger picture (400, 600, 3), for videos."""
        return super()._render("rgb_array")

    # --- the track -----------------------------------------------------------------------------

    def _create_track(self) -> bool:
        laid = super()._create_track() if self._given is None else self._lay(self._given)
        if laid:
            self._tile_discs = _discs([corners for corners, _ in self.road_poly])
        return laid

    def _lay(self, given: TileTrack) -> bool:
        """Lay the tiles and kerbs of a track, in the order in which they are drawn."""
        self.road = []
        nodes = zip(given.turn.tolist(), given.x.tolist(), given.y.tolist(), strict=True)
        self.track = [(0.0, *node) for node in nodes]
        quads = zip(given.tiles.tolist(), given.kerbs.tolist(), given.kerb.tolist(), strict=True)
        for index, (corners, kerb, side) in enumerate(quads):
            self.fd_tile.shape.vertices = corners
            tile = self.world.CreateStaticBody(fixtures=self.fd_tile)
            tile.userData = tile
            tile.color = self.road_color + SHADE * (index % 3)
            tile.road_visited, tile.road_friction, tile.idx = False, 1.0, index
            tile.fixtures[0].sensor = True
            self.road.append(tile)
            self.road_poly.append((corners, tile.color))
            if side:
                self.road_poly.append((kerb, (255, 0, 0) if index % 2 else (255, 255, 255)))
        return True

    # --- the picture ---------------------------------------------------------------------------

    def _render(self, mode: str) -> Any:
        if mode == "state_pixels" and not (self.looking or self._is_over()):
            return self.state
        return super()._render(mode)

    def _is_over(self) -> bool:
        """Whether the frame being made ends the episode; Gymnasium finds out after drawing it."""
        outside = max(abs(place) for place in self.car.hull.position) > PLAYFIELD
        return outside or self.new_lap or self.tile_visited_count == len(self.track)

    def _render_road(self, zoom: float, translation: Sequence[float], angle: float) -> None:
        edge, where = PLAYFIELD, (zoom, translation, angle)
        field = [(edge, edge), (edge, -edge), (-edge, -edge), (-edge, edge)]
        self._draw_colored_polygon(self.surf, field, self.bg_color, *where, clip=False)
        for index in _on_screen(self._square_discs, *where):
            self._draw_colored_polygon(self.surf, self._squares[index], self.grass_color, *where)
        for index in _on_screen(self._tile_discs, *where):
            corners, colour = self.road_poly[index]
            levels = [int(level) for level in colour]
            self._draw_colored_polygon(self.surf, corners, levels, *where)


def _discs(shapes: Sequence[Corners]) -> NDArray[np.float64]:
    """Middle and radius of discs (K, 3) that hold shapes of four corners."""
    corners = np.array(shapes)
    middle = corners.mean(1)
    radius = np.linalg.norm(corners - middle[:, None], axis=-1).max(1)
    return np.column_stack([middle, radius])


def _on_screen(
    discs: NDArray[np.float64], zoom: float, translation: Sequence[float], angle: float
) -> list[int]:
    """Which discs (K, 3) reach the screen, or come within two points of it."""
    x, y, radius = discs.T * zoom
    across = math.cos(angle) * x - math.sin(angle) * y + translation[0]
    down = math.sin(angle) * x + math.cos(angle) * y + translation[1]
    reach = radius + 2.0
    near = (across > -reach) & (across < SCREEN[0] + reach)
    near &= (down > -reach) & (down < SCREEN[1] + reach)
    found: list[int] = np.flatnonzero(near).tolist()
    return found
