"""A study: what it decides, what it writes down, and that it goes on as if it had never stopped."""

import functools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hotlap.config.study import SAMPLERS, RaceConfig, SeedLists, StopConfig, StudyConfig
from hotlap.research.book import Finish, MemoryBook, Plan
from hotlap.research.engines.job import Job, Outcome, write_result
from hotlap.research.night import Night
from hotlap.research.proposer import Proposal, Seen
from hotlap.research.space import Params, identity, make_space
from hotlap.research.study import AGAIN, Study

SPACE = make_space({"x": {"low": 0.0, "high": 1.0}, "n": {"low": 1, "high": 4}})
OPEN_END = StopConfig(converge=False)
Record = dict[str, Any]


def hill(params: Params, seed: int, noise: float = 0.05) -> float:
    luck = np.random.default_rng([seed, int(1e6 * params["x"])]).standard_normal()
    return float(-((params["x"] - 0.3) ** 2) - 0.1 * abs(params["n"] - 2) + noise * luck)


def config(trials: int = 24, **changed: Any) -> StudyConfig:
    settings: dict[str, Any] = {"trials": trials, "test_runs": 0, "stop": OPEN_END}
    return StudyConfig(**(settings | changed))


def lead(study: Study, objective: Callable[[Params, int], float | None] = hill) -> list[Record]:
    """Run a study to its end; None is a run that failed."""
    while (reason := study.should_stop()) is None:
        plan = study.next()
        if plan is None:
            break
        study.finish(plan, ended(objective(plan.params, plan.seed)))
    study.stop(reason or "nothing is left to try")
    while (plan := study.next_test()) is not None:
        study.finish(plan, ended(objective(plan.params, plan.seed)))
    study.certify()
    return study.book.records()


def ended(score: float | None) -> Finish:
    return Finish("failed", reason="crashed") if score is None else Finish("ok", score, elapsed=1.0)


def kind(records: Sequence[Record], name: str) -> list[Record]:
    return [record for record in records if record["kind"] == name]


def told(records: Sequence[Record]) -> list[Record]:
    """Records without the time of day."""
    return [{k: v for k, v in record.items() if k != "timestamp"} for record in records]


@contextmanager
def random_proposals() -> Iterator[None]:
    """Proposals without a surrogate behind them, where it is not they that are tested."""

    def propose(space: Any, seen: Any, pending: Any, seed: int, *rest: Any) -> Proposal:
        tried = sum(len(each.scores) + each.failures for each in seen) + len(pending)
        point = space.sample(np.random.default_rng([seed, tried]))[0]
        return Proposal(space.decode(point), (), "at random")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hotlap.research.study.propose", propose)
        yield


LENGTHS = (60, pytest.param(100, marks=pytest.mark.slow))


@functools.cache
def records_of(trials: int) -> list[Record]:
    """A study of this length."""
    with random_proposals():
        return lead(Study(SPACE, config(trials), MemoryBook()))


# --- the title ----------------------------------------------------------------------------------


def test_the_naive_rule_crowns_every_highest_score() -> None:
    study = Study(SPACE, config(5, champion="naive", sampler="random"), MemoryBook())
    scores = iter([50.0, 80.0, 60.0, 90.0, 70.0])
    records = lead(study, lambda params, seed: next(scores))
    assert [t["trial"] for t in kind(records, "trial") if t["champion"]] == [1, 2, 4]
    assert [t["after"] for t in kind(records, "title")] == [1, 2, 4]
    claim = study.claim()
    assert claim is not None
    assert claim.mean == 90.0


def test_the_naive_rule_does_not_care_who_ends_first() -> None:
    book = MemoryBook()
    study = Study(SPACE, config(2, champion="naive", sampler="random", workers=2), book)
    first, second = study.next(), study.next()
    assert first is not None and second is not None
    study.finish(second, Finish("ok", 50.0))
    study.finish(first, Finish("ok", 90.0))
    assert study.champion == first.config


