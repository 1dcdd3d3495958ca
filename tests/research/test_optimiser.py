"""The controller for functions of one's own."""

import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

import hotlap.research
from hotlap.config.study import StopConfig, StudyConfig
from hotlap.research.optimiser import StudyResult, optimise
from hotlap.research.space import Params, make_space
from hotlap.store.ledger import read_ledger

SPACE = make_space({"x": {"low": 0.0, "high": 1.0}})


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


def test_importing_the_package_brings_nothing_heavy() -> None:
    code = (
        "import sys, hotlap.research;"
        "print({'scipy', 'numpy', 'optuna', 'torch'} & set(sys.modules));"
        "import hotlap.research.optimiser;"
        "from hotlap.research import *;"
        "print(*map(callable, [optimise, load_space, make_space, StudyConfig, StudyResult]))"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.splitlines() == ["set()", "True True True True True"]
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


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), None, "fast"])
def test_what_is_no_score_fails_that_run_only(bad: Any) -> None:
    result = optimise(lambda params, seed: bad if seed == 1 else 1.0, SPACE, config(3))
    states = [r["run_status"] for r in result.records if r["kind"] == "trial"]
    assert states[:3] == ["ok", "failed", "ok"]


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

    result = optimise(lead_another, SPACE, config(1, test_runs=0), tmp_path)
    (trial,) = (r for r in result.records if r["kind"] == "trial")
    assert "is being written by process" in trial["reason"]


def test_a_damaged_ledger_is_refused_with_the_way_out(tmp_path: Path) -> None:
    optimise(bump, SPACE, config(2), tmp_path)
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"trial": 1', b'"trial": 7', 1))
    with pytest.raises(ValueError, match=r"line 2: its checksum does not hold.*--repair"):
        optimise(bump, SPACE, config(2), tmp_path)


def test_a_study_without_an_end_is_refused() -> None:
    with pytest.raises(ValueError, match="a study needs an end"):
        optimise(bump, SPACE, config(0, stop=StopConfig(converge=False)))
