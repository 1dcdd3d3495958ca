"""From nothing to a first clean lap, timed.

Every seed is a training of its own in a process of its own: started, trained, and stopped at the
first evaluation in which the policy laps the track from a standing start on its line, staying on
the road. The clock runs from the start of that process, importing and compiling included.
"""

import json
import os
import subprocess
import sys
import time
from typing import Any

from hotlap.config.commands import BenchFirstLapConfig


def bench_first_lap(config: BenchFirstLapConfig) -> dict[str, Any]:
    """Time the first lap of every seed, one after another."""
    found: dict[str, Any] = {"seeds": [], "seconds": [], "steps": [], "lapped": [], "lap_times": []}
    device = config.device
    for seed in config.seeds:
        began = time.monotonic()
        asked = [str(seed), config.device, config.track, str(config.limit), str(config.threads)]
        words = [sys.executable, "-m", "hotlap.research.lap_learning", *asked]
        environment = os.environ | {"OMP_NUM_THREADS": str(config.threads)}
        done = subprocess.run(
            words, env=environment, stdout=subprocess.PIPE, text=True, check=True,
            timeout=config.limit + 120,
        )  # fmt: skip
        told = json.loads(done.stdout.splitlines()[-1])
        seconds = round(time.monotonic() - began, 1)
        device = told.pop("device")
        row = {"seeds": seed, "seconds": seconds, **told}
        for name, values in found.items():
            values.append(row[name])
        state = f"lap of {told['lap_times']:.2f} s" if told["lapped"] else "no lap"
        print(f"seed {seed}: {state} after {seconds:.1f} s and {told['steps']:,} steps", flush=True)
    return {"device": device, "track": config.track, **found}
