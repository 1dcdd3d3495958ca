import importlib.util
import json
import os
from pathlib import Path

import pytest

from hotlap.config.research_bench import BenchResearchConfig
from hotlap.research.problems import CLASSICS
from hotlap.research.research_benchmark import (
    bench_research,
    fit_propose_seconds,
    make_cells,
)

from .landscapes import small_landscape


def test_only_a_conditional_problem_has_a_flat_variant() -> None:
    config = BenchResearchConfig(problems=("branin", "conditional"), repetitions=1)
    cells = make_cells(config, ("regret",))
    assert [c.where for c in cells if c.who == "gp-flat"] == ["conditional"]
    assert len(cells) == 2 * 4 + 1


def test_without_coco_its_problems_are_left_out_with_a_word(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    cells = make_cells(BenchResearchConfig(repetitions=1), ("regret",))
    assert {cell.where for cell in cells} == set(CLASSICS)
    assert "coco-experiment" in capsys.readouterr().out


def test_unknown_words_are_refused() -> None:
    for config in (
        BenchResearchConfig(measures=("speeed",)),
        BenchResearchConfig(problems=("brannin",)),
        BenchResearchConfig(samplers=("tpee",)),
    ):
        with pytest.raises(KeyError, match="did you mean"):
            bench_research(config)
    with pytest.raises(FileNotFoundError, match="there is no such landscape"):
        bench_research(BenchResearchConfig(measures=("landscape",), landscape=Path("none.json")))
    with pytest.raises(ValueError, match="workers must be"):
        BenchResearchConfig(workers=0)


def test_a_proposal_from_few_points_takes_some_time() -> None:
    assert 0 < fit_propose_seconds(0, points=20, rounds=1) < 5


@pytest.mark.slow
def test_a_benchmark_that_was_cut_goes_on_where_it_stopped(tmp_path: Path) -> None:
    table = small_landscape(tmp_path / "table.json")
    out = tmp_path / "results" / "rows.jsonl"

    def run(repetitions: int) -> dict[str, object]:
        return bench_research(
            BenchResearchConfig(
                measures=("regret", "landscape"),
                problems=("branin",),
                samplers=("gp-ucb", "random"),
                strategies=("gp-ucb", "random"),
                repetitions=repetitions,
                budget=6,
                landscape=table,
                landscape_budget=6,
                workers=2,
                out=out,
            )
        )

    threads = os.environ.get("OMP_NUM_THREADS")
    assert run(1)["finished"] == 4
    assert os.environ.get("OMP_NUM_THREADS") == threads
    lines = out.read_text().splitlines()
    out.write_text("\n".join([*lines, lines[0][:40]]))  # killed while it wrote
    answer = run(2)
    assert (answer["finished"], answer["cells"]) == (8, 8)
    kept = out.read_text().splitlines()
    assert len(kept) == 9  # four, the torn one, and four new ones
    assert [json.loads(line) for line in kept[:4]] == [json.loads(line) for line in lines]
    json.dumps(answer, allow_nan=False)


@pytest.mark.slow
def test_no_new_work_is_begun_after_the_time_is_up(tmp_path: Path) -> None:
    config = BenchResearchConfig(
        measures=("regret",), problems=("branin",), samplers=("random",), budget=4, seconds=1e-6
    )
    answer = bench_research(config)
    assert answer["finished"] == 0
