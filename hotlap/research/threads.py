"""One thread for small linear algebra.

Two threads were measured fifty times slower than one for the matrices of a study on a shared
machine, and sums in another order differ in their last digits, so that a study taken up with
another number of threads would part from itself.
"""

from collections.abc import Callable
from functools import cache, wraps
from typing import ParamSpec, TypeVar

from threadpoolctl import ThreadpoolController

Given = ParamSpec("Given")
Result = TypeVar("Result")


def one_thread(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """The function, with the numerical libraries held to one thread while it runs."""

    @wraps(function)
    def held(*args: Given.args, **kwargs: Given.kwargs) -> Result:
        with _controller().limit(limits=1):
            return function(*args, **kwargs)

    return held


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()  # looks through all loaded libraries, so once is enough
