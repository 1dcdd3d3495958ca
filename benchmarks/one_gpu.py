"""What needs a GPU to be measured, each part within its own time.

    python benchmarks/one_gpu.py FOLDER tests twin starts
    python benchmarks/one_gpu.py FOLDER any-track carracing --limit 580
    python benchmarks/one_gpu.py FOLDER any-track --seeds 5 --limit 590 -- --timesteps 60000000
    python benchmarks/one_gpu.py FOLDER carracing-dqn carracing-sac --together --limit 570

Every part writes what it says to FOLDER/PART.txt, of which the last lines are printed. `tests`:
those that are skipped without a GPU. `twin`: CarRacing's twin, frames per second. `starts`:
`any-track`, compiled or not, with more and more cars: what a start costs, and steps per second
after it. Any other part is the name of a recipe, trained with its clock by as many seeds
(`benchmarks/seeds.py`) as there is time for; words after `--` go to `hotlap train`. `--together`
runs all parts beside each other: learners of small batches leave most of a GPU to others.

FOLDER is what one takes home from a rented machine, so runs stay in --runs. Of each training comes
FOLDER/PART-SEED.tar, a few MB: its champion as an entry of a zoo (`HOTLAP_ZOO=...`), with 16-bit
weights, and its tables; and with `-- --milestones N` as many FOLDER/PART-SEED-at-SEGMENT.tar.
"""

import argparse
import os
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait
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
STOP = threading.Event()
"""Set when nobody waits for the parts any longer."""
TABLES = ("evaluations.jsonl", "metrics.jsonl", "config.json")
"""What is kept of a run beside its champion."""


def commands(part: str, asked: argparse.Namespace, words: list[str]) -> list[list[str]]:
    """What a part runs, together for as long as is asked."""
    python, folder, limit = sys.executable, asked.folder, asked.limit
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
             "--folder", str(asked.runs / f"starts-{compiled}-{envs}"), "--",
             "--randomise", "none", "--timesteps", "30000000",
             "--segment-steps", "5000000", "--compiled", compiled, "--envs", str(envs)]
            for compiled, envs in STARTS
        ]  # fmt: skip
    return [[*seeds, str(folder / f"{part}.jsonl"), "--recipe", part, "--seeds", str(asked.seeds),
             "--first", str(asked.first), "--limit", str(limit), "--folder", str(asked.runs),
             "--", *words]]  # fmt: skip


def pack(part: str, asked: argparse.Namespace) -> None:
    """Put what the trainings of a recipe came to into small files: one, and one a milestone."""
    for seed in range(asked.first, asked.first + asked.seeds):
        name = f"{Path(part).stem}-{seed}"
        run = asked.runs / name
        tables = [run / table for table in TABLES if (run / table).exists()]
        pack_champion(run, name, tables, asked.folder)
        for milestone in sorted((run / "milestones").glob("[0-9]*")):
            pack_champion(milestone, f"{name}-at-{int(milestone.name)}", [], asked.folder)


def pack_champion(model: Path, name: str, tables: list[Path], folder: Path) -> None:
    """A model as an entry of a zoo, beside tables of its run."""
    adding = ["zoo", "add", name, str(model), "--half"]
    with tempfile.TemporaryDirectory() as zoo, tarfile.open(folder / f"{name}.tar", "w") as bag:
        for table in tables:
            bag.add(table, f"{name}-{table.name}")
        done = subprocess.run(
            [sys.executable, "-m", "hotlap", *adding], env=os.environ | {"HOTLAP_ZOO": zoo},
            capture_output=True, text=True,
        )  # fmt: skip
        if done.returncode == 0:
            bag.add(Path(zoo) / name, name)
        else:
            print(f"{model} is no champion: {done.stderr[-500:]}")


def measure(part: str, asked: argparse.Namespace, words: list[str]) -> None:
    """All of a part, what it says, and what is taken home of it."""
    told, began = asked.folder / f"{part}.txt", time.monotonic()
    told.unlink(missing_ok=True)
    for command in commands(part, asked, words):
        run_part(command, told, asked.limit + GRACE - (time.monotonic() - began))
    last = told.read_text().splitlines()[-SHOWN:]
    print("\n".join([f"--- {part}, {time.monotonic() - began:.0f} s", *last]), flush=True)
    if part not in ("tests", "twin", "starts"):
        pack(part, asked)


def run_part(command: list[str], told: Path, seconds: float) -> None:
    """One command with all that it starts, ended when its time is up."""
    with told.open("a") as out:
        child = subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True)
        end = time.monotonic() + seconds
        try:
            while child.poll() is None and time.monotonic() < end and not STOP.is_set():
                time.sleep(0.1)
            if child.returncode is None:
                out.write(f"stopped after {seconds:g} s\n")
        finally:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()


def main() -> None:
    words = sys.argv[1:]
    more = words[words.index("--") + 1 :] if "--" in words else []
    words = words[: words.index("--")] if "--" in words else words
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("parts", nargs="+")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds of each part")
    parser.add_argument("--seeds", type=int, default=1, help="trainings of each recipe")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--together", action="store_true", help="all parts at once")
    parser.add_argument("--runs", type=Path, default=Path("runs/one-gpu"), help="where runs lie")
    asked = parser.parse_args(words)
    asked.folder.mkdir(parents=True, exist_ok=True)
    old = [str(run) for part in asked.parts for run in asked.runs.glob(f"{Path(part).stem}-*")]
    if old:
        sys.exit(f"there already: {', '.join(old)}; move them away, or choose another --runs")
    if not asked.together:
        for part in asked.parts:
            measure(part, asked, more)
        return
    with ThreadPoolExecutor(len(asked.parts)) as at_once:
        running = [at_once.submit(measure, part, asked, more) for part in asked.parts]
        try:
            wait(running)
        except BaseException:
            STOP.set()
            raise
    if failed := [error for part in running if (error := part.exception()) is not None]:
        raise BaseExceptionGroup("parts failed", failed)


if __name__ == "__main__":
    main()