def test_luck_nominates_and_takes_no_title() -> None:
    """Seed 2 gives ten times too much to whoever runs with it; nobody keeps that."""

    def lucky(params: Params, seed: int) -> float:
        return 10.0 if seed == 2 else hill(params, seed, noise=0.02)

    records = lead(Study(SPACE, config(30), MemoryBook()), lucky)
    assert max(t["mean_reward"] for t in kind(records, "trial")) == 10.0
    titles = kind(records, "title")
    assert titles
    assert all(title["mean"] < 1.0 and title["runs"] >= 3 for title in titles)
    first = {t["config"]: t["seed"] for t in reversed(kind(records, "trial"))}
    for title in titles:
        raced = [t for t in kind(records, "trial") if t["config"] == title["config"]]
        assert raced[0]["seed"] == first[title["config"]]
        assert title["mean"] <= max(t["mean_reward"] for t in raced[1:])


def test_title_records_say_who_beat_whom_and_why() -> None:
    records = lead(Study(SPACE, config(30), MemoryBook()))
    first, *later = kind(records, "title")
    assert first["verdict"] == "promoted"
    assert first["before"] is None
    assert "the title was free" in first["reason"]
    for title in later:
        assert title["verdict"] == ("promoted" if title["probability"] >= 0.9 else "refused")
        assert "fresh seeds against the champion's" in title["reason"]


# --- the budget ---------------------------------------------------------------------------------


@pytest.mark.parametrize("trials", LENGTHS)
def test_up_to_a_third_of_the_runs_are_made_again(trials: int) -> None:
    roles = [trial["role"] for trial in kind(records_of(trials), "trial")]
    assert len(roles) == trials
    again = sum(role in AGAIN for role in roles)
    assert 0.15 <= again / trials <= 0.30
    assert "explore" not in roles[-round(0.2 * trials) :]


def test_what_is_run_again_the_race_alone_decides() -> None:
    """Under noise a proposer of its own would often go back to what it knows."""
    space = make_space({"x": {"low": 0, "high": 40}})

    def noisy(params: Params, seed: int) -> float:
        luck = np.random.default_rng([seed, params["x"]]).standard_normal()
        return float(-abs(params["x"] - 12) / 40 + luck)

    names = [
        t["config"] for t in kind(lead(Study(space, config(40), MemoryBook()), noisy), "trial")
    ]
    assert len(names) == 40
    assert 0.15 <= 1 - len(set(names)) / 40 <= 0.30


@pytest.mark.parametrize("trials", [16, 40])
def test_what_is_claimed_comes_from_runs_that_chose_nothing(trials: int) -> None:
    def rough(params: Params, seed: int) -> float:
        return hill(params, seed, noise=0.1)

    study = Study(SPACE, config(trials), MemoryBook())
    runs = kind(lead(study, rough), "trial")
    last = runs[-3:]
    assert [run["role"] for run in last] == ["seal"] * 3
    assert [run["role"] for run in runs].count("seal") == 3
    assert {run["config"] for run in last} == {study.champion}
    claim = study.claim()
    assert claim is not None
    assert claim.mean == pytest.approx(np.mean([run["mean_reward"] for run in last]))
    assert claim.runs == 3
    longer = Study(SPACE, config(trials + 10), study.book)
    longer.go_on()
    again = longer.claim()  # until there is a new end, all runs count
    assert again is not None and again.runs > 3


def test_fewer_configurations_than_fill_a_space_are_all_looked_at() -> None:
    space = make_space({"a": {"low": 0, "high": 6}})
    study = Study(space, config(40), MemoryBook())
    luck = np.random.default_rng(0)
    records = lead(study, lambda params, seed: -abs(params["a"] - 2) + 0.1 * luck.standard_normal())
    tried = [trial["params"]["a"] for trial in kind(records, "trial")]
    assert set(tried) == set(range(7))
    assert study.champion_params() == {"a": 2}
    assert max(tried.count(a) for a in range(7) if a != 2) <= tried.count(2)


def test_a_pool_that_is_used_up_ends_the_study() -> None:
    pool = np.stack([SPACE.encode({"x": x, "n": 2}) for x in (0.1, 0.3)])
    seeds = SeedLists((0, 1, 2), (0, 1, 2), (7,))
    study = Study(SPACE, config(20, seeds=seeds), MemoryBook(), pool)
    assert len(kind(lead(study), "trial")) == 6  # both with every seed
    assert study.stopped == "nothing is left to try"
    with pytest.raises(ValueError, match="takes sampler gp-ucb"):
        Study(SPACE, config(20, sampler="tpe"), MemoryBook(), pool)


