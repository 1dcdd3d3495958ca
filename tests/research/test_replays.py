from dataclasses import replace
from pathlib import Path

import numpy as np
import optuna
import pytest

from hotlap.research import replays
from hotlap.research.landscape import Landscape, Replay, load_landscape
from hotlap.research.replays import STRATEGIES, Claim, claims, nearest_open, replay

from .landscapes import small_landscape


@pytest.fixture
def landscape(tmp_path: Path) -> Landscape:
    return load_landscape(small_landscape(tmp_path / "table.json"))


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_spends_its_runs_and_claims_what_it_tried(
    name: str, landscape: Landscape
) -> None:
    found = replay(landscape, name, budget=14, seed=0)
    assert set(found) == {"observed", "race" if name == "race" else "posterior"}
    assert all(claim["runs"] == 14 for claim in found.values())
    assert found == replay(landscape, name, budget=14, seed=0)


def test_gp_ucb_beats_the_average_by_far(landscape: Landscape) -> None:
    found = [replay(landscape, "gp-ucb", 20, seed)["posterior"]["quality"] for seed in range(4)]
    assert np.mean(found) > 0.75


def test_the_highest_score_is_claimed_as_it_was_seen(landscape: Landscape) -> None:
    study = Replay(landscape, 0)
    scores = {config: study.query(config) for config in range(10)}
    lucky = claims(study)["observed"]
    assert lucky.score == max(scores.values())
    assert scores[lucky.config] == lucky.score


def test_the_nearest_open_configuration_to_one_of_the_table_is_itself(
    landscape: Landscape,
) -> None:
    study = Replay(landscape, 0)
    assert [nearest_open(study, params) for params in landscape.configs] == list(range(40))
    for _ in range(landscape.tuning_seeds):
        study.query(5)
    assert nearest_open(study, landscape.configs[5]) != 5


def test_an_interval_is_checked_against_seeds_that_had_no_part_in_it(
    landscape: Landscape, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Replay] = []

    def tell(study: Replay, budget: int, seed: int) -> dict[str, Claim]:
        seen.append(study)
        fresh, every = study.judged(3), study.mean(3)
        return {
            "fresh": Claim(3, fresh, (fresh - 1e-9, fresh + 1e-9)),
            "every": Claim(3, every, (every - 1e-9, every + 1e-9)),
        }

    monkeypatch.setitem(STRATEGIES, "told", tell)
    found = replay(landscape, "told", 1, 0)
    assert abs(seen[0].judged(3) - seen[0].mean(3)) > 1e-6
    assert (found["fresh"]["covered"], found["fresh"]["covered_by_all"]) == (True, False)
    assert (found["every"]["covered"], found["every"]["covered_by_all"]) == (False, True)


def test_where_the_truth_is_known_it_judges(landscape: Landscape) -> None:
    known = replace(landscape, truth=np.arange(40.0))
    study = Replay(known, 0)
    assert study.judged(3) == study.mean(3) == 3.0
    assert (study.quality(39), study.quality(0)) == (1.0, pytest.approx(-1.0))
    assert study.optimism(39, 39.0 + 19.5) == pytest.approx(1.0)


def test_an_unknown_strategy_is_named(landscape: Landscape) -> None:
    with pytest.raises(KeyError, match="unknown strategy"):
        replay(landscape, "luck", 1, 0)


def test_another_optuna_is_refused_where_its_insides_are_used(
    landscape: Landscape, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(optuna, "__version__", "6.0.0")
    with pytest.raises(RuntimeError, match=r"optuna==5\.0"):
        replays.optuna_gp(Replay(landscape, 0), 3, 0)
