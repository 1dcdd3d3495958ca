"""The same recipe with several seeds, and how soon each is good: no lucky runs.

    python benchmarks/seeds.py run FILE --recipe any-track --seeds 5 --judge="--track unseen ..."
    python benchmarks/seeds.py show FILE --metric lap_rate --bar 0.99

`run` trains every seed by the command `hotlap train`, one after another, and adds a JSON line per
training to FILE: each of its evaluations with the seconds since the command began, and what `hotlap
evaluate MODEL` with the words after `--judge` says of the model that was kept. What FILE holds
already is not done again. Words after `--` go to `hotlap train`. `show` prints the table.
"""

import argparse
import json
import shlex
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

POLL = 0.25
"""Seconds between two looks at a training."""


def main() -> None:
    words = sys.argv[1:]
    more = words[words.index("--") + 1 :] if "--" in words else []
    words = words[: words.index("--")] if "--" in words else words
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    deeds = parser.add_subparsers(dest="deed", required=True)
    run_ = deeds.add_parser("run", help="train and judge; words after -- go to hotlap train")
    run_.add_argument("file", type=Path)
    run_.add_argument("--recipe", required=True)
    run_.add_argument("--seeds", type=int, default=5)
    run_.add_argument("--first", type=int, default=0, help="the first seed")
    run_.add_argument("--folder", type=Path, default=Path("runs/seeds"), help="of the runs")
    run_.add_argument("--judge", default="", help="words for hotlap evaluate; none judges nothing")
    run_.add_argument("--limit", type=float, default=3600.0, help="seconds of one training")
    show_ = deeds.add_parser("show", help="print the table")
    show_.add_argument("file", type=Path)
    show_.add_argument("--metric", default="lap_rate", help="of evaluations, higher is better")
    show_.add_argument("--bar", type=float, default=0.99)
    asked = parser.parse_args(words)
    if asked.deed == "run":
        run(asked, more)
    else:
        show(asked)


def run(asked: argparse.Namespace, more: list[str]) -> None:
    held = {
        row["seed"]
        for row in read(asked.file)
        if (row["recipe"], row["words"], row["rc"]) == (asked.recipe, more, 0)
    }
    asked.file.parent.mkdir(parents=True, exist_ok=True)
    for seed in range(asked.first, asked.first + asked.seeds):
        if seed in held:
            continue
        folder = asked.folder / f"{Path(asked.recipe).stem}-{seed}"
        if folder.exists():
            sys.exit(f"{folder} is there already: move it away, or choose another --folder")
        row = {"recipe": asked.recipe, "seed": seed, "words": more}
        row |= train(asked, seed, folder, more)
        if asked.judge and row["rc"] == 0:
            row["judged"] = judge(folder, shlex.split(asked.judge))
        with asked.file.open("a") as file:
            file.write("\n" + json.dumps(row) + "\n")  # apart from a line that was cut off
        print(f"seed {seed}: {row['seconds']:.0f} s, exit {row['rc']}, {_gist(row)}", flush=True)


def train(asked: argparse.Namespace, seed: int, folder: Path, more: list[str]) -> dict:
    """One training by the command; every evaluation with its moment."""
    words = ["train", "--recipe", asked.recipe, "--seed", str(seed), "--save-dir", str(folder)]
    began = time.monotonic()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".txt").open("w") as told:
        child = subprocess.Popen(
            [sys.executable, "-m", "hotlap", *words, *more], stdout=told, stderr=told
        )
    curve: list[dict] = []
    try:
        while child.poll() is None:
            time.sleep(POLL)
            seconds = time.monotonic() - began
            curve += [{"seconds": round(seconds, 1)} | new for new in _new(folder, len(curve))]
            if seconds > asked.limit:
                break
    finally:
        child.terminate()
        child.wait()
    seconds = round(time.monotonic() - began, 1)
    curve += [{"seconds": seconds} | new for new in _new(folder, len(curve))]
    return {"rc": child.returncode, "seconds": seconds, "curve": curve}


def _new(folder: Path, known: int) -> list[dict]:
    """Evaluations that were not there before, without their many episodes."""
    file = folder / "evaluations.jsonl"
    lines = file.read_text().split("\n")[:-1][known:] if file.exists() else []
    rows = map(json.loads, lines)
    return [{n: v for n, v in row.items() if isinstance(v, int | float)} for row in rows]


def judge(folder: Path, words: list[str]) -> dict:
    """What the command says of the model that a training kept."""
    done = subprocess.run(
        [sys.executable, "-m", "hotlap", "evaluate", str(folder), *words, "--json"],
        capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode:
        return {"error": done.stderr[-2000:] or done.stdout[-2000:]}
    told = json.loads(done.stdout.splitlines()[-1])
    return {n: v for n, v in told.items() if isinstance(v, int | float | list | str)}


def read(file: Path) -> list[dict]:
    """The trainings in a file; a line that was cut off is left out."""
    rows = []
    for line in file.read_text().splitlines() if file.exists() else []:
        with suppress(json.JSONDecodeError):
            rows.append(json.loads(line))
    return rows


def show(asked: argparse.Namespace) -> None:
    print(f"| recipe | seed | in all | {asked.metric} {asked.bar:g} after | best of validation "
          "| judged |\n|---|---|---|---|---|---|")  # fmt: skip
    for row in read(asked.file):
        scores = [(told.get(asked.metric), told["seconds"]) for told in row["curve"]]
        known = [(score, second) for score, second in scores if score is not None]
        soon = next((f"{second:.0f} s" for score, second in known if score >= asked.bar), "never")
        best = f"{max(known)[0]:.4g}" if known else "none"
        judged = row.get("judged", {}).get(asked.metric, "-")
        print(f"| {row['recipe']} | {row['seed']} | {row['seconds']:.0f} s | {soon} | {best} "
              f"| {judged} |")  # fmt: skip


def _gist(row: dict) -> str:
    judged = row.get("judged", {})
    names = ("lap_rate", "mean_return", "interval", "lap_time_ratio", "error")
    return ", ".join(f"{name} {judged[name]}" for name in names if name in judged) or "not judged"


if __name__ == "__main__":
    main()
