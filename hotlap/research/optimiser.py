"""The controller for any Python function: propose, race, stop and remember, in this process.

    from hotlap.research import StudyConfig, make_space, optimise

    space = make_space({"rate": {"low": 1e-4, "high": 1e-1, "log": True}})

    def objective(params, seed):
        return train_and_score(params["rate"], seed)     # larger is better

    result = optimise(objective, space, StudyConfig(trials=60))
    print(result.champion, result.claimed, result.tested)

A function that raises or exits, or returns what is not a finite number, has failed that run: it is
written down with its traceback, and the study goes on. Where nothing has scored, and ten trials
failed with the same kind of error in the same place, that error ends the study. With a folder it is
kept in its ledger, and the same call takes it up where it was left.

`optimise_table` studies what was recorded: configurations, each with a score for every seed.
"""

import hashlib
import json
import math
import re
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from hotlap.config.presets import to_table
from hotlap.config.study import SeedLists, StudyConfig
from hotlap.research.book import Book, Finish, MemoryBook, Plan
from hotlap.research.earlier import Earlier, EarlierRun
from hotlap.research.kernel import Array
from hotlap.research.landscape import Landscape, Table, as_score, make_landscape
from hotlap.research.pool import Pool, make_pool
from hotlap.research.proposer import Seen
from hotlap.research.space import Params, SearchSpace, as_space, identity
from hotlap.research.study import NOTHING_LEFT, Study
from hotlap.store.ledger import Ledger

Objective = Callable[[Params, int], float]
"""Takes params and a seed, returns a score."""
Known = Earlier | Sequence[Seen | EarlierRun]
"""Results from elsewhere."""
Say = Callable[[str], None]
Attempt = Callable[[Plan], tuple[Finish, BaseException | None]]
"""Makes a run: how it ended, and the error that ended it."""

HOPELESS = 10
"""Trials after which a study gives up, if all have failed with the same error."""
DIGESTS = {"earlier": "other earlier results", "pool": "another pool", "table": "another table"}
"""Parts of a ledger's head that older ledgers do not have."""


@dataclass(frozen=True)
class StudyResult:
    """What a study found."""

    champion: Params | None
    """The configuration that holds the title; None where none was confirmed."""
    claimed: float | None
    """Its mean score, by runs on fresh seeds."""
    interval: tuple[float, float] | None
    """Where that mean lies (95 %); None by the naive rule, which knows nothing of luck."""
    tested: float | None
    """Its mean score on seeds that nothing had touched; None without a last test."""
    leader: Params | None
    """The configuration with the best expected score, confirmed or not."""
    reason: str
    """Why the study stopped."""
    records: list[dict[str, Any]]
    """Everything that was written down."""

    @property
    def optimism(self) -> float | None:
        """How much more was claimed than the last test gave."""
        if self.claimed is None or self.tested is None:
            return None
        return self.claimed - self.tested


def optimise(
    objective: Objective,
    space: SearchSpace | Mapping[str, Any],
    config: StudyConfig | None = None,
    folder: str | Path | None = None,
    earlier: Known = (),
    pool: Array | Sequence[Mapping[str, Any]] | None = None,
    say: Say = lambda text: None,
) -> StudyResult:
    """Find the params with the highest mean score; one run at a time, in this process.

    Args:
        objective: Gives a score for params and a seed; larger is better.
        space: What may be chosen, or the table of ranges that `make_space` takes.
        config: How the study is led.
        folder: Where to keep its ledger; none keeps it in memory only.
        earlier: Scores known from elsewhere, which inform the proposals: each a `Seen`, or what
            `read_earlier` gives.
        pool: Params to choose among, where not all of the space is to be had; the objective gets
            them just as they are given. Points (m, d) will do as well.
        say: Where a person is told.

    Raises:
        RuntimeError: Nothing has scored. The ledger keeps what was tried.
    """
    space = as_space(space)
    members = None if pool is None else make_pool(space, pool)

    def attempt(plan: Plan) -> tuple[Finish, BaseException | None]:
        params = dict(plan.params) if members is None else members.as_given(plan.params)
        return _try(objective, params, plan.seed)

    config = config or StudyConfig()
    return _study(attempt, space, config, folder, _seen(space, earlier, say), members, say)


def optimise_table(
    space: SearchSpace | Mapping[str, Any],
    table: Table,
    config: StudyConfig | None = None,
    folder: str | Path | None = None,
    earlier: Known = (),
    say: Say = lambda text: None,
) -> StudyResult:
    """Study what was recorded: find the configuration of a table with the highest mean score.

    Args:
        space: What the params may be, or the table of ranges that `make_space` takes.
        table: Pairs of params and scores, one for every seed; None or NaN where a run failed.
        config: How the study is led. Its seeds are columns of the table; left as they are by
            default, the columns are parted at random: `test_runs` of them, but no more than two
            fifths, for the last test alone, and the others to choose by. A configuration runs once
            with each of those, so what it races by did not nominate it.
        folder: Where to keep the study's ledger; none keeps it in memory only.
        earlier: Scores known from elsewhere, as for `optimise`.
        say: Where a person is told.
    """
    landscape = make_landscape(as_space(space), table)
    return optimise_landscape(landscape, config, folder, earlier, say)


