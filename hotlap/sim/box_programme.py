"""Quadratic programmes of a line: banded, perhaps round a loop, each value within its own bounds.

    minimise  1/2 x' H x + g' x   with   low <= x <= high

H is given by its diagonals, {offset: entries}: entry i of diagonal d stands at row i, column i + d
(wrapping round when closed). A primal-dual interior point method: one banded system per step.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solveh_banded

Array = NDArray[np.float64]
TOLERANCE = 1e-6
"""Share of the box: curvature is a second difference, and a line a millimetre rough is bumpy."""


def solve_box_programme(
    hessian: dict[int, Array], gradient: Array, low: Array, high: Array, closed: bool
) -> Array:
    """The minimiser, to about `TOLERANCE` of the width of the box."""
    count = len(gradient)
    scale = float(np.abs(hessian[0]).max())  # makes the numbers below independent of units
    hessian = {offset: entries / scale for offset, entries in hessian.items()}
    gradient = gradient / scale
    width = np.maximum(high - low, 1e-9)
    x = np.clip(np.zeros(count), low + 0.1 * width, high - 0.1 * width)
    order, base = _banded(hessian, count, closed)
    first = np.abs(_times(hessian, x, closed) + gradient).mean() + 1e-9
    press_low, press_high = np.full(count, first), np.full(count, first)
    for _ in range(40):
        room_low, room_high = x - low, high - x
        centre = 0.1 * (room_low @ press_low + room_high @ press_high) / (2 * count)
        slope = _times(hessian, x, closed) + gradient
        band = base.copy()
        band[0] += (press_low / room_low + press_high / room_high)[order]
        push = slope - centre / room_low + centre / room_high
        move = np.empty(count)
        move[order] = solveh_banded(band, -push[order], lower=True)
        by_low = centre / room_low - press_low - press_low / room_low * move
        by_high = centre / room_high - press_high + press_high / room_high * move
        far = min(_reach(room_low, move), _reach(room_high, -move))
        x = x + far * move
        dual = min(_reach(press_low, by_low), _reach(press_high, by_high))
        press_low, press_high = press_low + dual * by_low, press_high + dual * by_high
        small = far * np.abs(move).max() < TOLERANCE * width.max()
        if small and centre * 2 * count < TOLERANCE * first * width.sum():
            break
    return np.clip(x, low, high)


def _reach(values: Array, move: Array) -> float:
    """How much of `move` keeps all values positive."""
    falling = move < 0
    return min(1.0, 0.995 * float(np.min(-values[falling] / move[falling], initial=np.inf)))


def _times(hessian: dict[int, Array], x: Array, closed: bool) -> Array:
    """H x from the diagonals."""
    result = hessian[0] * x
    for offset, entries in hessian.items():
        if offset:
            inside = (
                entries if closed else np.where(np.arange(len(x)) + offset < len(x), entries, 0.0)
            )
            result = result + inside * np.roll(x, -offset) + np.roll(inside * x, offset)
    return result


def _banded(hessian: dict[int, Array], count: int, closed: bool) -> tuple[NDArray[np.int_], Array]:
    """An order of the unknowns and H in that order, in SciPy's lower banded form.

    A loop is folded flat (0, last, 1, last but one, ...): neighbours stay within twice as far.
    """
    order = np.arange(count)
    if closed:
        order[0::2], order[1::2] = np.arange((count + 1) // 2), count - 1 - np.arange(count // 2)
    place = np.empty(count, int)
    place[order] = np.arange(count)
    reach = max(hessian) * (2 if closed else 1)
    band = np.zeros((reach + 1, count))
    row = np.arange(count)
    for offset, entries in hessian.items():
        inside = np.ones(count, bool) if closed else row + offset < count
        one, other = place[row[inside]], place[(row[inside] + offset) % count]
        np.add.at(band, (np.abs(one - other), np.minimum(one, other)), entries[inside])
    return order, band