def test_what_is_known_from_elsewhere_can_still_be_run() -> None:
    space = make_space({"a": {"low": 0, "high": 7}, "b": {"choices": ["p", "q"]}})
    best = {"a": 7, "b": "p"}
    earlier = [Seen(best, (0.0,)), Seen({"a": 0, "b": "q"}, (-3.0,))]

    def exact(params: Params, seed: int) -> float:
        return -abs(params["a"] - 7) / 2 - (params["b"] != "p")

    study = Study(space, config(30), MemoryBook(), earlier=earlier)
    lead(study, exact)
    assert study.champion_params() == best


@pytest.mark.parametrize("trials", LENGTHS)
def test_the_champion_keeps_being_run_again(trials: int) -> None:
    champion, last, gaps = None, 0, []
    for record in records_of(trials):
        if record["kind"] == "title" and record["verdict"] == "promoted":
            champion, last = record["config"], record["after"]
        elif record["kind"] == "trial" and champion is not None:
            if record["config"] == champion:
                last = record["trial"]
            gaps.append(record["trial"] - last)
    # Twenty trials after its last run it is due, at the next short race, at most ten later.
    assert gaps
    assert max(gaps) <= 30


def test_seeds_of_tuning_race_and_test_are_never_mixed() -> None:
    with random_proposals():
        records = lead(Study(SPACE, config(40, test_runs=2), MemoryBook()))
    lists = SeedLists()
    race: dict[str, list[int]] = {}
    for trial in kind(records, "trial"):
        if trial["role"] == "explore":
            assert trial["seed"] in lists.tuning
        elif trial["role"] == "test":
            assert trial["seed"] in lists.test[:2]
        else:
            race.setdefault(trial["config"], []).append(trial["seed"])
    # Everybody races on the same seeds, in the same order.
    assert all(seeds == list(lists.race[: len(seeds)]) for seeds in race.values())
    assert len(race) > 1
    roles = [trial["role"] for trial in kind(records, "trial")]
    assert roles.index("test") == 40
    assert set(roles[40:]) == {"test"}


def test_where_seeds_run_out_those_of_the_test_stay_untouched() -> None:
    seeds = SeedLists((0,), (1,), (2, 3, 4, 5))
    space = make_space({"c": {"choices": ["a", "b"]}})
    records = lead(
        Study(space, config(12, seeds=seeds, sampler="random"), MemoryBook()),
        lambda params, seed: float(seed),
    )
    used: dict[str, list[int]] = {}
    for trial in kind(records, "trial"):
        used.setdefault(trial["config"], []).append(trial["seed"])
    assert not {2, 3, 4, 5} & {seed for its in used.values() for seed in its}
    assert all(len(set(its)) == len(its) for its in used.values())


# --- the last test ------------------------------------------------------------------------------


def test_the_best_three_are_tested_and_optimism_is_told() -> None:
    study = Study(SPACE, config(24, seed=1, test_runs=2), MemoryBook())
    records = lead(study)
    (certificate,) = kind(records, "certificate")
    rows = certificate["finalists"]
    assert len(rows) == 3
    assert [row["champion"] for row in rows] == [True, False, False]
    tests = [t for t in kind(records, "trial") if t["role"] == "test"]
    own = [t["mean_reward"] for t in tests if t["config"] == study.champion]
    assert rows[0]["tested"] == pytest.approx(sum(own) / 2)
    assert rows[0]["optimism"] == pytest.approx(rows[0]["claimed"] - sum(own) / 2)
    claim = study.claim()
    assert claim is not None
    assert rows[0]["claimed"] == claim.mean
    assert study.certify() == certificate  # once


def test_a_study_of_failures_only_ends_without_a_champion() -> None:
    study = Study(SPACE, config(14, test_runs=3), MemoryBook())
    records = lead(study, lambda params, seed: None)
    assert len(kind(records, "trial")) == 14
    assert study.champion is None
    assert study.certify() is None
    assert study.stopped == "budget: 14 trials"


# --- going on -----------------------------------------------------------------------------------


def reopened(records: Sequence[Record]) -> MemoryBook:
    book = MemoryBook()
    for record in deepcopy(list(records)):
        book.append(record.pop("kind"), **record)
    return book


def failing_sometimes(params: Params, seed: int) -> float | None:
    return None if params["n"] == 4 else hill(params, seed)


