"""Memory that a learner frees is kept for what it asks for next.

Each update of a net with pictures asks the C library for hundreds of megabytes and gives them back.
By default the library hands all of that to the system, and the system fills every page with zeros
before it comes again: a fifth of the time of training on a CPU.
"""

import ctypes

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4  # of mallopt(3)
KEPT = 512 * 2**20
"""Free bytes at the heap's end beyond which they go back to the system after all."""
GROWTH = 64 * 2**20
"""Bytes that the heap grows by, at least."""


def keep_freed_memory() -> bool:
    """Ask this process's C library for it; False where that is not glibc."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # another library, or another system
        return False
    wanted = ((_MMAP_MAX, 0), (_TRIM_THRESHOLD, KEPT), (_TOP_PAD, GROWTH))
    return all(mallopt(name, value) == 1 for name, value in wanted)
