"""The controller for functions of one's own."""

import json
import math
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hotlap.research
from hotlap.config.study import RaceConfig, SeedLists, StopConfig, StudyConfig
from hotlap.research.earlier import read_earlier
from hotlap.research.landscape import Replay, load_landscape
from hotlap.research.optimiser import (
    StudyResult,
    describe,
    optimise,
    optimise_landscape,
    optimise_table,
)
from hotlap.research.proposer import Seen
from hotlap.research.replays import race
from hotlap.research.space import Params, make_space
from hotlap.store.ledger import Ledger, read_ledger

from . import golden_study
from .landscapes import small_landscape

RANGES = {"x": {"low": 0.0, "high": 1.0}}
SPACE = make_space(RANGES)


def config(trials: int = 14, **changed: Any) -> StudyConfig:
    settings: dict[str, Any] = {"trials": trials, "test_runs": 1}
    return StudyConfig(**(settings | changed))


def bump(params: Params, seed: int) -> float:
    return -((params["x"] - 0.3) ** 2) + 0.01 * (seed * 7 % 5)


def told(result: StudyResult) -> list[dict[str, Any]]:
    """What was decided and found: the records without times and the ledger's first line."""
    times = ("timestamp", "elapsed_sec")
    records = [r for r in result.records if r["kind"] != "study"]
    return [{k: v for k, v in record.items() if k not in times} for record in records]


def test_the_example_of_the_package_runs() -> None:
    lines = (hotlap.research.__doc__ or "").splitlines()
    example = textwrap.dedent("\n".join(line for line in lines if line.startswith("    ")))
    names: dict[str, Any] = {}
    exec(example, names)
    result = names["result"]
    assert isinstance(result, StudyResult)
    assert result.champion["method"] == "careful"
    assert result.optimism == pytest.approx(result.claimed - result.tested)
    low, high = result.interval
    assert low < result.claimed < high
    found = names["found"]
    assert found.champion in [params for params, _ in names["recorded"]]
    assert found.champion["rate"] == pytest.approx(0.01, rel=1.0)
    assert found.optimism == found.claimed - found.tested


def test_importing_the_package_brings_nothing_heavy() -> None:
    code = (
        "import sys, hotlap.research;"
        "print({'scipy', 'numpy', 'optuna', 'torch'} & set(sys.modules));"
        "import hotlap.research.optimiser;"
        "from hotlap.research import *;"
        "print(all(map(callable, map(globals().get, hotlap.research.__all__))))"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.splitlines() == ["set()", "True"]
    assert set(hotlap.research.__all__) == {
        "optimise", "optimise_table", "make_space", "load_space", "identity", "read_earlier",
        "Seen", "StudyConfig", "RaceConfig", "StopConfig", "SeedLists", "StudyResult",
    }  # fmt: skip
    with pytest.raises(AttributeError, match="no attribute 'optimize'"):
        hotlap.research.optimize  # noqa: B018


def test_the_title_is_claimed_from_fresh_seeds_and_tested_on_others() -> None:
    result = optimise(bump, SPACE, config(20))
    assert result.champion is not None
    assert result.champion["x"] == pytest.approx(0.3, abs=0.15)
    assert result.reason == "budget: 20 trials"
    assert result.optimism is not None
    assert abs(result.optimism) < 0.05


def test_a_run_that_raises_is_written_down_with_its_traceback() -> None:
    def fragile(params: Params, seed: int) -> float:
        if params["x"] > 0.5:
            raise RuntimeError("the engine caught fire")
        return params["x"]

    result = optimise(fragile, SPACE, config(12))
    failed = [r for r in result.records if r.get("run_status") == "failed"]
    assert failed
    first, *trace = failed[0]["reason"].splitlines()
    assert first == "RuntimeError: the engine caught fire"
    assert any("in fragile" in line for line in trace)
    assert result.leader is not None
    assert result.leader["x"] <= 0.5


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (float("nan"), "the score was nan"),
        (float("inf"), "the score was inf"),
        (None, "TypeError: a score must be a number, got None"),
        ("0.5", "TypeError: a score must be a number, got '0.5'"),
        (True, "TypeError: a score must be a number, got True"),
        (np.bool_(False), "TypeError: a score must be a number, got"),
        (10**400, "OverflowError"),
    ],
)
def test_what_is_no_score_fails_that_run_only(bad: Any, words: str) -> None:
    result = optimise(lambda params, seed: bad if seed == 1 else 1.0, SPACE, config(3))
    trials = [r for r in result.records if r["kind"] == "trial"]
    assert [r["run_status"] for r in trials[:3]] == ["ok", "failed", "ok"]
    assert trials[1]["reason"].startswith(words)