@pytest.mark.parametrize(
    ("trials", "every"), [(14, 5), pytest.param(20, 1, marks=pytest.mark.slow)]
)
def test_a_study_taken_up_after_any_record_goes_on_to_the_same_end(trials: int, every: int) -> None:
    chosen = config(trials, test_runs=1)
    whole = lead(Study(SPACE, chosen, MemoryBook()), failing_sometimes)
    for cut in range(0, len(whole), every):
        study = Study(SPACE, chosen, reopened(whole[:cut]))
        for plan in study.pending:
            study.finish(plan, ended(failing_sometimes(plan.params, plan.seed)))
        assert told(lead(study, failing_sometimes)) == told(whole), f"cut after {cut} records"


def test_what_the_clock_says_decides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = lead(Study(SPACE, config(12), MemoryBook()))
    jumps = iter([1e9, 2e9, 0.0, 5e8] * 1000)
    monkeypatch.setattr(time, "time", lambda: next(jumps))
    monkeypatch.setattr(time, "strftime", lambda form: f"long ago, {next(jumps):.0f}")
    assert told(lead(Study(SPACE, config(12), MemoryBook()))) == told(whole)


class Shuffled:
    """An engine whose jobs end in an order of its own."""

    capacity = 2

    def __init__(self, seed: int) -> None:
        self._rng, self._jobs = np.random.default_rng(seed), list[Job]()

    def submit(self, job: Job) -> Record:
        self._jobs.append(job)
        return {}

    def poll(self, timeout: float) -> list[Outcome]:
        if not self._jobs:
            return []
        job = self._jobs.pop(int(self._rng.integers(len(self._jobs))))
        return [Outcome(job.trial, "done", 0, 1.0)]

    def cancel(self, trial: int) -> None: ...

    def close(self) -> None: ...


class ScoringNight(Night):
    """A night whose trials have their results from the start."""

    def _prepare(self, plan: Plan, folder: Path) -> int:
        attempt = super()._prepare(plan, folder)
        score = hill(plan.params, plan.seed)
        write_result(folder, {"mean_reward": score, "seconds": 1.0})
        return attempt


def test_ordered_decisions_do_not_hang_on_who_ends_first(tmp_path: Path) -> None:
    ends = []
    for seed in range(3):
        study = Study(SPACE, config(16, workers=2, ordered=True), MemoryBook())
        folder = tmp_path / str(seed)
        folder.mkdir()
        limits: dict[str, Any] = {}
        ScoringNight(study, folder, Shuffled(seed), ("true",), limits, {}, lambda text: None).run()
        ends.append(told(study.book.records()))
    assert ends[0] == ends[1] == ends[2]
    assert len(kind(ends[0], "trial")) == 16


def test_the_five_best_candidates_are_written_down() -> None:
    records = lead(Study(SPACE, config(18), MemoryBook()))
    candidates = [r["candidates"] for r in kind(records, "proposal") if r["candidates"]]
    assert candidates
    for best in candidates:
        assert 1 <= len(best) <= 5
        for each in best:
            assert each["ucb"] == pytest.approx(each["mean"] + 2.0 * each["std"])


def test_a_budget_may_grow_after_its_end() -> None:
    book = MemoryBook()
    lead(Study(SPACE, config(8, test_runs=1), book))
    assert Study(SPACE, config(8, test_runs=1), book).stopped == "budget: 8 trials"
    grown = Study(SPACE, config(12, test_runs=1), book)
    grown.go_on()
    records = lead(grown)
    roles = [t["role"] for t in kind(records, "trial")]
    assert len(roles) - roles.count("test") == 12
    assert [s["reason"] for s in kind(records, "stop")] == ["budget: 8 trials", "budget: 12 trials"]
    assert kind(records, "certificate")[-1]["after"] == len(roles)


def test_an_end_that_still_holds_stays() -> None:
    book = MemoryBook()
    records = lead(Study(SPACE, config(6), book))
    again = Study(SPACE, config(6), book)
    again.go_on()
    assert again.stopped == "budget: 6 trials"
    assert again.next() is None
    assert book.records() == records


