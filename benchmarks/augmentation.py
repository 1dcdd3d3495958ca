"""What changing pictures, and changing the world, does for roads and looks that were never seen.

    python benchmarks/augmentation.py run RESULTS.jsonl --workers 16 --seeds 5 --seconds 540
    python benchmarks/augmentation.py show RESULTS.jsonl

PPO learns to drive four tracks from gray pictures of 40x30, on one core. Its last policy is judged
on these and on twenty tracks that it never saw, with the plain looks and with those of `--randomise
full`: the same episodes for everyone. Seeds are the outer loop, so that a run cut short leaves
whole columns; run again, it goes on where it stopped.
"""

import argparse
import json
import multiprocessing
import os
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t

KNOWN = ("generated_track", "circuit:0", "circuit:1", "circuit:2")
UNSEEN = tuple(f"circuit:{number}" for number in range(5000, 5020))
JUDGED_STEPS = 800
"""Forty seconds: a lap of the longest at 1.3 m/s."""
EACH: dict[str, dict[str, Any]] = {
    "shift": {"shift": 2},
    "crop": {"crop": 0.8},
    "blur": {"blur": 1.0},
    "flip": {"flip": 0.5},
    "light": {"brightness": (0.6, 1.4), "contrast": (0.7, 1.3)},
}
ALL = {name: value for own in EACH.values() for name, value in own.items()}
CASES: dict[str, tuple[dict[str, Any], str]] = {
    "none": ({}, "none"),
    **{name: (own, "none") for name, own in EACH.items()},
    "all of them": (ALL, "none"),
    "domain": ({}, "full"),
    "domain and all": (ALL, "full"),
}
"""How pictures are changed, and how strongly the world is randomised."""
WORLDS = {
    "known": (KNOWN, "none"),
    "known, other looks": (KNOWN, "full"),
    "unseen": (UNSEEN, "none"),
    "unseen, other looks": (UNSEEN, "full"),
}


def measure(job: tuple[str, int, int, int]) -> dict[str, Any]:
    import torch

    from hotlap.config.augmentation import AugmentationConfig
    from hotlap.config.learners import PPOConfig
    from hotlap.config.training import TrainConfig
    from hotlap.research.experiment import prepare
    from hotlap.research.worlds import known_tasks

    torch.set_num_threads(1)
    case, seed, steps, episodes = job
    augment, strength = CASES[case]
    config = TrainConfig(
        timesteps=steps,
        seed=seed,
        track=KNOWN,
        randomise=strength,  # type: ignore[arg-type]
        ppo=PPOConfig(augment=AugmentationConfig(**augment)),
    ).settle("cpu", False, known_tasks())
    row: dict[str, Any] = {"case": case, "seed": seed, "steps": steps}
    prepared = prepare(config, say=lambda text: None)
    began = time.process_time()  # of this core alone, whatever else the machine does
    try:
        prepared.learner.learn_segment(seed, 0, steps)
    except FloatingPointError as error:
        return row | {"error": str(error)}
    row |= {"steps_per_s": round(steps / (time.process_time() - began), 1)}
    began = time.perf_counter()
    for world, (tracks, looks) in WORLDS.items():
        row[world] = judged(config, prepared, tracks, looks, episodes)
    return row | {"judging_s": round(time.perf_counter() - began, 1)}


def judged(
    config: Any, prepared: Any, tracks: tuple[str, ...], looks: str, episodes: int
) -> dict[str, float]:
    from hotlap.config.runs import EvaluationConfig
    from hotlap.config.strengths import find_randomisation
    from hotlap.evaluation.judge import judge
    from hotlap.learning.driver import Driver
    from hotlap.research.worlds import make_judged_env

    make = make_judged_env(
        config,
        tracks=tracks,
        start="random",
        max_steps=JUDGED_STEPS,
        randomise=find_randomisation(looks),
    )
    driver = Driver(prepared.learner.policy, prepared.env.observation_space)
    result = judge(driver, make, tracks, EvaluationConfig(episodes=episodes))
    metres = [row.progress or 0.0 for row in result.episodes]
    return {
        "lap_rate": result.lap_rate or 0.0,
        "mean_return": round(result.mean_return, 3),
        "metres": round(float(np.mean(metres)), 3),
    }


def run(results: Path, workers: int, seeds: int, steps: int, episodes: int, seconds: float) -> None:
    os.environ["OMP_NUM_THREADS"] = "1"
    rows = read(results) if results.exists() else []
    done = {(row["case"], row["seed"]) for row in rows if row["steps"] == steps}
    jobs = [
        (case, seed, steps, episodes)
        for seed in range(seeds)
        for case in CASES
        if (case, seed) not in done
    ]
    end = time.monotonic() + seconds
    with results.open("a") as file, multiprocessing.get_context("spawn").Pool(workers) as pool:
        coming = pool.imap_unordered(measure, jobs)
        for count in range(1, len(jobs) + 1):
            try:
                row = coming.next(timeout=max(end - time.monotonic(), 0.1))
            except multiprocessing.TimeoutError:
                pool.terminate()
                break
            print(json.dumps(row), file=file, flush=True)
            print(f"{count} of {len(jobs)}: {row['case']}, seed {row['seed']}", flush=True)
    print(f"{len(read(results))} runs in {results}")


def read(results: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in results.read_text().splitlines()]


def show(results: Path, metric: str) -> None:
    """Means over seeds with 95 % intervals, then differences to `none`, paired by seed."""
    rows = [row for row in read(results) if "error" not in row]
    found: dict[str, dict[int, dict[str, Any]]] = defaultdict(dict)
    for row in rows:
        found[row["case"]][row["seed"]] = row
    failed = len(read(results)) - len(rows)
    print(f"{metric}, mean over seeds and 95 % interval; {failed} runs failed\n")
    print("| | seeds | " + " | ".join(WORLDS) + " | steps/s |\n|---" * 1 + "|---" * 6 + "|")
    for case in filter(found.get, CASES):
        own = found[case]
        cells = [interval([row[world][metric] for row in own.values()]) for world in WORLDS]
        speed = np.median([row["steps_per_s"] for row in own.values()])
        print(f"| {case} | {len(own)} | " + " | ".join(cells) + f" | {speed:,.0f} |")
    print("\nLess what `none` has with the same seed:\n")
    print("| | " + " | ".join(WORLDS) + " |\n|---" + "|---" * 4 + "|")
    for case in filter(found.get, [name for name in CASES if name != "none"]):
        both = sorted(found[case].keys() & found["none"].keys())
        cells = [
            interval([found[case][s][w][metric] - found["none"][s][w][metric] for s in both])
            for w in WORLDS
        ]
        print(f"| {case} | " + " | ".join(cells) + " |")


def interval(values: list[float]) -> str:
    if len(values) < 2:
        return f"{np.mean(values):.2f}" if values else "-"
    half = t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / np.sqrt(len(values))
    return f"{np.mean(values):.2f} ± {half:.2f}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["run", "show"])
    parser.add_argument("results", type=Path)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=400_000)
    parser.add_argument("--episodes", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument(
        "--metric", default="lap_rate", choices=["lap_rate", "mean_return", "metres"]
    )
    args = parser.parse_args()
    if args.what == "run":
        given = (args.workers, args.seeds, args.steps, args.episodes, args.seconds)
        run(args.results, *given)
    else:
        show(args.results, args.metric)
