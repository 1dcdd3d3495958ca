"""Pictures for people: the camera's where there is one, else the scene from above.

North is up. A scene is drawn around the first car, `SPAN` widths of the road across, or as the
whole arena where the task has one.
"""

import numpy as np
from PIL import Image, ImageDraw

from hotlap.sim.roads import Roads
from hotlap.tasks.adapters.arrays import Array, to_array
from hotlap.tasks.task import State, Task, map_tree

SIZE = 400
"""Pixels on a side."""
SPAN = 5.0
LAND, ROAD, LINE, WALL = (96, 128, 88), (112, 112, 112), (232, 200, 72), (48, 48, 48)
CARS = ((220, 60, 50), (60, 100, 220), (240, 240, 240), (30, 30, 30))


def draw(task: Task, world: State, place: int) -> Array:
    """Picture (height, width, 3) uint8 of the environment at `place` in the batch."""
    one = map_tree(lambda leaf: leaf[place : place + 1], world)
    if len(task.observation_space.shape) == 3:
        frame = to_array(task.present(task.observe(one)))[0, 0]
        return frame if frame.shape[-1] == 3 else np.repeat(frame[..., :1], 3, axis=-1)
    return _from_above(task, one)


def _from_above(task: Task, one: State) -> Array:
    car = {name: to_array(one["car"][name])[0] for name in ("x", "y", "heading")}
    centre, span = np.array([car["x"][0], car["y"][0]]), 10.0
    roads: Roads | None = getattr(task, "roads", None)
    half: float | None = getattr(task, "half", None)
    image = Image.new("RGB", (SIZE, SIZE), LAND)
    canvas = ImageDraw.Draw(image)
    if roads is not None:
        track = roads.tracks[int(one["road"][0, 0])]
        span = SPAN * float(np.mean(track.width_left + track.width_right))
        _draw_road(canvas, *_edges(track.xy, track.width_left, track.width_right, track.closed),
                   centre, span)  # fmt: skip
    elif half is not None:
        centre, span = np.zeros(2), 2.1 * half
        corners = np.array([[-half, -half], [half, half]])
        (left, bottom), (right, top) = _pixels(corners, centre, span)
        canvas.rectangle([left, top, right, bottom], fill=ROAD, outline=WALL, width=4)
    size = getattr(task, "vehicle", None)
    length, width = (size.length, size.width) if size is not None else (0.4, 0.2)
    for number in range(len(car["x"])):
        box = _car(car["x"][number], car["y"][number], car["heading"][number], length, width)
        canvas.polygon(_flat(_pixels(box, centre, span)), fill=CARS[number % len(CARS)])
    return np.array(image)


def _edges(xy: Array, left: Array, right: Array, closed: bool) -> tuple[Array, Array, Array]:
    """Left edge, reference line and right edge, each (M, 2), the first point repeated if closed."""
    if closed:
        xy = np.vstack([xy, xy[:1]])
        left, right = np.append(left, left[0]), np.append(right, right[0])
    along = np.gradient(xy, axis=0)
    normal = np.column_stack([-along[:, 1], along[:, 0]])
    normal /= np.linalg.norm(normal, axis=1, keepdims=True)
    return xy + normal * left[:, None], xy, xy - normal * right[:, None]


def _draw_road(
    canvas: ImageDraw.ImageDraw, left: Array, line: Array, right: Array, centre: Array, span: float
) -> None:
    """The stretches of road that lie in the picture."""
    near = np.flatnonzero(np.abs(line[:-1] - centre).max(1) < span)
    edges = [_pixels(edge, centre, span) for edge in (left, line, right)]
    for i in near:
        quad = np.vstack([edges[0][i : i + 2], edges[2][i : i + 2][::-1]])
        canvas.polygon(_flat(quad), fill=ROAD)
    for i in near:
        canvas.line(_flat(edges[1][i : i + 2]), fill=LINE, width=2)


def _car(x: float, y: float, heading: float, length: float, width: float) -> Array:
    """Outline of a car, pointed at the nose."""
    outline = np.array([[0.5, 0.0], [0.3, 0.5], [-0.5, 0.5], [-0.5, -0.5], [0.3, -0.5]])
    outline = outline * [length, width]
    cosine, sine = np.cos(heading), np.sin(heading)
    return outline @ np.array([[cosine, sine], [-sine, cosine]]) + [x, y]


def _pixels(points: Array, centre: Array, span: float) -> Array:
    return (points - centre) * np.array([1, -1]) * (SIZE / span) + SIZE / 2


def _flat(points: Array) -> list[float]:
    return [float(value) for value in points.ravel()]
