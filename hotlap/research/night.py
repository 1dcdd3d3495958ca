"""The night: runs a study's trials on an engine until there is a reason to stop.

Nothing that a trial does ends it: a crash, a hang, too much memory, a vanished simulator are
results like any other. A full disk is waited for. Killed itself at any moment, it is started again
by the same command: trials that were under way are taken up, finished ones are never run twice.
"""

import contextlib
import errno
import json
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from hotlap.records import brief, claim_in_words
from hotlap.research.book import LARGEST, Finish, Plan
from hotlap.research.engines.job import RESULT, Engine, Job, Outcome, read_result
from hotlap.research.publishing import Publisher
from hotlap.research.study import BEST, NOTHING_LEFT, Study
from hotlap.research.trial import TRIAL
from hotlap.store.atomic import make_folder, write_file
from hotlap.store.ledger import Ledger

Result = TypeVar("Result")

ATTEMPTS = 10
"""Times that a trial is begun before it is given up."""
LOSSES = 20
"""Times that a trial is lost through no fault of its own before it is given up."""
LONGEST_PAUSE = 60.0
"""Seconds before one that was lost is begun again; a second at first, then twice as long."""
HOPELESS = 10
"""Failures with which a night ends in which nothing has ever scored."""
TEST_SHARE = 0.3
"""Most of the hours that are kept for the last test."""
CLOSING_TIME = 0.85
"""Share of the hours after which only the best run again."""
FREE = 200_000_000
"""Bytes that must be free before a run begins."""
PATIENCE = 600.0
"""Seconds that a full disk is waited for."""
SPENT = ("checkpoints", "replay", "best", "tensorboard")
"""What a finished run needs no longer."""
NUMBERS = ("std_reward", "seconds", "lap_rate", "timesteps")
"""What a result may tell beside its score, as numbers."""
KEPT = ("lap_rate", "rewards", "timesteps")
"""What of it is kept in the record under the same name."""
FULL = (errno.ENOSPC, errno.EDQUOT)
NO_ROOM = "No space left on device"
"""How the system says it, where only its words are left."""


def patiently(action: Callable[[], Result]) -> Result:
    """Do what writes, and where the disk is full wait until it is not."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return action()
        except OSError as error:
            if not is_full(error) or time.monotonic() > end:
                raise
            _cry(f"the disk is full ({error.filename}); waiting for room")
            time.sleep(2.0)


def is_full(error: Exception) -> bool:
    """Whether something failed because the disk is full; a folder's copy says it in words alone."""
    return isinstance(error, OSError) and (error.errno in FULL or NO_ROOM in str(error))


