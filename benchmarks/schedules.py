"""Several tracks at once or one after another: the same learner, steps and seeds, other schedules.

    python benchmarks/schedules.py run FILE --schedules parallel switch --seeds 5 --workers 10
    python benchmarks/schedules.py show FILE PICTURE

`run` trains every schedule with every seed, each in a process of its own on one core, and adds a
JSON line per training to FILE: after every segment, mean return and lap rate by track on episodes
that no training has seen. What FILE holds already is not done again. `show` prints tables of many
such lines and draws the curves. Going back to the best after a collapse is off: it would hide what
is forgotten.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import numpy as np
from scipy.stats import t

TRACKS = ("generated_track", "warehouse", "mini_monaco", "roboracingleague_1")
SCHEDULES = ("parallel", "switch", "curriculum", "plr")
SEGMENTS = 12
"""Evaluations of a training; three for each track of `switch`."""
EPISODES = 6
"""Of every track in every evaluation."""


def train(schedule: str, seed: int, asked: argparse.Namespace) -> dict:
    """One training, in a process of its own; what its evaluations said."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run"
        words = [
            "train", asked.task, "--track", *TRACKS, "--schedule", schedule, "--seed", str(seed),
            "--timesteps", str(asked.steps), "--segment-steps", str(asked.steps // SEGMENTS),
            "--eval-episodes", str(EPISODES * len(TRACKS)), "--rollback.patience", "1000",
            "--device", "cpu", "--compiled", "off", "--save-dir", str(path),
        ]  # fmt: skip
        one = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
        began = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "hotlap", *words], env=os.environ | one, capture_output=True,
            text=True,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"{schedule}, seed {seed}: {done.stderr[-2000:]}")
        seconds = round(time.monotonic() - began, 1)
        rows = (path / "evaluations.jsonl").read_text().splitlines()
    curve = [{name: row[name] for name in ("steps", "tracks")} for row in map(json.loads, rows)]
    return {
        "schedule": schedule, "seed": seed, "task": asked.task, "steps": asked.steps,
        "seconds": seconds, "curve": curve,
    }  # fmt: skip


def run(asked: argparse.Namespace) -> None:
    held = {(row["schedule"], row["seed"]) for row in read(asked.file)}
    wanted = [(name, seed) for seed in range(asked.seeds) for name in asked.schedules]
    asked.file.parent.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(asked.workers) as pool, asked.file.open("a") as file:
        due = [pool.submit(train, *case, asked) for case in wanted if case not in held]
        for place, future in enumerate(as_completed(due), start=1):
            row = future.result()
            file.write(json.dumps(row) + "\n")
            file.flush()
            final = np.mean([told["return"] for told in row["curve"][-1]["tracks"].values()])
            print(f"{place} of {len(due)}: {row['schedule']}, seed {row['seed']}, return "
                  f"{final:.1f} after {row['seconds']:.0f} s", flush=True)  # fmt: skip


def read(file: Path) -> list[dict]:
    """The trainings in a file; a line that was cut off is left out."""
    lines = file.read_text().splitlines() if file.exists() else []
    return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]


def values(rows: list[dict], measure: str) -> np.ndarray:
    """By seed, evaluation and track."""
    return np.array(
        [[[p["tracks"][track][measure] for track in TRACKS] for p in row["curve"]] for row in rows]
    )


def with_interval(numbers: np.ndarray, form: str = "{:.1f}") -> str:
    """Mean of numbers by seed, and its 95 % interval (Student's)."""
    if len(numbers) < 2:
        return form.format(numbers.mean())
    half = t.ppf(0.975, len(numbers) - 1) * numbers.std(ddof=1) / np.sqrt(len(numbers))
    return f"{form.format(numbers.mean())} ± {form.format(half)}"


def show(asked: argparse.Namespace) -> None:
    rows = read(asked.file)
    by_name = {name: [r for r in rows if r["schedule"] == name] for name in SCHEDULES}
    by_name = {name: own for name, own in by_name.items() if own}
    first = rows[0]
    print(f"{first['task']}, {first['steps']:,} steps, {len(TRACKS)} tracks, "
          f"{EPISODES} episodes each\n")  # fmt: skip
    print("| schedule | seeds | final return | final lap rate | lost since the best | seconds |")
    print("|---|---|---|---|---|---|")
    for name, own in by_name.items():
        returns, laps = values(own, "return"), values(own, "lap_rate")
        lost = (returns.max(1) - returns[:, -1]).mean(-1)
        seconds = np.median([row["seconds"] for row in own])
        print(f"| {name} | {len(own)} | {with_interval(returns[:, -1].mean(-1))} "
              f"| {with_interval(100 * laps[:, -1].mean(-1), '{:.0f} %')} "
              f"| {with_interval(lost)} | {seconds:.0f} |")  # fmt: skip
    print(f"\n| forgotten: best return less last | {' | '.join(TRACKS)} |")
    print(f"|---{'|---' * len(TRACKS)}|")
    for name, own in by_name.items():
        returns = values(own, "return")
        lost = returns.max(1) - returns[:, -1]
        cells = [with_interval(lost[:, place]) for place in range(len(TRACKS))]
        print(f"| {name} | {' | '.join(cells)} |")
    draw(by_name, asked.picture)


def draw(by_name: dict[str, list[dict]], picture: Path) -> None:
    """A panel per schedule, a line per track: the mean over seeds, and where each seed went."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3.4 * len(by_name), 3.4), layout="constrained")
    axes = figure.subplots(1, len(by_name), sharey=True, squeeze=False)[0]
    for axis, (name, own) in zip(axes, by_name.items(), strict=True):
        steps = [point["steps"] for point in own[0]["curve"]]
        returns = values(own, "return")
        for place, track in enumerate(TRACKS):
            colour = f"C{place}"
            axis.plot(steps, returns[:, :, place].T, color=colour, alpha=0.2, linewidth=0.7)
            axis.plot(steps, returns[:, :, place].mean(0), color=colour, label=track)
        if name == "switch":
            for part in range(1, len(TRACKS)):
                axis.axvline(own[0]["steps"] * part / len(TRACKS), color="#c0c0c0", zorder=0)
        axis.set_title(f"{name}, {len(own)} seed{'s' * (len(own) > 1)}", fontsize=10)
        axis.set_xlabel("environment steps")
        axis.xaxis.set_major_formatter(lambda steps, _: f"{steps / 1000:g}k")
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("mean return, best actions")
    axes[0].legend(fontsize=7, frameon=False)
    picture.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(picture, dpi=130)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    verbs = parser.add_subparsers(required=True)
    training = verbs.add_parser("run")
    training.add_argument("file", type=Path)
    training.add_argument("--schedules", nargs="+", choices=SCHEDULES, default=SCHEDULES[:2])
    training.add_argument("--seeds", type=int, default=5)
    training.add_argument("--workers", type=int, default=1)
    training.add_argument("--task", default="donkey")
    training.add_argument("--steps", type=int, default=491_520)
    training.set_defaults(action=run)
    showing = verbs.add_parser("show")
    showing.add_argument("file", type=Path)
    showing.add_argument("picture", type=Path)
    showing.set_defaults(action=show)
    return parser.parse_args()


if __name__ == "__main__":
    asked = parsed()
    asked.action(asked)
