"""Whether this machine's processor reckons in bfloat16, and gains by it.

Some processors say that they can, and a virtual machine around them does not run the instruction:
whoever tries dies. So somebody else tries first. Others cannot, and take several times as long to
come to the same numbers by other instructions.
"""

import subprocess
import sys
from functools import cache

LONGEST = 120.0
"""Seconds after which a try has failed; it takes some three."""
FURTHEST = 0.05
"""How far off an answer or a gradient may be, as a share of it; measured: 0.012, of a gradient."""
SLOWEST = 1.5
"""Most time it may take, as a share of float32's; measured: 0.6, and 3 where it is not there."""
_TRY = """
import time
import torch
from torch import nn
torch.set_num_threads(1)
torch.manual_seed(0)
net = nn.Sequential(nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(),
                    nn.Flatten(), nn.Linear(64 * 81, 128))
seen = torch.rand(32, 4, 84, 84).to(memory_format=torch.channels_last)
told, taken = [], []
for half in (False, True):
    seconds = []
    for _ in range(6):
        began = time.perf_counter()
        net.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            answer = net(seen)
        answer.float().square().sum().backward()
        seconds.append(time.perf_counter() - began)
    told.append((answer.detach().float(), net[0].weight.grad.clone()))
    taken.append(min(seconds))
off = max(float((a - b).norm() / a.norm()) for a, b in zip(*told))
raise SystemExit(0 if off < FURTHEST and taken[1] < SLOWEST * taken[0] else 3)
""".replace("FURTHEST", str(FURTHEST)).replace("SLOWEST", str(SLOWEST))


@cache
def knows_bfloat16() -> bool:
    """Whether another process came through, soon and with the right numbers."""
    command = [sys.executable, "-c", _TRY]
    quiet = {
        "stdin": subprocess.DEVNULL,
        "stdout": subprocess.DEVNULL,
        "stderr": subprocess.DEVNULL,
    }
    try:
        return subprocess.run(command, timeout=LONGEST, **quiet).returncode == 0  # type: ignore[call-overload]
    except (OSError, subprocess.TimeoutExpired):
        return False