@pytest.mark.parametrize("good", [2, np.float32(2), np.int64(2), np.array(2.0)])
def test_any_kind_of_number_is_a_score(good: Any) -> None:
    result = optimise(lambda params, seed: good, SPACE, config(2))
    assert [r["mean_reward"] for r in result.records if r["kind"] == "trial"][:2] == [2.0, 2.0]


def test_a_function_that_exits_has_failed_and_the_study_goes_on() -> None:
    def leave(params: Params, seed: int) -> float:
        return sys.exit(3) if seed == 1 else 1.0

    trials = [r for r in optimise(leave, SPACE, config(3)).records if r["kind"] == "trial"]
    assert [r["run_status"] for r in trials[:3]] == ["ok", "failed", "ok"]
    assert trials[1]["reason"].startswith("SystemExit: 3\n")


def test_stopping_by_hand_is_no_failure() -> None:
    def stop(params: Params, seed: int) -> float:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        optimise(stop, SPACE, config(3))


def test_a_study_in_a_folder_goes_on_to_the_same_end(tmp_path: Path) -> None:
    calls = 0

    def interrupted(params: Params, seed: int) -> float:
        nonlocal calls
        calls += 1
        if calls in (3, 9, 16):
            raise KeyboardInterrupt
        return bump(params, seed)

    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            optimise(interrupted, SPACE, config(), tmp_path / "torn")
    torn = optimise(interrupted, SPACE, config(), tmp_path / "torn")
    assert told(torn) == told(optimise(bump, SPACE, config(), tmp_path / "calm"))
    assert told(torn) == told(optimise(bump, SPACE, config()))
    assert calls == 14 + 3 + 3  # every run once, three tests, and three that were interrupted


def test_a_study_at_its_end_runs_nothing_more_until_its_budget_grows(tmp_path: Path) -> None:
    optimise(bump, SPACE, config(6), tmp_path)
    made = len(read_ledger(tmp_path / "ledger.jsonl").records("trial"))

    def never(params: Params, seed: int) -> float:
        raise AssertionError("it had ended")

    result = optimise(never, SPACE, config(6), tmp_path)
    assert result.reason == "budget: 6 trials"
    grown = optimise(bump, SPACE, config(8), tmp_path)
    assert grown.reason == "budget: 8 trials"
    assert len(read_ledger(tmp_path / "ledger.jsonl").records("trial")) >= made + 2


@pytest.mark.parametrize(
    ("space", "study", "words"),
    [
        (
            make_space({"x": {"low": 0.0, "high": 2.0}}),
            config(4),
            "space.*x: high: it has 1.0, asked",
        ),
        (make_space({"y": {"low": 0.0, "high": 1.0}}), config(4), "another space.* x: it has"),
        (SPACE, config(4, seed=5), "another study.* seed: it has 0, asked for 5"),
        (SPACE, config(4, champion="naive"), "champion: it has 'race', asked for 'naive'"),
    ],
)
def test_another_study_in_the_folder_is_told_by_what_differs(
    space: Any, study: StudyConfig, words: str, tmp_path: Path
) -> None:
    optimise(bump, SPACE, config(4), tmp_path)
    with pytest.raises(ValueError, match=words):
        optimise(bump, space, study, tmp_path)
    assert optimise(bump, SPACE, config(4), tmp_path).reason == "budget: 4 trials"  # left unlocked


def test_a_second_controller_is_refused_and_told_who_leads(tmp_path: Path) -> None:
    def lead_another(params: Params, seed: int) -> float:
        return optimise(bump, SPACE, config(2), tmp_path).claimed or 0.0

    with pytest.raises(RuntimeError, match=r"1 trials; the last: .* is being written by process"):
        optimise(lead_another, SPACE, config(1, test_runs=0), tmp_path)


def test_a_damaged_ledger_is_refused_with_the_way_out(tmp_path: Path) -> None:
    optimise(bump, SPACE, config(2), tmp_path)
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"trial": 1', b'"trial": 7', 1))
    with pytest.raises(ValueError, match=r"line 2: its checksum does not hold.*--repair"):
        optimise(bump, SPACE, config(2), tmp_path)


def test_a_study_without_an_end_is_refused() -> None:
    with pytest.raises(ValueError, match="a study needs an end"):
        optimise(bump, SPACE, config(0, stop=StopConfig(converge=False)))


