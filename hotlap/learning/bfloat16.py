"""Whether this machine's processor can reckon in bfloat16.

Some processors say that they can, and a virtual machine around them does not run the instruction:
whoever tries dies. So somebody else tries first.
"""

import subprocess
import sys
from functools import cache

LONGEST = 120.0
"""Seconds after which a try has failed; it takes some three."""
FURTHEST = 0.02
"""How far off a sum of bfloat16 numbers may be, as a share; they have eight bits."""
_TRY = """
import torch
from torch import nn
torch.set_num_threads(1)
torch.manual_seed(0)
net = nn.Sequential(nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(),
                    nn.Flatten(), nn.Linear(64 * 16, 32))
seen = torch.rand(8, 4, 44, 44).to(memory_format=torch.channels_last)
told = []
for half in (False, True):
    net.zero_grad()
    with torch.autocast("cpu", torch.bfloat16, enabled=half):
        answer = net(seen)
    answer.float().square().sum().backward()
    told.append((answer.detach().float(), net[0].weight.grad.clone()))
off = max(float((a - b).norm() / a.norm()) for a, b in zip(*told))
raise SystemExit(0 if off < FURTHEST else 3)
""".replace("FURTHEST", str(FURTHEST))


@cache
def knows_bfloat16() -> bool:
    """Whether another process came through forward and backward, with the right numbers."""
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
