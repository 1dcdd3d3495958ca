import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hotlap.research.landscape import (
    Landscape,
    Replay,
    load_landscape,
    make_landscape,
    write_landscape,
)
from hotlap.research.space import make_space

from .landscapes import make_table, small_landscape

SPACE = make_space({"x": {"low": 0.0, "high": 1.0}})
SCORES = np.array([[0.0, 2.0, 1.0, 1.0, 1.0], [5.0, 5.0, 5.0, 5.0, 5.0], [3.0] * 5])
TINY = Landscape(SPACE, ({"x": 0.0}, {"x": 0.5}, {"x": 1.0}), SCORES, np.ones((3, 5)))


def test_the_average_configuration_is_0_and_the_best_is_1() -> None:
    assert TINY.scaled(3.0) == 0.0
    assert TINY.scaled(5.0) == 1.0
    assert Replay(TINY, 0).quality(1) == 1.0
    assert Replay(TINY, 0).optimism(2, claimed=4.0) == pytest.approx(0.5)


def test_a_query_reveals_every_tuning_seed_once_and_no_other() -> None:
    table = np.arange(15.0).reshape(3, 5)
    landscape = Landscape(SPACE, TINY.configs, table, np.ones((3, 5)))
    study = Replay(landscape, seed=3)
    left = study.seeds_left(1)
    seen = {study.query(1) for _ in range(3)}
    assert seen == {table[1, seed] for seed in left}
    unseen = set(table[1]) - seen
    assert study.judged(1) == pytest.approx(np.mean(list(unseen)))
    assert list(study.open) == [0, 2]
    with pytest.raises(ValueError, match="no unused tuning seed"):
        study.query(1)


def test_a_named_seed_is_the_one_that_is_revealed() -> None:
    study = Replay(TINY, 0)
    seed = study.seeds_left(0)[0]
    assert study.query(0, seed) == SCORES[0, seed]
    assert seed not in study.seeds_left(0)


def test_a_failed_run_has_no_score_and_counts_as_the_lowest() -> None:
    scores = SCORES.copy()
    scores[2] = np.nan
    landscape = Landscape(SPACE, TINY.configs, scores, np.ones((3, 5)))
    assert Replay(landscape, 0).query(2) is None
    assert Replay(landscape, 0).judged(2) == 0.0
    assert Replay(landscape, 0).mean(2) == 0.0
    assert Replay(landscape, 0).mean(0) == 1.0


def test_the_same_seed_replays_the_same_study() -> None:
    first, second = (Replay(TINY, 7) for _ in range(2))
    assert [first.query(0) for _ in range(3)] == [second.query(0) for _ in range(3)]


@pytest.mark.parametrize("name", ["table.json", "table.json.gz"])
def test_what_is_written_comes_back(name: str, tmp_path: Path) -> None:
    path = small_landscape(tmp_path / name)
    landscape, table = load_landscape(path), make_table()
    assert landscape.scores.tolist() == table["scores"]
    assert landscape.command == "made for a test"
    assert landscape.points.shape == (40, 3)
    before = path.read_bytes()
    write_landscape(path, table)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"scores": [[1.0]]}, "expected a score and seconds"),
        ({"configs": [{"x": 7.0}]}, "lies outside"),
        ({"scores": None}, "not a landscape"),
        ({"space": {}}, "at least one free parameter"),
    ],
)
def test_a_bad_table_is_refused(change: dict[str, Any], problem: str, tmp_path: Path) -> None:
    table = {
        "space": {"x": {"low": 0.0, "high": 1.0}},
        "configs": [{"x": 0.5}],
        "scores": [[1.0, 2.0]],
        "seconds": [[1.0, 1.0]],
    }
    (tmp_path / "bad.json").write_text(json.dumps(table | change))
    with pytest.raises(ValueError, match=problem):
        load_landscape(tmp_path / "bad.json")


def test_a_missing_or_torn_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"none.json: there is no such landscape"):
        load_landscape(tmp_path / "none.json")
    path = small_landscape(tmp_path / "torn.json.gz")
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(ValueError, match=r"torn.json.gz: not a landscape"):
        load_landscape(path)


def test_pairs_of_params_and_scores_are_a_landscape() -> None:
    pairs = [({"x": 0.25}, [1, None, np.float32(0.5)]), ({"x": 1 / 3}, (2.0, np.nan, 3.0))]
    landscape = make_landscape(SPACE, iter(pairs))
    assert landscape.configs == ({"x": 0.25}, {"x": 1 / 3})
    assert np.array_equal(
        landscape.scores, [[1.0, np.nan, 0.5], [2.0, np.nan, 3.0]], equal_nan=True
    )


@pytest.mark.parametrize(
    ("pairs", "words"),
    [
        ([], "mine: there is no score in it"),
        ([({"x": 0.5}, [None, np.nan])], "mine: there is no score in it"),
        ([{"x": 0.5}], "mine: expected pairs of params and scores"),
        ([({"x": 0.5}, 1.0)], "mine: expected pairs of params and scores"),
        ([({"x": 0.5}, [1.0]), ({"x": 0.6}, [])], "configuration 1 has 0 scores .* 0 has 1; give"),
        ([({"x": 0.5}, ["0.5"])], "mine: a score must be a number, got '0.5'"),
        ([({"x": 0.5}, [True])], "mine: a score must be a number, got True"),
        ([({"x": 0.5}, [1.0]), ({"x": 1.5}, [1.0])], "mine: configuration 1: x = 1.5 lies outside"),
    ],
)
def test_pairs_that_are_no_landscape_are_refused(pairs: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make_landscape(SPACE, pairs, "mine")


def test_seeds_are_parted_in_those_to_choose_and_those_to_judge_by() -> None:
    tuning, unseen = TINY.part(np.random.default_rng(0))
    assert (len(tuning), len(unseen)) == (3, 2)
    assert {*tuning, *unseen} == set(range(5))
    assert [len(seeds) for seeds in TINY.part(np.random.default_rng(0), tests=1)] == [4, 1]
