"""The research loop, measured: regret on known problems, studies on a landscape, and speed.

    cell     one repetition of one sampler on one problem, or of one strategy on the landscape; the
             unit of work, done in one process with one thread

Repetitions go in rounds over all cells, so a benchmark that is cut short has as many of each.
"""

import hashlib
import importlib.util
import json
import multiprocessing
import os
import platform
import statistics
import time
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from rich.console import Console

from hotlap.config.naming import nearest
from hotlap.config.research_bench import BenchResearchConfig
from hotlap.research import contest, landscape, problems, replays, samplers
from hotlap.research.benchmark_figures import (
    OURS,
    Row,
    landscape_figures,
    print_landscape,
    print_regret,
    regret_figures,
)
from hotlap.research.proposer import Seen, propose
from hotlap.research.space import make_space

MEASURES = ("regret", "landscape", "speed")
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
SHIPPED = "shipped"
OUR_CODE = ("space", "kernel", "scale", "gp", "acquisition", "proposer")
"""Modules that decide what ours proposes; results from other versions of them are not kept."""
OUR_STUDY = (
    *("race", "book", "study", "convergence", "optimiser", "replays", "landscape"),
    "../config/study",
)
"""Modules that decide what a study of ours ends with."""


@dataclass(frozen=True)
class Cell:
    """One piece of work."""

    measure: str
    where: str
    """The problem, or the file of the landscape (`SHIPPED` for ours)."""
    who: str
    """The sampler or strategy."""
    repetition: int
    budget: int
    seed: int
    code: str = ""
    """Fingerprint of what decides the result besides the above."""

    @property
    def key(self) -> str:
        """Names the cell in a file of results."""
        return json.dumps(vars(self), sort_keys=True)

    @property
    def own_seed(self) -> int:
        """Seed of this repetition, the same for everybody who takes part in it."""
        place = self.where if self.measure == "regret" else self.measure
        return zlib.crc32(f"{self.seed} {self.repetition} {place}".encode())


def bench_research(config: BenchResearchConfig) -> dict[str, Any]:
    """Measure, print tables, and return all figures."""
    began = time.monotonic()
    measures = _chosen(config.measures, MEASURES, "measure")
    cells = make_cells(config, measures)
    rows = measure(cells, config, began)
    answer: dict[str, Any] = {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "optuna": optuna.__version__,
        "cells": len(cells),
        "finished": len(rows),
    }
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 200
    if "regret" in measures:
        answer["regret"] = regret_figures([r for r in rows if r["measure"] == "regret"])
        print_regret(answer["regret"], console)
    if "landscape" in measures:
        answer["landscape"] = landscape_figures([r for r in rows if r["measure"] == "landscape"])
        print_landscape(answer["landscape"], console)
    for row in rows:
        if row["measure"] == "speed":
            answer["fit_propose_seconds_300x12"] = row["seconds"]
            console.print(f"fit and propose, 300 points x 12 parameters: {row['seconds']:.3f} s")
    return answer


def make_cells(config: BenchResearchConfig, measures: Sequence[str]) -> list[Cell]:
    """Everything there is to do, repetition by repetition."""
    cells = []
    if "speed" in measures:
        cells.append(Cell("speed", "300x12", OURS, 0, 300, config.seed, _fingerprint(OUR_CODE)))
    chosen = _chosen(config.problems, problems.names(), "problem")
    if not config.problems and importlib.util.find_spec("cocoex") is None:
        chosen = tuple(problems.CLASSICS)
        print("without coco-experiment (hotlap[bench]) its problems are left out", flush=True)
    who = _chosen(config.samplers, samplers.NAMES, "sampler")
    strategies = _chosen(config.strategies, tuple(replays.STRATEGIES), "strategy")
    table = config.landscape or landscape.DEFAULT
    if "landscape" in measures and not table.exists():
        if "landscape" in config.measures:
            landscape.load_landscape(table)  # which says what is missing
        strategies = ()
    for repetition in range(config.repetitions):
        if "regret" in measures:
            for problem in chosen:
                for sampler in _entrants(problem, who):
                    code = _code_of(sampler)
                    place = (problem, sampler, repetition, config.budget, config.seed)
                    cells.append(Cell("regret", *place, code))
        if "landscape" in measures:
            for strategy in strategies:
                where = str(config.landscape or SHIPPED)
                place = (where, strategy, repetition, config.landscape_budget, config.seed)
                code = _fingerprint((*OUR_CODE, *OUR_STUDY), table)
                cells.append(Cell("landscape", *place, code))
    return cells


def _entrants(problem: str, who: Sequence[str]) -> Iterator[str]:
    """The samplers on a problem, and what else one of them could do there."""
    for sampler in who:
        yield sampler
        if sampler == "gp" and problem.startswith("conditional"):
            yield "gp-flat"


