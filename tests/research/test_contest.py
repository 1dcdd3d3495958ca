import numpy as np
import pytest

from hotlap.research.contest import compete, recommended
from hotlap.research.problems import find_problem


@pytest.mark.parametrize("sampler", ["gp-ucb", "gp", "gp-flat", "tpe", "random"])
def test_a_contest_has_regrets_halfway_and_at_the_end(sampler: str) -> None:
    problem = find_problem("conditional+0.1")
    row = compete(problem, sampler, budget=6, seed=0)
    assert row["checkpoints"] == [3, 6]
    assert all(len(row[how]) == 2 and min(row[how]) >= 0 for how in ("observed", "posterior"))
    same = compete(problem, sampler, budget=6, seed=0)
    assert row["observed"] == same["observed"]


def test_the_highest_score_is_recommended_as_observed() -> None:
    problem = find_problem("branin")
    runs = [({"x0": 0.0, "x1": 1.0}, -3.0), ({"x0": 1.0, "x1": 1.0}, -1.0)]
    assert recommended(problem.space, runs, "observed") == {"x0": 1.0, "x1": 1.0}


def test_without_noise_the_posterior_recommends_the_best_seen() -> None:
    problem, rng = find_problem("branin"), np.random.default_rng(0)
    params = [problem.space.decode(point) for point in problem.space.sample(rng, 30)]
    runs = [(p, problem.true(p)) for p in params]
    chosen = {
        how: problem.regret(recommended(problem.space, runs, how))
        for how in ("observed", "posterior")
    }
    assert chosen["posterior"] == pytest.approx(chosen["observed"], abs=0.5)