def optimise_landscape(
    landscape: Landscape,
    config: StudyConfig | None = None,
    folder: str | Path | None = None,
    earlier: Known = (),
    say: Say = lambda text: None,
) -> StudyResult:
    """The same for a table that is a landscape already."""
    config = _with_columns(landscape, config or StudyConfig())
    members = make_pool(landscape.space, landscape.configs)

    def attempt(plan: Plan) -> tuple[Finish, None]:
        at = members.number(plan.params), plan.seed
        score, seconds = float(landscape.scores[at]), float(landscape.seconds[at])
        elapsed = seconds if math.isfinite(seconds) else 0.0
        if not math.isfinite(score):
            return Finish("failed", elapsed=elapsed, reason="it failed when it was recorded"), None
        return Finish("ok", score, elapsed=elapsed), None

    space, scores = landscape.space, landscape.scores
    known = _seen(space, earlier, say)
    return _study(attempt, space, config, folder, known, members, say, scores)


def describe(space: SearchSpace, config: StudyConfig) -> dict[str, Any]:
    """The head of a study's ledger: what must be the same for it to go on."""
    table = to_table(config)
    # A budget may grow, and a machine may have more room tomorrow.
    for name in ("trials", "workers", "ordered", "test_runs", "stop"):
        del table[name]
    return {"space": space.to_table(), "study": table}


def open_book(folder: Path, head: Mapping[str, Any]) -> Ledger:
    """The ledger of a study, begun or gone on with; refuses one that studies something else."""
    path = folder / "ledger.jsonl"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        return Ledger.create(path, dict(head))
    try:
        ledger = Ledger.open(path)
    except ValueError as error:  # raised from here, it is about the folder that was named
        raise ValueError(str(error)) from error
    found = ledger.records()[0]
    for name, value in head.items():
        if name in DIGESTS and name not in found:
            continue
        if found.get(name) != value:
            ledger.close()
            raise ValueError(
                f"{folder} holds a study with {DIGESTS.get(name, f'another {name}')}; go on with "
                "what it was begun with, or choose another folder. "
                + _difference(found.get(name), value)
            )
    return ledger


def summarise(study: Study, pool: Pool | None = None) -> StudyResult:
    """What a study found so far."""
    claim = study.claim()
    certificate = study.certify()
    tested = None
    for row in [] if certificate is None else certificate["finalists"]:
        if row["champion"]:
            tested = row["tested"]
    champion, leader = study.champion_params(), study.standings().leader
    naive = study.config.champion == "naive"
    return StudyResult(
        champion=_as_given(champion, pool),
        claimed=None if claim is None else claim.mean,
        interval=None if claim is None or naive else claim.interval(),
        tested=tested,
        leader=_as_given(None if leader is None else leader.params, pool),
        reason=study.stopped or "not at an end",
        records=study.book.records(),
    )


def _study(
    attempt: Attempt,
    space: SearchSpace,
    config: StudyConfig,
    folder: str | Path | None,
    earlier: Sequence[Seen],
    pool: Pool | None,
    say: Say,
    scores: Array | None = None,
) -> StudyResult:
    """Lead a study to its end; `scores` are those that were recorded."""
    _refuse_what_cannot_be_led(config, pool)
    most = math.inf
    if pool is not None:
        most = len(pool.numbers) * len({*config.seeds.tuning, *config.seeds.race})
        # Or the race at the end would never begin.
        config = replace(config, trials=min(config.trials, int(most)))
    known = [[identity(e.params), e.scores, e.failures, e.seconds] for e in earlier]
    head = describe(space, config) | {
        "earlier": _digest(known),
        "pool": _digest([] if pool is None else list(pool.numbers)),
        "table": _digest([] if scores is None else scores.tolist()),
    }
    with ExitStack() as stack:
        book: Book = MemoryBook()
        if folder is not None:
            book = stack.enter_context(open_book(Path(folder), head))
        points = None if pool is None else pool.points
        study = Study(space, config, book, points, earlier, say)
        study.go_on()
        _lead(study, attempt, most)
        return summarise(study, pool)


def _lead(study: Study, attempt: Attempt, most: float) -> None:
    """Make all runs; `most` is how many there can be before the last test."""
    error = None
    for plan in study.pending:
        error = _run(study, plan, attempt)
    while study.stopped is None:
        reason = NOTHING_LEFT if study.made >= most else study.should_stop()
        plan = None if reason else study.next()
        if plan is None:
            study.stop(reason or NOTHING_LEFT)
        else:
            error = _run(study, plan, attempt)
    if not study.has_scored:
        last = str(study.book.records("trial")[-1]["reason"]).partition("\n")[0]
        raise RuntimeError(
            f"nothing has scored in {study.made} trials; the last: {last}"
        ) from error
    while (plan := study.next_test()) is not None:
        _run(study, plan, attempt)


