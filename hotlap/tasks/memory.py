"""Whether a batch fits, asked before it is made."""

import os
import sys
from pathlib import Path

import torch

KEPT_FREE = 0.1
"""Share of the free memory that is left alone."""


CGROUP = Path("/sys/fs/cgroup")
"""Where a container's own limit is told, on Linux."""


def free_bytes(device: torch.device) -> int:
    """Memory that can still be had on a device."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return min(_free_in_machine(), _free_in_container())


def _free_in_machine() -> int:
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError):  # a system that does not tell
        return sys.maxsize


def _free_in_container() -> int:
    try:
        limit, used = (int((CGROUP / f"memory.{name}").read_text()) for name in ("max", "current"))
        lines = (line.split() for line in (CGROUP / "memory.stat").read_text().splitlines())
        files = sum(int(size) for name, size in lines if name == "inactive_file")
    except (OSError, ValueError):  # no container, or none with a limit ("max")
        return sys.maxsize
    return max(limit - used + files, 0)  # files kept for speed are given up when memory is needed


def usable_bytes(device: torch.device) -> int:
    """Memory that may be taken on a device."""
    return int(free_bytes(device) * (1 - KEPT_FREE))


def refuse_if_too_large(
    count: int,
    of_what: str,
    needed: float,
    device: torch.device,
    more: str = "",
    most: int | None = None,
) -> None:
    """Raise MemoryError, saying how many would fit, before so many things of a kind are made.

    Args:
        count: How many.
        of_what: What they are.
        needed: Bytes that they take.
        device: Where.
        more: What is said at the end.
        most: How many would fit; none where each takes as much as any other.
    """
    usable = usable_bytes(device)
    if needed > usable:
        most = int(usable / needed * count) if most is None else most
        raise MemoryError(
            f"{count:,} {of_what} take about {needed / 1e9:.2f} GB, but only {usable / 1e9:.2f} GB "
            f"are usable on {device}; at most {most:,} would fit{more}"
        )
