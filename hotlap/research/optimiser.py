"""The controller for any Python function: propose, race, stop and remember, in this process.

    from hotlap.research import StudyConfig, make_space, optimise

    space = make_space({"rate": {"low": 1e-4, "high": 1e-1, "log": True}})

    def objective(params, seed):
        return train_and_score(params["rate"], seed)     # larger is better

    result = optimise(objective, space, StudyConfig(trials=60))
    print(result.champion, result.claimed, result.tested)

A function that raises, or returns what is not a finite number, has failed that run: it is written
down with its traceback, and the study goes on. With a folder the study is kept in its ledger, and
the same call takes it up where it was left.
"""

import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hotlap.config.presets import to_table
from hotlap.config.study import StudyConfig
from hotlap.research.book import Book, Finish, MemoryBook, Plan
from hotlap.research.kernel import Array
from hotlap.research.proposer import Seen
from hotlap.research.space import Params, SearchSpace
from hotlap.research.study import Study
from hotlap.store.ledger import Ledger

Objective = Callable[[Params, int], float]
"""Takes params and a seed, returns a score."""


@dataclass(frozen=True)
class StudyResult:
    """What a study found."""

    champion: Params | None
    """The configuration that holds the title; None where none was confirmed."""
    claimed: float | None
    """Its mean score, by runs on fresh seeds."""
    interval: tuple[float, float] | None
    """Where that mean lies (95 %)."""
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
    space: SearchSpace,
    config: StudyConfig | None = None,
    folder: Path | None = None,
    earlier: Sequence[Seen] = (),
    pool: Array | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> StudyResult:
    """Find the params with the highest mean score.

    Args:
        objective: Gives a score for params and a seed; larger is better.
        space: What may be chosen.
        config: How the study is led.
        folder: Where to keep its ledger; none keeps it in memory only.
        earlier: Scores known from elsewhere, which inform the proposals.
        pool: Points (m, d) to choose among, where not all of the space is to be had.
        say: Where a person is told.
    """
    config = config or StudyConfig()
    if not (config.trials or config.stop.converge or config.stop.target is not None):
        raise ValueError("a study needs an end: trials, stop.converge or stop.target")
    with ExitStack() as stack:
        book: Book = MemoryBook()
        if folder is not None:
            book = stack.enter_context(open_book(folder, describe(space, config)))
        study = Study(space, config, book, pool, earlier, say)
        study.go_on()
        _lead(study, objective)
        return summarise(study)


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
        if found.get(name) != value:
            ledger.close()
            raise ValueError(
                f"{folder} holds a study with another {name}; go on with the settings it was "
                f"begun with, or choose another folder. {_difference(found.get(name), value)}"
            )
    return ledger


def summarise(study: Study) -> StudyResult:
    """What a study found so far."""
    claim = study.claim()
    certificate = study.certify()
    tested = None
    for row in [] if certificate is None else certificate["finalists"]:
        if row["champion"]:
            tested = row["tested"]
    leader = study.standings().leader
    return StudyResult(
        champion=study.champion_params(),
        claimed=None if claim is None else claim.mean,
        interval=None if claim is None else claim.interval(),
        tested=tested,
        leader=None if leader is None else leader.params,
        reason=study.stopped or "not at an end",
        records=study.book.records(),
    )


def _lead(study: Study, objective: Objective) -> None:
    for plan in study.pending:
        study.finish(plan, _try(objective, plan))
    while study.stopped is None:
        reason = study.should_stop()
        plan = None if reason else study.next()
        if plan is None:
            study.stop(reason or "nothing is left to try")
        else:
            study.finish(plan, _try(objective, plan))
    while (plan := study.next_test()) is not None:
        study.finish(plan, _try(objective, plan))


def _try(objective: Objective, plan: Plan) -> Finish:
    began = time.perf_counter()
    try:
        score = float(objective(dict(plan.params), plan.seed))
    except Exception as error:
        reason = f"{type(error).__name__}: {error}\n{traceback.format_exc(limit=-8)}"
        return Finish("failed", None, None, time.perf_counter() - began, None, reason)
    return Finish("ok", score, None, time.perf_counter() - began)


def _difference(found: Any, wanted: Any) -> str:
    """The first thing that differs between two tables."""
    if isinstance(found, Mapping) and isinstance(wanted, Mapping):
        for name in [*found, *wanted]:
            if found.get(name) != wanted.get(name):
                return f"{name}: " + _difference(found.get(name), wanted.get(name))
    return f"it has {found!r:.100}, asked for {wanted!r:.100}"