def test_ranges_and_the_name_of_a_folder_will_do(tmp_path: Path) -> None:
    result = optimise(bump, RANGES, config(3), str(tmp_path / "kept"))
    assert told(result) == told(optimise(bump, SPACE, config(3)))
    assert (tmp_path / "kept" / "ledger.jsonl").exists()
    with pytest.raises(ValueError, match="expected ranges by name"):
        optimise(bump, ["x"], config(3))  # type: ignore[arg-type]


def test_several_workers_are_refused_since_all_runs_in_this_process() -> None:
    with pytest.raises(ValueError, match="one run at a time, so workers must be 1, got 2"):
        optimise(bump, SPACE, config(workers=2))


# --- failing ------------------------------------------------------------------------------------


def made_in(folder: Path) -> int:
    return len(read_ledger(folder / "ledger.jsonl").records("trial"))


def test_ten_failures_of_one_kind_end_the_study_and_mended_it_goes_on(tmp_path: Path) -> None:
    def broken(params: Params, seed: int) -> float:
        return float({}[params["x"]])  # every run names another key

    with pytest.raises(RuntimeError, match=r"all of 10 trials failed .* KeyError: \d\.") as raised:
        optimise(broken, SPACE, config(30), tmp_path)
    assert isinstance(raised.value.__cause__, KeyError)
    assert made_in(tmp_path) == 10
    with pytest.raises(RuntimeError, match="all of 11 trials failed"):
        optimise(broken, SPACE, config(30), tmp_path)
    assert optimise(bump, SPACE, config(14), tmp_path).leader is not None


def test_a_single_score_or_another_error_keeps_a_study_going(tmp_path: Path) -> None:
    def mostly(params: Params, seed: int) -> float:
        return 1.0 if seed == 9 else math.sqrt(-1)

    result = optimise(mostly, SPACE, config(13))
    assert sum(r.get("run_status") == "failed" for r in result.records) >= 11

    def either(params: Params, seed: int) -> float:
        if seed == 9:
            raise RuntimeError("the engine caught fire")
        return float("fast")

    with pytest.raises(RuntimeError, match="nothing has scored in 13 trials; the last: ValueError"):
        optimise(either, SPACE, config(13), tmp_path)
    assert made_in(tmp_path) == 13


def test_scores_that_are_not_numbers_are_no_error_but_nothing_to_return_either() -> None:
    with pytest.raises(RuntimeError, match="nothing has scored in 12 trials; the last: the score"):
        optimise(lambda params, seed: math.nan, SPACE, config(12))


# --- a pool -------------------------------------------------------------------------------------

GRID = [{"x": (i + 1) / 31 + 1e-15} for i in range(30)]
"""Floats of full precision, which come back from their points changed."""


def test_the_objective_gets_the_params_of_a_pool_just_as_they_are_given() -> None:
    assert any(SPACE.decode(SPACE.encode(params)) != params for params in GRID)
    table = {params["x"]: bump(params, 0) for params in GRID}
    result = optimise(lambda params, seed: table[params["x"]], SPACE, config(), pool=GRID)
    assert {r["run_status"] for r in result.records if r["kind"] == "trial"} == {"ok"}
    assert result.champion in GRID
    assert result.leader in GRID


def test_params_and_their_points_are_the_same_pool(tmp_path: Path) -> None:
    points = np.stack([SPACE.encode(params) for params in GRID])

    def rounded(params: Params, seed: int) -> float:
        return bump({"x": round(params["x"], 9)}, seed)

    result = optimise(rounded, SPACE, config(), tmp_path, pool=points)
    assert told(result) == told(optimise(rounded, SPACE, config(), pool=GRID))
    assert told(result) == told(optimise(rounded, SPACE, config(), tmp_path, pool=GRID))


def test_numbers_of_numpy_are_handed_back_as_they_are() -> None:
    space = {"n": {"low": 1, "high": 9}, "x": RANGES["x"]}
    pool = [{"n": np.int64(n), "x": np.float32(0.1 * n)} for n in range(1, 10)]

    def objective(params: Params, seed: int) -> float:
        assert type(params["n"]) is np.int64
        assert type(params["x"]) is np.float32
        return float(params["n"])

    result = optimise(objective, space, config(8), pool=pool)
    assert {r["run_status"] for r in result.records if r["kind"] == "trial"} == {"ok"}


@pytest.mark.parametrize("trials", [0, 50])
def test_a_pool_with_no_seed_left_ends_the_study(trials: int) -> None:
    lists = SeedLists((0, 1), (2, 3), (4,))
    result = optimise(bump, SPACE, config(trials, seeds=lists), pool=GRID[:3])
    made = [(r["config"], r["seed"]) for r in result.records if r["kind"] == "trial"]
    assert len(made) == len(set(made)) == 3 * 4 + 3
    assert result.reason == "nothing is left to try"


