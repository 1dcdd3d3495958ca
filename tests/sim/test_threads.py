"""Work on many things at once."""

import time

import pytest

from hotlap.sim.threads import at_once


def test_what_is_made_comes_in_the_order_of_the_things() -> None:
    def slowly(number: int) -> int:
        time.sleep(0.02 if number == 0 else 0.0)
        return number * number

    assert at_once(slowly, range(20)) == [number * number for number in range(20)]


def test_an_error_is_told() -> None:
    with pytest.raises(ZeroDivisionError):
        at_once(lambda number: 1 // number, [1, 0])
