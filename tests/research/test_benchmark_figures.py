import pytest

from hotlap.research.benchmark_figures import _ranks, landscape_figures, regret_figures


def a_row(who: str, repetition: int, observed: float, posterior: float) -> dict[str, object]:
    return {
        "where": "branin",
        "who": who,
        "repetition": repetition,
        "observed": [1.0, observed],
        "posterior": [1.0, posterior],
        "seconds": 1.0,
    }


def test_a_competitor_is_measured_by_its_strongest_variant_and_ours_by_one() -> None:
    rows = [a_row("gp-ucb", i, 0.1, 0.5 + 0.01 * i) for i in range(20)]
    rows += [a_row("gp", i, 0.9, 0.6) for i in range(20)]
    rows += [a_row("tpe", i, 0.2, 0.7) for i in range(20)]
    problem = regret_figures(rows)["problems"]["branin"]
    assert problem["samplers"]["gp-ucb"]["variant"] == "posterior"
    assert problem["samplers"]["gp"]["median"] == 0.6
    assert problem["samplers"]["tpe"]["variant"] == "observed"
    assert problem["rank"] == {"tpe": 1.0, "gp-ucb": 2.0, "gp": 3.0}
    assert problem["against"]["tpe"]["verdict"] == "worse"
    assert problem["against"]["gp"]["verdict"] == "even"


def test_what_is_behind_is_said() -> None:
    rows = [a_row("gp-ucb", i, 0.5, 0.5) for i in range(5)]
    rows += [a_row("random", i, 0.2, 0.4) for i in range(5)]
    (behind,) = regret_figures(rows)["behind"]
    assert (behind["problem"], behind["other"]) == ("branin", "random")
    assert behind["difference"] == pytest.approx(0.3)


def test_equal_medians_share_their_rank() -> None:
    assert _ranks({"a": 1.0, "b": 1.0, "c": 2.0}) == {"a": 1.5, "b": 1.5, "c": 3.0}


def test_coverage_is_the_share_of_claims_that_hold() -> None:
    claim = {"quality": 0.5, "optimism": 0.1, "runs": 60}
    rows = [
        {"who": "race", "claims": {"mean": claim | {"covered": held}}}
        for held in (True, True, True, False)
    ]
    assert landscape_figures(rows)["race, mean"]["covered"] == 0.75
