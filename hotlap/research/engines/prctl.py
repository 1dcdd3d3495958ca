"""What Linux can promise about the end of a process; elsewhere these do nothing.

Apart from the rest because a trial waits for it to be imported.
"""

import ctypes
import sys

_SET_DEATH_SIGNAL, _SET_CHILD_SUBREAPER = 1, 36  # from linux/prctl.h
_KILL = 9


def adopt_orphans() -> None:
    """Have descendants of this process whose parents die become its own children."""
    _prctl(_SET_CHILD_SUBREAPER, 1)


def die_with_parent() -> None:
    """Have this process killed when the thread that forked it ends."""
    _prctl(_SET_DEATH_SIGNAL, _KILL)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
