"""Freed memory comes again without the system's help."""

import platform
import subprocess
import sys

import pytest

FAULTS = """
import resource, sys

if sys.argv[1] == "kept":
    from hotlap.learning.heap import keep_freed_memory
    assert keep_freed_memory()
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    b"x" * (64 * 2**20 + len(sys.argv))
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
faults()
print(max(faults() for _ in range(5)))
"""


def pages(word: str) -> int:
    """Pages that the system filled while memory was asked for that had been freed before."""
    command = [sys.executable, "-c", FAULTS, word]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be told so")
def test_memory_that_was_freed_comes_again_as_it_is() -> None:
    assert pages("kept") < 16
    assert pages("as ever") > 1000


def test_another_c_library_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    from hotlap.learning import heap

    monkeypatch.setattr(heap.ctypes, "CDLL", lambda _: object())
    assert not heap.keep_freed_memory()
