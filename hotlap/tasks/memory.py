"""Whether a batch fits, asked before it is made."""

import os

import torch

KEPT_FREE = 0.1
"""Share of the free memory that is left alone."""


def free_bytes(device: torch.device) -> int:
    """Memory that can still be had on a device."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def refuse_if_too_large(num_envs: int, bytes_per_env: int, device: torch.device) -> None:
    """Raise MemoryError, saying what would fit, if a batch cannot."""
    usable = int(free_bytes(device) * (1 - KEPT_FREE))
    needed = num_envs * bytes_per_env
    if needed > usable:
        raise MemoryError(
            f"{num_envs} environments need about {needed / 2**30:.1f} GiB "
            f"({bytes_per_env / 1024:.0f} KiB each), {usable / 2**30:.1f} GiB are usable "
            f"on {device}; "
            f"at most {usable // bytes_per_env} would fit"
        )
