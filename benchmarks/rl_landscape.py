"""Measure a real landscape once: many configurations of the donkey space, each with many seeds.

    python benchmarks/rl_landscape.py run RESULTS.jsonl --workers 16 --seconds 560
    python benchmarks/rl_landscape.py pack RESULTS.jsonl hotlap/research/data/landscape.json.gz

A run trains once and is judged once, on seeds it never saw, by the default reward whatever reward
it was trained with. Seeds are the outer loop, so that a run cut short leaves whole columns; run
again, it goes on where it stopped.
"""

import argparse
import contextlib
import io
import json
import multiprocessing
import os
import tempfile
import time
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import qmc

CONFIGS, SEEDS = 256, 10
TASK = Path(__file__).parent / "landscape_task.toml"
LEAST, MOST = 8_000, 32_000
"""Steps of a run: few enough that 3,000 runs take minutes, enough for many of them to lap."""


def make_configs() -> tuple[Any, list[dict[str, Any]]]:
    from hotlap.config.training import TrainConfig
    from hotlap.research.space import load_space

    space = load_space("donkey", TrainConfig).restrict("timesteps", LEAST, MOST)
    points = space.settle(qmc.Sobol(len(space), seed=20).random(CONFIGS))
    return space, [space.decode(point) for point in points]


def measure(job: tuple[int, int, dict[str, Any], dict[str, Any]]) -> dict[str, Any]:
    import torch

    from hotlap.config.presets import to_table
    from hotlap.config.training import TrainConfig
    from hotlap.research.experiment import TEST_SEED, Run
    from hotlap.research.progress import Progress
    from hotlap.research.space import apply
    from hotlap.research.worlds import known_tasks
    from hotlap.store.run_folder import RunFolder

    torch.set_num_threads(1)
    number, seed, params, fixed = job
    began = time.perf_counter()
    common = {
        "task": "donkey-telemetry",
        "preset": str(TASK),
        "seed": seed,
        "evaluation_reward": "default",
        "segment_steps": 1_000_000,
    }
    config = apply(TrainConfig, fixed | params | common).settle("cpu", False, known_tasks())
    row: dict[str, Any] = {"config": number, "seed": seed, "score": None}
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        path = Path(folder) / "run"
        try:
            with (
                RunFolder.create(path, to_table(config)) as kept,
                contextlib.redirect_stdout(io.StringIO()),
                Progress("", config.timesteps, live=False) as progress,
            ):
                run = Run(config, kept, progress)
                run.learner.learn_segment(config.seed, 0, config.timesteps, run.hearing)
                final = config.evaluation
                result = run.judge(replace(final, seed=final.seed + TEST_SEED))
            row |= {"score": result.mean_return, "lap_rate": result.lap_rate}
        except (FloatingPointError, RuntimeError, ValueError) as error:
            row["error"] = f"{type(error).__name__}: {error}"[:300]
    return row | {"seconds": round(time.perf_counter() - began, 3)}


def run(results: Path, workers: int, seconds: float) -> None:
    os.environ["OMP_NUM_THREADS"] = "1"
    space, configs = make_configs()
    rows = (
        [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
    )
    done = {(row["config"], row["seed"]) for row in rows}
    jobs = [
        (number, seed, params, space.fixed)
        for seed in range(SEEDS)
        for number, params in enumerate(configs)
        if (number, seed) not in done
    ]
    end = time.monotonic() + seconds
    with results.open("a") as file, multiprocessing.get_context("spawn").Pool(workers) as pool:
        for count, row in enumerate(pool.imap_unordered(measure, jobs), start=1):
            print(json.dumps(row), file=file, flush=True)
            if count % 100 == 0:
                print(f"{count} of {len(jobs)}, {end - time.monotonic():.0f} s left", flush=True)
            if time.monotonic() > end:
                pool.terminate()
                break
    print(f"{len(results.read_text().splitlines())} runs in {results}")


def pack(results: Path, target: Path) -> None:
    from hotlap.config.presets import SHIPPED
    from hotlap.research.landscape import write_landscape

    _, configs = make_configs()
    scores = np.full((CONFIGS, SEEDS), np.nan)
    seconds, laps = scores.copy(), scores.copy()
    for line in results.read_text().splitlines():
        row = json.loads(line)
        at = row["config"], row["seed"]
        seconds[at] = row["seconds"]
        if row["score"] is not None:
            scores[at], laps[at] = round(row["score"], 2), row["lap_rate"]
    whole = ~np.isnan(seconds).any(axis=0)

    def plain(table: np.ndarray) -> list[list[float | None]]:
        return [[None if np.isnan(x) else float(x) for x in row[whole]] for row in table]

    space = tomllib.loads((SHIPPED / "research" / "donkey.toml").read_text())
    space["timesteps"] |= {"low": LEAST, "high": MOST}
    table = {
        "task": "donkey-telemetry on generated_track, episodes of 500 steps",
        "command": "python benchmarks/rl_landscape.py run RESULTS.jsonl --workers 16",
        "space": space,
        "configs": configs,
        "scores": plain(scores),
        "lap_rates": plain(laps),
        "seconds": plain(seconds),
    }
    write_landscape(target, table)
    mean = np.nanmean(scores[:, whole], axis=1)
    within = np.nanstd(scores[:, whole], axis=1, ddof=1)
    share = np.nanmean(within**2) / (np.nanmean(within**2) + mean.var())
    print(
        f"{CONFIGS} configurations x {whole.sum()} seeds in {target}: means {mean.min():.0f} to "
        f"{mean.max():.0f}, average {mean.mean():.0f}, seed sd {np.median(within):.0f} (median), "
        f"share of variance by seed {share:.2f}, failed {int(np.isnan(scores[:, whole]).sum())}"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["run", "pack"])
    parser.add_argument("results", type=Path)
    parser.add_argument("target", type=Path, nargs="?")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=1e9)
    args = parser.parse_args()
    if args.what == "run":
        run(args.results, args.workers, args.seconds)
    else:
        pack(args.results, args.target)
