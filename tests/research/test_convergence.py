"""When nothing can plausibly win any more, and when that only seems so."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from hotlap.config.study import RaceConfig, StopConfig, StudyConfig
from hotlap.research.convergence import Assessment, assess
from hotlap.research.optimiser import optimise
from hotlap.research.proposer import Seen, fit_surrogate
from hotlap.research.space import Params, make_space

SPACE = make_space({"x": {"low": 0.0, "high": 1.0}, "y": {"low": 0.0, "high": 1.0}})


def look(
    count: int, score: Callable[[float, float], float], noise: float, epsilon: float
) -> Assessment:
    rng = np.random.default_rng(0)
    seen = []
    for x, y in rng.random((count, 2)):
        scores = score(x, y) + noise * rng.standard_normal(3)
        seen.append(Seen({"x": float(x), "y": float(y)}, tuple(map(float, scores))))
    best = max(seen, key=lambda each: float(np.mean(each.scores)))
    surrogate = fit_surrogate(SPACE, seen)
    return assess(SPACE, surrogate, SPACE.encode(best.params), 3, noise, epsilon, seed=0)


def test_a_well_known_hill_is_settled() -> None:
    found = look(40, lambda x, y: 10 - (x - 0.5) ** 2 - (y - 0.5) ** 2, noise=0.01, epsilon=0.05)
    assert found.within >= 0.9
    assert found.improvement < 0.025
    assert found.settled(StopConfig())


def test_a_wide_open_landscape_is_not() -> None:
    found = look(8, lambda x, y: float(np.sin(9 * x) * np.cos(7 * y)), noise=0.01, epsilon=0.05)
    assert found.within < 0.5
    assert not found.settled(StopConfig())
    assert found.gap > 0.1


def test_no_difference_is_resolved_below_the_seeds_noise() -> None:
    flat = look(20, lambda x, y: 0.0, noise=3.0, epsilon=0.1)
    assert flat.epsilon == pytest.approx(3.0 / np.sqrt(3))
    assert look(20, lambda x, y: 0.0, noise=0.01, epsilon=0.1).epsilon == 0.1


def test_both_conditions_must_hold() -> None:
    config = StopConfig()
    assert Assessment(0.9, 1.0, 0.4, 0.0).settled(config)
    assert not Assessment(0.89, 1.0, 0.4, 0.0).settled(config)
    assert not Assessment(0.9, 1.0, 0.5, 0.0).settled(config)


def test_certainty_alone_ends_no_study() -> None:
    """On a constant the surrogate is sure of everything at once; the leader is confirmed first."""
    stop = StopConfig(epsilon=0.5, hold=3, least=6)
    race = RaceConfig(every=2, share=0.5)
    config = StudyConfig(trials=40, test_runs=0, stop=stop, race=race)
    result = optimise(
        lambda params, seed: 1.0, make_space({"x": {"low": 0.0, "high": 1.0}}), config
    )
    standing = [record for record in result.records if record["kind"] == "standing"]
    sure = [r["after"] for r in standing if r["within"] >= 0.9 and r["improvement"] < 0.25]
    assert sure[:5] == [2, 3, 4, 5, 6]
    # Confirmed by three runs again and held for three more trials, before that nothing counts.
    held = [r["after"] for r in standing if r["held"]]
    again: dict[str, int] = {}
    confirmed = None
    for trial in (record for record in result.records if record["kind"] == "trial"):
        again[trial["config"]] = again.get(trial["config"], -1) + 1
        if confirmed is None and again[trial["config"]] == 3:
            confirmed = trial["trial"]
    assert min(held) == confirmed
    assert result.reason.startswith("converged")
    assert standing[-1]["held"] == 3
    assert result.champion is not None


@pytest.mark.parametrize(
    "space",
    [{"kind": {"choices": ["a", "b", "c"]}}, {"n": {"low": 0, "high": 3}}],
)
def test_a_small_space_without_noise_comes_to_an_end(space: dict[str, Any]) -> None:
    config = StudyConfig(trials=100, test_runs=0)

    def objective(params: Params, seed: int) -> float:
        return float({"a": 1, "b": 2, "c": 3, 0: 0, 1: 3, 2: 1, 3: 2}[next(iter(params.values()))])

    result = optimise(objective, make_space(space), config)
    assert result.reason.startswith("converged")
    assert result.claimed == pytest.approx(3.0, abs=0.01)


def test_an_easy_hill_is_left_before_the_budget_is_spent() -> None:
    space = make_space({"x": {"low": 0.0, "high": 1.0}, "y": {"low": 0.0, "high": 1.0}})

    def hill(params: Params, seed: int) -> float:
        luck = np.random.default_rng([seed, int(1e9 * params["x"])]).standard_normal()
        return float(-((params["x"] - 0.3) ** 2) - (params["y"] - 0.6) ** 2 + 0.02 * luck)

    result = optimise(hill, space, StudyConfig(trials=150, test_runs=0))
    made = sum(record["kind"] == "trial" for record in result.records)
    assert result.reason.startswith("converged")
    assert made < 110  # before the last race of thirty, and the forty that go with it
    assert result.champion is not None
    assert hill(result.champion, -1 % 7) > -0.1