def test_a_sampler_that_would_leave_the_pool_is_refused() -> None:
    with pytest.raises(ValueError, match="only the sampler gp-ucb chooses from a pool, and tpe"):
        optimise(bump, SPACE, config(sampler="tpe"), pool=GRID)


# --- going on with the same ---------------------------------------------------------------------

KNOWN = [Seen({"x": 0.25}, (0.1, 0.2), 0, np.float32(2.0)), Seen({"x": 0.5}, (), 1)]


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"pool": GRID[:-1]}, "another pool.*count: it has 30, asked for 29"),
        ({"pool": [*GRID[:-1], {"x": 0.999}]}, "another pool.*sha256: it has"),
        ({"pool": None}, "another pool.*it has {'count': 30.*asked for None"),
        ({"earlier": KNOWN[:1]}, "other earlier results.*count: it has 2, asked for 1"),
        ({"earlier": [KNOWN[0], Seen({"x": 0.5}, (), 2)]}, "other earlier results.*sha256"),
        ({"earlier": ()}, "other earlier results"),
    ],
)
def test_another_pool_or_other_earlier_results_are_refused(
    other: dict[str, Any], words: str, tmp_path: Path
) -> None:
    given: dict[str, Any] = {"pool": GRID, "earlier": KNOWN}
    optimise(bump, SPACE, config(3), tmp_path, **given)
    with pytest.raises(ValueError, match=words):
        optimise(bump, SPACE, config(4), tmp_path, **(given | other))
    assert optimise(bump, SPACE, config(4), tmp_path, **given).reason == "budget: 4 trials"


def test_a_ledger_from_before_pools_were_written_down_still_opens(tmp_path: Path) -> None:
    Ledger.create(tmp_path / "ledger.jsonl", describe(SPACE, config(3))).close()
    result = optimise(bump, SPACE, config(3), tmp_path, earlier=KNOWN, pool=GRID)
    assert result.reason == "budget: 3 trials"


