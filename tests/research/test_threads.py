"""One thread while a study decides."""

import numpy as np
from threadpoolctl import threadpool_info

from hotlap.research.threads import one_thread


def test_the_libraries_have_one_thread_inside() -> None:
    np.ones((4, 4)) @ np.ones((4, 4))  # the library is loaded

    @one_thread
    def threads() -> list[int]:
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    found = threads()
    assert found and set(found) == {1}
    assert threads.__name__ == "threads"