class PatientBook:
    """A ledger whose writer waits for room instead of failing."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    def records(self, kind: str | None = None) -> list[dict[str, Any]]:
        """All records, or those of one kind, in order."""
        return self.ledger.records(kind)

    def append(self, kind: str, **fields: Any) -> dict[str, Any]:
        """Write one down, now or when there is room."""
        return patiently(lambda: self.ledger.append(kind, **fields))


class Night:
    """Leads a study through its trials.

    Args:
        study: The study.
        folder: Its folder.
        engine: Who runs the trials.
        command: The command of a trial, without its folder.
        limits: `time_limit`, `memory_limit` and `heartbeat_limit` of a `Job`, and its `gpu`.
        settings: What is the same in all trials, for their trial.json.
        say: Where a person is told.
        publisher: Who pushes results elsewhere.
        hours: Time to spend; 0 is no limit.
        cooldown: Seconds between two runs.
    """

    def __init__(
        self,
        study: Study,
        folder: Path,
        engine: Engine,
        command: Sequence[str],
        limits: dict[str, Any],
        settings: dict[str, Any],
        say: Callable[[str], None],
        publisher: Publisher | None = None,
        hours: float = 0.0,
        cooldown: float = 0.0,
    ) -> None:
        # A node of a cluster has a working folder of its own.
        self.study, self.folder, self.engine = study, folder.absolute(), engine
        self.command, self.limits, self.settings = tuple(command), limits, settings
        self.say, self.publisher, self.cooldown = say, publisher, cooldown
        self.seconds = hours * 3600
        self._began = time.monotonic()
        self._last_end = -1e9
        self._under_way: dict[int, Plan] = {}
        """Decided on, and not yet taken in."""
        self._waiting: list[Plan] = []
        """Those of them that the engine was not given yet."""
        self._ended: dict[int, tuple[Plan, Outcome]] = {}
        """Those of them that the engine is done with."""
        self._begun: dict[int, int] = {}
        """How often each was begun, as far as is known here."""
        self._losses: dict[int, list[str]] = {}
        """Why each was lost, time after time."""
        self._not_before: dict[int, float] = {}
        """When one that was lost may be begun again."""
        self._failures: list[str] = []
        """Why trials of this night failed, while nothing has scored."""
        self.on_finish: Callable[[Plan, dict[str, Any]], None] = lambda plan, record: None

    def run(self) -> str:
        """Run trials until there is a reason to stop; says which."""
        self._take_up()
        while self.study.stopped is None:
            reason = self._reason()
            if reason is None:
                self._decide_more(self.study.next)
            if self._under_way:
                self._attend()
            else:
                self.study.stop(reason or NOTHING_LEFT)
        return str(self.study.stopped)

    def test(self) -> None:
        """Run the last test, on untouched seeds."""
        self._take_up()
        while True:
            self._decide_more(self.study.next_test)
            if not self._under_way:
                break
            self._attend()

    # --- trials --------------------------------------------------------------------------------

    def _take_up(self) -> None:
        """Begin again what was under way when the last controller ended."""
        for plan in self.study.pending:
            if plan.trial not in self._under_way:
                self.say(f"trial {plan.trial}: taken up again")
                self._queue(plan)

    def _decide_more(self, decide: Callable[[], Plan | None]) -> None:
        """Decide at once where there is room: what is decided must not hang on the time."""
        while len(self._under_way) < self.engine.capacity:
            plan = decide()
            if plan is None:
                return
            self._tell_plan(plan)
            self._queue(plan)

    def _queue(self, plan: Plan) -> None:
        self._under_way[plan.trial] = plan
        self._waiting.append(plan)
        self._begin_waiting()

    def _begin_waiting(self) -> None:
        now = time.monotonic()
        for plan in [p for p in self._waiting if self._not_before.get(p.trial, now) <= now]:
            if self._cooling() > 0:
                break
            self._waiting.remove(plan)
            self._submit(plan)

    def _cooling(self) -> float:
        """Seconds for which the next run must wait, for a simulator to cool down."""
        return self._last_end + self.cooldown - time.monotonic()

    def _pause(self) -> float:
        """Seconds to wait until something that waits may begin, a second at most."""
        times = [self._not_before.get(plan.trial, 0.0) for plan in self._waiting]
        return max(0.001, min(1.0, max(self._cooling(), min(times) - time.monotonic())))

    def _submit(self, plan: Plan) -> None:
        folder = self.trial_folder(plan.trial)
        self._wait_for_room(folder)
        attempt = patiently(lambda: self._prepare(plan, folder))
        lost = self._losses.get(plan.trial, [])
        if (attempt > ATTEMPTS or len(lost) >= LOSSES) and read_result(folder) is None:
            text = f"given up: it was begun {attempt - 1} times and never ended"
            if lost:
                text = f"given up: {len(lost)} times it was lost, the last time because {lost[-1]}"
            self._ended[plan.trial] = (plan, Outcome(plan.trial, "killed", reason=text))
            return
        job = Job(plan.trial, folder, (*self.command, str(folder)), **self.limits)
        self.engine.submit(job)

    def _prepare(self, plan: Plan, folder: Path) -> int:
        """Write down what to try; which attempt it is."""
        path = folder / TRIAL
        asked = {
            "trial": plan.trial,
            "params": plan.params,
            "seed": plan.seed,
            "role": plan.role,
            "settings": self.settings,
        }
        found = _table(path)
        attempts = found.pop("attempt", 0)
        begun = self._begun.get(plan.trial, attempts if type(attempts) is int else 0)
        if plan.trial not in self._begun and found != json.loads(json.dumps(asked)):
            # Left by another study in this place: its result must not pass for this one's.
            shutil.rmtree(folder, ignore_errors=True)
            begun = 0
        self._begun[plan.trial] = attempt = begun + 1
        make_folder(folder)
        if path.is_dir():  # a trial may do anything to the files in its folder
            shutil.rmtree(path)
        write_file(path, json.dumps(asked | {"attempt": attempt}, indent=2).encode() + b"\n")
        return attempt

    def _attend(self) -> None:
        """Begin what waits, and take in what ended."""
        self._begin_waiting()
        ordered = self.study.config.ordered
        ready = self._ended and (not ordered or min(self._under_way) in self._ended)
        patience = self._pause() if self._waiting else 1.0
        if not ready and len(self._waiting) + len(self._ended) == len(self._under_way):
            time.sleep(patience)  # an engine that runs nothing does not wait
        for outcome in self.engine.poll(0.0 if ready else patience):
            plan = self._under_way[outcome.trial]
            if outcome.status == "lost" or _was_full(outcome):
                self._run_again(plan, outcome)
                continue
            self._ended[outcome.trial] = (plan, outcome)
            self._last_end = time.monotonic()
        for trial in sorted(self._ended):
            if ordered and min(self._under_way) < trial:
                break  # an older one is still running, and decisions go by number
            plan, outcome = self._ended.pop(trial)
            del self._under_way[trial]
            self._finish(plan, outcome)
            if ordered:
                break  # and each is decided before the next result is looked at
        self._publish()

    def _run_again(self, plan: Plan, outcome: Outcome) -> None:
        """Have a trial run again after a while: a machine that could not run it may need one."""
        self.say(f"trial {plan.trial}: {brief(outcome.reason)}; it runs again")
        if outcome.status == "lost":
            lost = self._losses.setdefault(plan.trial, [])
            lost.append(brief(outcome.reason))
            pause = min(2.0 ** (len(lost) - 1), LONGEST_PAUSE)
            self._begun[plan.trial] -= 1  # as if it had not been begun
        else:
            pause = 1.0
            _clear(self.trial_folder(plan.trial))  # it may be what fills the disk
        self._not_before[plan.trial] = time.monotonic() + pause
        self._waiting.append(plan)

    def _finish(self, plan: Plan, outcome: Outcome) -> None:
        folder = self.trial_folder(plan.trial)
        how = read_finish(folder, outcome)
        before = self.study.champion
        record = self.study.finish(plan, how)
        self._failures = [*self._failures, how.reason or how.status] if how.score is None else []
        for name in SPENT:
            shutil.rmtree(folder / "run" / name, ignore_errors=True)
        self._tell_finish(plan, record)
        if before != self.study.champion:
            self.say(f"champion: {self.study.champion} {self.study.champion_params()}")
        patiently(lambda: self.on_finish(plan, record))
        if self.publisher is not None:
            self.publisher.trial_finished(len(self.study.finished))

    def trial_folder(self, trial: int) -> Path:
        """Where a trial lies."""
        return self.folder / "trials" / f"{trial:04}"

    # --- reasons -------------------------------------------------------------------------------

    def _reason(self) -> str | None:
        """Why to stop; None while there is none."""
        if self._time_left() <= self._test_time():
            return f"time: {self.seconds / 3600:g} hours are over"
        if len(self._failures) >= HOPELESS and not self.study.has_scored:
            return f"failing: {len(self._failures)} trials in a row, {brief(self._failures[-1])}"
        if self.seconds and self._time_left() < self._closing_time() + self._test_time():
            self.study.close_race("most of the time is spent")
            if self._time_left() < self._time_of(self.study.config.race.runs) + self._test_time():
                self.study.seal("the time is nearly over")
        return self.study.should_stop()

    def _closing_time(self) -> float:
        """Seconds that the race at the end needs: enough for one configuration to be confirmed."""
        needed = self._time_of(self.study.config.race.runs + 1 + self.engine.capacity)
        return max((1 - CLOSING_TIME) * self.seconds, min(needed, 0.5 * self.seconds))

    def _test_time(self) -> float:
        """Seconds to keep for the last test."""
        return min(self._time_of(BEST * self.study.config.test_runs), TEST_SHARE * self.seconds)

    def _time_of(self, runs: int) -> float:
        """Seconds that so many runs take, by those that were made."""
        times = [run.seconds for run in self.study.runs if run.seconds is not None]
        return -(-runs // self.engine.capacity) * sum(times) / max(len(times), 1)

    def _time_left(self) -> float:
        return self.seconds - (time.monotonic() - self._began) if self.seconds else 1e9

    def _wait_for_room(self, trial: Path) -> None:
        """Until a trial can begin; what an earlier attempt at it left is given up for that."""
        end = time.monotonic() + PATIENCE
        while shutil.disk_usage(self.folder).free < FREE:
            if read_result(trial) is None:
                _clear(trial)
            if time.monotonic() > end:
                raise OSError(
                    errno.ENOSPC, f"less than {FREE // 10**6} MB free for a run", str(self.folder)
                )
            _cry(f"less than {FREE // 10**6} MB are free in {self.folder}; waiting")
            time.sleep(2.0)

    def _publish(self) -> None:
        if self.publisher is None:
            return
        for record in self.publisher.collect():
            self.study.book.append("push", **record)
            if not record["ok"]:
                self.say(f"push failed: {record['reason']}")

    # --- telling -------------------------------------------------------------------------------

    def _tell_plan(self, plan: Plan) -> None:
        record = self.study.book.records("proposal")[-1]
        self.say(f"trial {plan.trial}: {plan.role}, seed {plan.seed}: {_short(plan.params)}")
        self.say(f"  because: {record['why']}")
        for place, candidate in enumerate(record["candidates"], start=1):
            self.say(
                f"  {place}. ucb {candidate['ucb']:.4g} = {candidate['mean']:.4g} + "
                f"{candidate['std']:.3g} sd: {_short(candidate['params'])}"
            )

    def _tell_finish(self, plan: Plan, record: dict[str, Any]) -> None:
        score, reason = record["mean_reward"], record["reason"]
        text = f"trial {plan.trial}: {record['run_status']}"
        if score is not None:
            text += f" {score:.2f}"
            text += "" if record["std_reward"] is None else f" ± {record['std_reward']:.2f}"
            laps = record.get("lap_rate")
            text += "" if laps is None else f", laps in {100 * laps:.0f} % of episodes"
        self.say(f"{text}, {record['elapsed_sec']:.1f} s")
        if reason:
            self.say(f"  {brief(reason)}")
        claim = self.study.claim()
        standing = self.study.book.records("standing")
        if standing and standing[-1]["leader"] is not None and plan.role != "test":
            last = standing[-1]
            text = f"  leader {last['leader']}"
            if claim is not None:
                text += f", champion {self.study.champion} "
                text += claim_in_words(claim.mean, claim.interval(), claim.runs)
            if "within" in last:
                text += f"; within {last['epsilon']:.3g} of the best: P = {last['within']:.2f}"
            self.say(text)


def read_finish(folder: Path, outcome: Outcome) -> Finish:
    """How a trial ended, by its result if there is one."""
    table = read_result(folder) if outcome.status == "done" else None
    if table is None:
        status = {"done": "failed", "lost": "failed"}.get(outcome.status, outcome.status)
        return Finish(status, elapsed=outcome.elapsed, reason=outcome.reason or None)
    names = ("mean_reward", *(name for name in NUMBERS if table.get(name) is not None))
    try:
        number = {name: _number(table.get(name), name) for name in names}
    except ValueError as error:
        return Finish("failed", elapsed=outcome.elapsed, reason=f"{RESULT} {error}")
    model = table.get("model")
    return Finish(
        "pruned" if table.get("pruned") else "ok",
        number["mean_reward"],
        number.get("std_reward"),
        number.get("seconds", outcome.elapsed),
        None if model is None else f"trials/{folder.name}/{model}",
        None,
        {name: table[name] for name in KEPT if table.get(name) is not None},
    )


def _number(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > LARGEST:
        raise ValueError(f"must hold a number as {name}, got {value!r:.50}")
    return float(value)


def _was_full(outcome: Outcome) -> bool:
    """Whether a trial failed for want of room, which is not its fault."""
    return outcome.status == "failed" and NO_ROOM in outcome.reason


def _cry(text: str) -> None:
    """Tell that the disk is full, if that can be told: the output may go to the same disk."""
    with contextlib.suppress(OSError):
        print(text, flush=True)


def _table(path: Path) -> dict[str, Any]:
    """What a JSON file says; nothing where it is no table."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _clear(folder: Path) -> None:
    """Remove what a trial left in its folder; what it was asked stays."""
    for path in folder.glob("*"):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        elif path.name != TRIAL:
            with contextlib.suppress(OSError):
                path.unlink()


def _short(params: dict[str, Any]) -> str:
    return " ".join(
        f"{name}={value:.3g}" if isinstance(value, float) else f"{name}={value}"
        for name, value in params.items()
    )
