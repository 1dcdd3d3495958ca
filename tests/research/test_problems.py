import importlib
from pathlib import Path

import numpy as np
import pytest

from hotlap.research import problems
from hotlap.research.problems import COCO, find_problem, names
from hotlap.research.space import Params

BEST: dict[str, Params] = {
    "branin": {"x0": np.pi, "x1": 2.275},
    "hartmann6": dict(
        zip(
            [f"x{i}" for i in range(6)],
            [0.20169, 0.150011, 0.476874, 0.275332, 0.311652, 0.6573],
            strict=True,
        )
    ),
    "ackley4": {"x0": 7.1, "x1": -11.3, "x2": 4.7, "x3": -16.9},
    "levy4": {f"x{i}": 1.0 for i in range(4)},
    "mixed": {
        "optimiser": "adam",
        "activation": "relu",
        "layers": 3,
        "units": 96,
        "learning_rate": 10**-2.75,
        "dropout": 0.0,
    },
    "conditional": {"agent": "ppo", "learning_rate": 1e-3, "clip": 0.15, "epochs": 7},
}


@pytest.mark.parametrize("name", BEST)
def test_the_known_optimum_has_no_regret(name: str) -> None:
    problem = find_problem(name)
    assert problem.space.problem(BEST[name]) is None
    assert problem.regret(BEST[name]) == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("name", names())
def test_no_point_is_better_than_the_best(name: str) -> None:
    problem = find_problem(name)
    points = problem.space.sample(np.random.default_rng(0), 300)
    assert min(problem.regret(problem.space.decode(point)) for point in points) > -1e-9


@pytest.mark.parametrize("name", names())
def test_noise_is_where_it_is_said_to_be_and_follows_the_generator(name: str) -> None:
    problem = find_problem(name)
    params = problem.space.decode(problem.space.sample(np.random.default_rng(1))[0])
    looks = [problem.evaluate(params, np.random.default_rng(seed)) for seed in (0, 1, 2, 0)]
    assert looks[0] == looks[3]
    assert (len(set(looks)) > 1) == problem.is_noisy or name == "noisy-f121-d3"  # rare jumps only
    assert problem.is_noisy == ("+" in name or name.startswith("noisy"))


def test_added_noise_has_its_standard_deviation() -> None:
    problem, rng = find_problem("hartmann6+0.5"), np.random.default_rng(0)
    params = BEST["hartmann6"]
    looks = [problem.evaluate(params, rng) for _ in range(4000)]
    assert np.std(looks) == pytest.approx(0.5, rel=0.05)
    assert np.mean(looks) == pytest.approx(problem.true(params), abs=0.03)


@pytest.mark.parametrize("name", COCO)
def test_the_optimum_of_a_suite_is_what_the_suite_says(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    function, problem = COCO[name], find_problem(name)
    suite, number = function.suite, function.number
    if function.without_noise:
        suite, number = "bbob", function.without_noise
    measured = problems._coco_function(suite, number, function.dimension)
    monkeypatch.chdir(tmp_path)  # the library tells the place of its optimum in a file only
    measured._best_parameter("print")
    place = np.loadtxt(tmp_path / "._bbob_problem_best_parameter.txt")
    params = {
        d.name: int(x) if i < measured.number_of_integer_variables else float(x)
        for i, (d, x) in enumerate(zip(problem.space, place, strict=True))
    }
    assert problem.regret(params) == pytest.approx(0.0, abs=1e-6)


def test_gaussian_noise_of_the_suite_has_its_median_at_the_true_score() -> None:
    problem, rng = find_problem("noisy-f107-d5"), np.random.default_rng(0)
    params = problem.space.decode(np.full(5, 0.3))
    looks = [problem.evaluate(params, rng) for _ in range(400)]
    spread = problem.best - problem.true(params)
    assert np.median(looks) == pytest.approx(problem.true(params), abs=0.2 * spread)


def test_an_unknown_problem_is_named_with_a_guess() -> None:
    with pytest.raises(KeyError, match="did you mean 'hartmann6'"):
        find_problem("hartman6")


def test_without_the_package_the_suites_say_what_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(ModuleNotFoundError, match="pip install coco-experiment"):
        problems._coco_function("bbob", 1, 2)