def work(cell: Cell) -> Row:
    """Do one piece of work."""
    if cell.measure == "speed":
        return {"seconds": fit_propose_seconds(cell.seed)}
    if cell.measure == "regret":
        problem = problems.find_problem(cell.where)
        return contest.compete(problem, cell.who, cell.budget, cell.own_seed)
    path = landscape.DEFAULT if cell.where == SHIPPED else Path(cell.where)
    table = landscape.load_landscape(path)
    return {"claims": replays.replay(table, cell.who, cell.budget, cell.own_seed)}


def measure(cells: Sequence[Cell], config: BenchResearchConfig, began: float) -> list[Row]:
    """Do what is not in the file of results yet; the rows of all cells that are finished."""
    known = _open(config.out)
    rows = [known[cell.key] for cell in cells if cell.key in known]
    waiting = iter([cell for cell in cells if cell.key not in known])
    told = began
    # Numerical libraries count their threads when they are imported, so processes that are
    # started under these variables have one each, and this one is left as it is.
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, "1"))
    try:
        spawn = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(config.workers, mp_context=spawn) as executor:
            doing: dict[Future[Row], Cell] = {}
            while True:
                in_time = not config.seconds or time.monotonic() - began < config.seconds
                while in_time and len(doing) < config.workers:
                    if (cell := next(waiting, None)) is None:
                        break
                    doing[executor.submit(work, cell)] = cell
                if not doing:
                    return rows
                done, _ = wait(doing, return_when=FIRST_COMPLETED)
                for future in done:
                    cell = doing.pop(future)
                    rows.append(vars(cell) | future.result())
                    _append(config.out, rows[-1])
                if time.monotonic() - told > 30:
                    told = time.monotonic()
                    print(f"{len(rows)} of {len(cells)} after {told - began:.0f} s", flush=True)
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _open(path: Path | None) -> dict[str, Row]:
    """Rows of a file of results by the keys of their cells, the file made ready for more."""
    if path is None:
        return {}
    path.parent.mkdir(parents=True, exist_ok=True)
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    if text and not text.endswith("\n"):  # it was killed while it wrote
        with path.open("a", encoding="utf-8") as file:
            file.write("\n")
    rows = {}
    for line in text.splitlines():
        try:
            row = json.loads(line)
            cell = Cell(**{name: row[name] for name in Cell.__dataclass_fields__})
        except (json.JSONDecodeError, KeyError, TypeError):
            continue
        rows[cell.key] = row
    return rows


def _append(path: Path | None, row: Row) -> None:
    if path is not None:
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row, allow_nan=False) + "\n")


def _code_of(sampler: str) -> str:
    """What decides a sampler's result besides its cell.

    The posterior that competitors are lent has a part in theirs, but so small a one that hours of
    their work are kept when ours changes; what is published comes from a fresh file.
    """
    if sampler == OURS:
        return _fingerprint((*OUR_CODE, "problems"))
    return f"{optuna.__version__}-{_fingerprint(('problems',))}"


def _fingerprint(modules: Sequence[str], *files: Path) -> str:
    digest = hashlib.sha256()
    for path in (*(Path(__file__).parent / f"{name}.py" for name in modules), *files):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:8]


def fit_propose_seconds(seed: int, points: int = 300, rounds: int = 5) -> float:
    """Median time of a proposal from nothing: 300 configurations of 12 parameters, one thread."""
    floats: dict[str, Any] = {f"x{i}": {"low": 0.0, "high": 1.0} for i in range(8)}
    integers = {f"n{i}": {"low": 1, "high": 12} for i in range(2)}
    choices = {f"c{i}": {"choices": ["a", "b", "c"]} for i in range(2)}
    space = make_space(floats | integers | choices)
    seconds = []
    for turn in range(rounds):
        rng = np.random.default_rng([seed, turn])
        sampled = space.sample(rng, points)
        scores = -((sampled[:, :6] - 0.4) ** 2).sum(axis=1) - 0.3 * (sampled[:, 10] == 1)
        scores += 0.1 * rng.standard_normal(points)
        rows = zip(sampled, scores, strict=True)
        seen = [Seen(space.decode(point), (float(score),)) for point, score in rows]
        began = time.perf_counter()
        propose(space, seen, (), seed)
        seconds.append(time.perf_counter() - began)
    return round(statistics.median(seconds), 4)


def _chosen(names: Sequence[str], known: Sequence[str], kind: str) -> tuple[str, ...]:
    for name in names:
        if name not in known:
            raise KeyError(nearest(name, known, kind))
    return tuple(names or known)
