"""What needs a GPU to be measured, one after another, each within its own time.

    python benchmarks/one_gpu.py FOLDER tests twin starts
    python benchmarks/one_gpu.py FOLDER any-track carracing --limit 580

Every part writes what it says to FOLDER/PART.txt, of which the last lines are printed. `tests`:
those that are skipped without a GPU. `twin`: CarRacing's twin, frames per second. `starts`:
`any-track` without a teacher, compiled or not, with more and more cars: what a start costs, and
steps per second after it. Any other part is the name of a recipe, trained once with its clock
(`benchmarks/seeds.py`).
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

HERE = Path(__file__).parent
GPU_TESTS = (
    "tests/sim/test_devices.py", "tests/sim/test_random.py", "tests/tasks/test_gpu.py",
    "tests/tasks/test_batch.py", "tests/tasks/test_track_choice.py",
    "tests/learning/test_gpu_learning.py", "tests/learning/test_gradient_step.py",
    "tests/learning/test_augmentation_loss.py",
)  # fmt: skip
STARTS = (("on", 4096), ("off", 4096), ("off", 16384))
"""Whether compiled, and with how many cars."""
GRACE = 30.0
"""Seconds beyond its limit that a part has to end by itself."""
SHOWN = 12
"""Lines of a part that are printed."""


def commands(part: str, folder: Path, limit: float) -> list[list[str]]:
    """What a part runs; each for `limit` seconds at most."""
    python = sys.executable
    if part == "tests":
        chosen = "gpu or cuda or captured or devices"
        return [[python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *GPU_TESTS, "-k", chosen]]
    if part == "twin":
        twin = str(HERE / "carracing_twin.py")
        return [[python, twin, "alone", "--device", "cuda", "--envs", "4096", "16384"]]
    seeds = [python, str(HERE / "seeds.py"), "run"]
    if part == "starts":
        return [
            [*seeds, str(folder / f"starts-{compiled}-{envs}.jsonl"), "--recipe", "any-track",
             "--seeds", "1", "--limit", str(limit / len(STARTS)),
             "--folder", str(folder / f"starts-{compiled}-{envs}"), "--",
             "--teacher-recipe", "None", "--randomise", "none", "--timesteps", "30000000",
             "--segment-steps", "5000000", "--compiled", compiled, "--envs", str(envs)]
            for compiled, envs in STARTS
        ]  # fmt: skip
    return [[*seeds, str(folder / f"{part}.jsonl"), "--recipe", part, "--seeds", "1",
             "--limit", str(limit), "--folder", str(folder)]]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("parts", nargs="+")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds of each part")
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    for part in asked.parts:
        file, began = asked.folder / f"{part}.txt", time.monotonic()
        with file.open("w") as told:
            for command in commands(part, asked.folder, asked.limit):
                child = subprocess.Popen(command, stdout=told, stderr=told, start_new_session=True)
                try:
                    child.wait(asked.limit + GRACE)
                except subprocess.TimeoutExpired:
                    told.write(f"stopped after {asked.limit + GRACE:g} s\n")
                finally:
                    with suppress(ProcessLookupError):  # with all that it started
                        os.killpg(child.pid, signal.SIGKILL)
                    child.wait()
        print(f"--- {part}, {time.monotonic() - began:.0f} s")
        print("\n".join(file.read_text().splitlines()[-SHOWN:]), flush=True)


if __name__ == "__main__":
    main()