def test_what_was_read_from_a_file_is_as_good_as_what_was_written_by_hand(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"params": {"x": 0.25}, "mean_reward": 0.1},
        {"params": {"x": 0.5}, "mean_reward": None, "run_status": "failed"},
        {"params": {"y": 0.5}, "mean_reward": 0.1},
    ]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    earlier, notes = read_earlier(path, SPACE), list[str]()
    result = optimise(bump, SPACE, config(10), earlier=earlier, say=notes.append)
    assert notes[0].endswith("(first: line 3, y = 0.5)")
    by_hand = [Seen({"x": 0.25}, (0.1,)), Seen({"x": np.float64(0.5)}, (), 1)]
    assert told(result) == told(optimise(bump, SPACE, config(10), earlier=by_hand))
    assert told(result) == told(optimise(bump, SPACE, config(10), earlier=earlier.records))
    assert told(result) != told(optimise(bump, SPACE, config(10)))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (Seen({"x": 7.0}, (1.0,)), "earlier: result 1: x = 7.0 lies outside its range"),
        ({"x": 0.5}, "earlier: result 1 must be Seen"),
    ],
)
def test_earlier_results_that_do_not_fit_are_refused_at_once(wrong: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        optimise(bump, SPACE, config(3), earlier=[KNOWN[0], wrong])


def test_earlier_results_are_replicates_of_runs_with_the_same_params() -> None:
    space = {"n": {"low": 1, "high": 9}}

    def study(n: Any) -> list[dict[str, Any]]:
        known = [Seen({"n": n}, (4.0, 4.5))]
        return told(optimise(lambda p, seed: -abs(p["n"] - 5.0), space, config(11), earlier=known))

    assert study(7) == study(7.0) == study(np.int64(7))


# --- a table ------------------------------------------------------------------------------------


def recorded(seeds: int = 10) -> list[tuple[Params, list[float | None]]]:
    return [(params, [bump(params, seed) for seed in range(seeds)]) for params in GRID]


def test_a_table_is_studied_and_its_claims_are_those_of_its_columns() -> None:
    table = recorded()
    table[3][1][:] = [None, math.nan] * 5
    result = optimise_table(RANGES, table, StudyConfig(trials=40))
    assert result.champion in GRID
    assert result.champion["x"] == pytest.approx(0.3, abs=0.15)
    trials = [r for r in result.records if r["kind"] == "trial"]
    by_name = {hotlap.research.identity(SPACE.decode(SPACE.encode(p))): s for p, s in table}
    for trial in trials:
        score = by_name[trial["config"]][trial["seed"]]
        assert trial["mean_reward"] == (score if score and math.isfinite(score) else None)
    test = {r["seed"] for r in trials if r["role"] == "test"}
    assert len(test) == 4
    assert test.isdisjoint(r["seed"] for r in trials if r["role"] != "test")
    row = by_name[hotlap.research.identity(SPACE.decode(SPACE.encode(result.champion)))]
    assert result.tested == pytest.approx(np.mean([row[seed] or 0 for seed in test]))
    assert result.optimism == result.claimed - result.tested  # type: ignore[operator]


def test_columns_of_the_last_test_decide_nothing() -> None:
    lists = SeedLists((0, 1, 2, 3), (0, 1, 2, 3, 4, 5), (6, 7, 8, 9))
    study = StudyConfig(trials=30, test_runs=4, seeds=lists)
    spoilt = [(params, [*scores[:6], 90.0, None, -90.0, 7.0]) for params, scores in recorded()]
    one, other = (optimise_table(SPACE, table, study) for table in (recorded(), spoilt))
    assert (one.champion, one.claimed, one.interval) == (
        other.champion,
        other.claimed,
        other.interval,
    )
    assert one.leader == other.leader
    assert one.tested != other.tested


def test_a_table_replays_as_the_benchmark_does(tmp_path: Path) -> None:
    landscape = load_landscape(small_landscape(tmp_path / "table.json"))
    replay = Replay(landscape, 3)
    columns = SeedLists(replay.tuning, replay.tuning, ())
    stop = StopConfig(converge=False)
    study = StudyConfig(trials=30, seed=3, test_runs=0, seeds=columns, stop=stop)
    result = optimise_landscape(landscape, study)
    claim = race(replay, 30, 3)["race"]
    assert result.champion == landscape.configs[claim.config]
    assert (result.claimed, result.interval) == (claim.score, claim.interval)


def test_a_table_with_few_seeds_keeps_those_that_a_title_needs() -> None:
    def tested(seeds: int) -> int:
        records = optimise_table(SPACE, recorded(seeds), StudyConfig(trials=12)).records
        return len({r["seed"] for r in records if r.get("role") == "test"})

    assert [tested(5), tested(4)] == [1, 0]


def test_where_most_runs_failed_a_table_is_studied_all_the_same() -> None:
    table = [(params, [1.0] * 5 if params == GRID[-1] else [None] * 5) for params in GRID]
    assert optimise_table(SPACE, table, StudyConfig(trials=100)).leader == GRID[-1]


def test_a_table_in_a_folder_goes_on_with_the_same_scores_only(tmp_path: Path) -> None:
    optimise_table(SPACE, recorded(), StudyConfig(trials=3), tmp_path)
    other = recorded()
    other[7][1][0] = 0.5
    with pytest.raises(ValueError, match=r"another table.*sha256"):
        optimise_table(SPACE, other, StudyConfig(trials=4), tmp_path)
    grown = optimise_table(SPACE, recorded(), StudyConfig(trials=4), tmp_path)
    assert grown.reason == "budget: 4 trials"


@pytest.mark.parametrize(
    ("table", "changed", "words"),
    [
        ([({"x": 7.0}, [1.0] * 5)], {}, "table: configuration 0: x = 7.0 lies outside its range"),
        ([(GRID[0], [1.0] * 5), (GRID[0], [1.0] * 5)], {}, "configurations 0 and 1 are the same"),
        (recorded(3), {}, r"a title needs 3 runs .* has 3 seeds.*RaceConfig\(runs=2\)"),
        (recorded(1), {"race": RaceConfig(runs=1)}, "has 1 seeds; record more$"),
        (recorded(5), {"seeds": SeedLists((0,), (1, 2), (5,))}, "columns .* 0 to 4, got 5"),
    ],
)  # fmt: skip
def test_a_table_that_cannot_be_studied_is_refused(
    table: Any, changed: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        optimise_table(SPACE, table, config(**changed))


def test_a_study_of_an_older_version_goes_on(tmp_path: Path) -> None:
    """Its ledger was written when this format was new, and is never written anew."""
    golden = Path(__file__).with_name("golden") / "study-v1.jsonl"
    shutil.copy(golden, tmp_path / "ledger.jsonl")
    before = read_ledger(golden).records()
    result = optimise(golden_study.objective, golden_study.SPACE, golden_study.config(20), tmp_path)
    assert result.records[: len(before)] == before
    made = [r for r in result.records if r["kind"] == "trial" and r["role"] != "test"]
    assert len(made) == 20
    assert {r["run_status"] for r in made} == {"ok", "failed"}
    assert result.reason == "budget: 20 trials"
    assert result.champion is not None and result.champion["agent"] == "ppo"