def test_time_that_was_nearly_over_is_there_again() -> None:
    book = MemoryBook()
    study = Study(SPACE, config(0), book)
    plan = study.next()
    assert plan is not None
    study.finish(plan, ended(1.0))
    study.close_race("most of the time is spent")
    assert Study(SPACE, config(0), book).is_closing
    next_night = Study(SPACE, config(0), book)
    next_night.go_on()
    assert not next_night.is_closing


def test_a_result_whose_proposal_was_lost_still_counts() -> None:
    whole = lead(Study(SPACE, config(6), MemoryBook()))
    rest = [r for r in whole if (r["kind"], r.get("trial")) != ("proposal", 3)]
    study = Study(SPACE, config(8), reopened([r for r in rest if r["kind"] != "stop"]))
    assert sorted(study.finished) == [1, 2, 3, 4, 5, 6]
    plan = study.next()
    assert plan is not None
    assert plan.trial == 7


# --- results ------------------------------------------------------------------------------------


def test_a_trial_ends_once() -> None:
    study = Study(SPACE, config(), MemoryBook())
    plan = study.next()
    assert plan is not None
    study.finish(plan, ended(1.0))
    with pytest.raises(ValueError, match="trial 1 has ended already"):
        study.finish(plan, ended(2.0))
    assert study.finished[1].score == 1.0


@pytest.mark.parametrize("score", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_a_failure(score: float) -> None:
    study = Study(SPACE, config(), MemoryBook())
    plan = study.next()
    assert plan is not None
    record = study.finish(plan, Finish("ok", score))
    assert (record["run_status"], record["mean_reward"]) == ("failed", None)
    assert record["reason"] == f"the score was {score}"


def test_a_pruned_run_counts_at_the_steps_it_had_and_enters_no_race() -> None:
    space = make_space({"timesteps": {"low": 1000, "high": 9000}, "x": {"low": 0.0, "high": 1.0}})
    study = Study(space, config(), MemoryBook())
    first, how = study.next(), Finish("pruned", 5.0, more={"timesteps": 2500})
    assert first is not None
    study.finish(first, how)
    assert study.standings().leader is None
    second = study.next()
    assert second is not None
    study.finish(second, ended(7.0))
    seen = {each.params["timesteps"]: each.scores for each in study._seen(study.runs)}
    assert seen == {second.params["timesteps"]: (7.0,), 2500: (5.0,)}
    assert study.champion is None


# --- proposals ----------------------------------------------------------------------------------


def test_earlier_results_inform_the_first_proposal() -> None:
    rng = np.random.default_rng(0)
    earlier = []
    for point in SPACE.sample(rng, 20):
        params = SPACE.decode(point)
        earlier.append(Seen(params, (hill(params, 0, noise=0.0),)))
    study = Study(SPACE, config(), MemoryBook(), earlier=earlier)
    plan = study.next()
    assert plan is not None
    assert "fills the space" not in study.book.records("proposal")[0]["why"]
    assert hill(plan.params, 0, noise=0.0) > np.median([each.scores[0] for each in earlier])
    assert study.standings().leader is None  # and enter no race


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_every_sampler_leads_a_study(sampler: str) -> None:
    records = lead(Study(SPACE, config(12, sampler=sampler), MemoryBook()))
    assert len(kind(records, "trial")) == 12
    assert kind(records, "stop")[-1]["reason"] == "budget: 12 trials"


def test_with_two_workers_two_are_under_way_and_they_differ() -> None:
    study = Study(SPACE, config(workers=2), MemoryBook())
    first, second = study.next(), study.next()
    assert first is not None and second is not None
    assert identity(first.params) != identity(second.params)
    assert study.next() is None
    study.finish(second, ended(1.0))
    third = study.next()
    assert third is not None
    assert third.config not in (first.config, second.config)


# --- the end ------------------------------------------------------------------------------------


def test_a_target_ends_a_study_when_it_is_confirmed() -> None:
    stop = replace(OPEN_END, target=-0.05)
    study = Study(SPACE, config(60, stop=stop, race=RaceConfig(every=4)), MemoryBook())
    records = lead(study)
    (title, *_) = kind(records, "title")
    assert study.stopped is not None
    assert study.stopped.endswith("is claimed, -0.05 was asked for")
    assert title["after"] <= len(kind(records, "trial")) < 60
    claim = study.claim()
    assert claim is not None
    assert claim.mean >= -0.05