def _run(study: Study, plan: Plan, attempt: Attempt) -> BaseException | None:
    """Make a run and write it down; raises the error that every run had so far."""
    how, error = attempt(plan)
    study.finish(plan, how)
    if error is None or len(study.finished) < HOPELESS or study.has_scored:
        return error
    if len({_kind(record["reason"]) for record in study.book.records("trial")}) > 1:
        return error
    raise RuntimeError(
        f"all of {len(study.finished)} trials failed in the same way, the last with "
        f"{_words(error)}; mend that and call again: with a folder the study goes on"
    ) from error


def _kind(reason: str) -> tuple[str, str]:
    """The kind of an error and where it was raised; its words may name what differs by run."""
    places = re.findall(r"^  File .*$", reason, re.MULTILINE)
    return reason.partition(":")[0], places[-1] if places else ""


def _try(
    objective: Objective, params: Params, seed: int
) -> tuple[Finish, Exception | SystemExit | None]:
    began = time.perf_counter()
    try:
        score = as_score(objective(params, seed))
    except (Exception, SystemExit) as error:
        reason = f"{_words(error)}\n{traceback.format_exc(limit=-8)}"
        return Finish("failed", elapsed=time.perf_counter() - began, reason=reason), error
    return Finish("ok", score, elapsed=time.perf_counter() - began), None


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _as_given(params: Params | None, pool: Pool | None) -> Params | None:
    return params if params is None or pool is None else pool.as_given(params)


def _seen(space: SearchSpace, earlier: Known, say: Say) -> list[Seen]:
    """Results from elsewhere, as the surrogate is told of them."""
    if isinstance(earlier, Earlier):
        for note in earlier.notes:
            say(note)
        earlier = earlier.records
    seen = []
    for number, each in enumerate(earlier):
        if isinstance(each, EarlierRun):
            score = each.mean_reward
            scores = () if score is None else (score,)
            each = Seen(each.params, scores, int(score is None), each.elapsed_sec)
        if not isinstance(each, Seen):
            raise ValueError(
                f"earlier: result {number} must be Seen(params, scores), or come from "
                f"read_earlier, got {each!r:.80}"
            )
        if problem := space.problem(each.params):
            raise ValueError(f"earlier: result {number}: {problem}")
        params = space.decode(space.encode(each.params))
        seen.append(replace(each, params=params, scores=tuple(map(as_score, each.scores))))
    return seen


def _with_columns(landscape: Landscape, config: StudyConfig) -> StudyConfig:
    """The settings, with columns of the table as their seeds."""
    columns = landscape.scores.shape[1]
    if config.seeds != SeedLists():
        for seed in (*config.seeds.tuning, *config.seeds.race, *config.seeds.test):
            if not 0 <= seed < columns:
                raise ValueError(f"seeds are columns of the table, 0 to {columns - 1}, got {seed}")
        return config
    needed = config.race.runs + 1 if config.champion == "race" else 1
    if columns < needed:
        remedy = f", or set race=RaceConfig(runs={columns - 1})" if columns > 1 else ""
        raise ValueError(
            f"a title needs {config.race.runs} runs beside the one that nominated, and the table "
            f"has {columns} seeds; record more{remedy}"
        )
    tests = min(config.test_runs, columns - landscape.tuning_seeds, columns - needed)
    rng = np.random.default_rng([config.seed, 0x7AB1E])
    tuning, test = landscape.part(rng, tests)
    return replace(config, seeds=SeedLists(tuning, tuning, test), test_runs=tests)


def _refuse_what_cannot_be_led(config: StudyConfig, pool: Pool | None) -> None:
    if not (config.trials or config.stop.converge or config.stop.target is not None):
        raise ValueError("a study needs an end: trials, stop.converge or stop.target")
    if config.workers > 1:
        raise ValueError(
            f"a function runs in this process, one run at a time, so workers must be 1, got "
            f"{config.workers}; `hotlap research --trainer` runs programs side by side"
        )
    if pool is not None and config.sampler != "gp-ucb":
        raise ValueError(
            f"only the sampler gp-ucb chooses from a pool, and {config.sampler} would leave it; "
            "set sampler='gp-ucb', or give the whole space"
        )


def _digest(rows: Sequence[Any]) -> dict[str, Any] | None:
    """What tells rows from others, in the head of a ledger."""
    if not rows:
        return None
    text = json.dumps(rows, default=float)  # a number of NumPy's may be among them
    return {"count": len(rows), "sha256": hashlib.sha256(text.encode()).hexdigest()}


def _difference(found: Any, wanted: Any) -> str:
    """The first thing that differs between two tables."""
    if isinstance(found, Mapping) and isinstance(wanted, Mapping):
        for name in [*found, *wanted]:
            if found.get(name) != wanted.get(name):
                return f"{name}: " + _difference(found.get(name), wanted.get(name))
    return f"it has {found!r:.100}, asked for {wanted!r:.100}"
