"""Problems with a known answer, for measuring proposers.

    score    what is maximised: minus the value where a problem is usually minimised
    true     score without noise
    best     the highest true score there is
    regret   best - true score of the point that a proposer recommends; 0 is perfect

A name with a plus is the same problem with Gaussian noise of that standard deviation added to every
score: hartmann6+0.5. Problems named noisy-* and mixint-* come from the suites bbob-noisy and
bbob-mixint of the package coco-experiment (extra `bench`); they were picked to have one of each
group of functions and of each kind of noise, before anything was measured.
"""

import functools
import importlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotlap.config.naming import nearest
from hotlap.research.space import Params, SearchSpace, make_space

Score = Callable[[Params], float]
NoisyScore = Callable[[Params, np.random.Generator], float]


@dataclass(frozen=True)
class Problem:
    """A function to be maximised whose highest score is known."""

    name: str
    space: SearchSpace
    true: Score
    """Score without noise."""
    best: float
    """The highest of them."""
    noise: float = 0.0
    """Standard deviation of what is added to a score."""
    noisy: NoisyScore | None = None
    """A score with noise of the problem's own kind, in place of `noise`."""

    @property
    def is_noisy(self) -> bool:
        """Whether two looks at one point differ."""
        return self.noise > 0 or self.noisy is not None

    def evaluate(self, params: Params, rng: np.random.Generator) -> float:
        """The score as a proposer gets to see it."""
        if self.noisy is not None:
            return self.noisy(params, rng)
        return self.true(params) + self.noise * float(rng.standard_normal())

    def regret(self, params: Params) -> float:
        """How far the true score of these params lies below the best."""
        return self.best - self.true(params)


def find_problem(name: str) -> Problem:
    """The problem of this name."""
    if name in CLASSICS:
        return CLASSICS[name]
    if name in COCO:
        return _coco_problem(name)
    raise KeyError(nearest(name, names(), "problem"))


def names() -> list[str]:
    """All problems."""
    return [*CLASSICS, *COCO]


# --- functions, all to be minimised -------------------------------------------------------------


def branin(x: NDArray[np.float64]) -> float:
    """Branin and Hoo's function of two variables: three minima of 0.397887."""
    a, b = x
    valley = b - 5.1 / (4 * math.pi**2) * a**2 + 5 / math.pi * a - 6
    return float(valley**2 + 10 * (1 - 1 / (8 * math.pi)) * math.cos(a) + 10)


HARTMANN_WEIGHTS = np.array([1.0, 1.2, 3.0, 3.2])
HARTMANN_STEEPNESS = np.array(
    [
        [10, 3, 17, 3.5, 1.7, 8],
        [0.05, 10, 17, 0.1, 8, 14],
        [3, 3.5, 1.7, 10, 17, 8],
        [17, 8, 0.05, 10, 0.1, 14],
    ]
)
HARTMANN_CENTRES = 1e-4 * np.array(
    [
        [1312, 1696, 5569, 124, 8283, 5886],
        [2329, 4135, 8307, 3736, 1004, 9991],
        [2348, 1451, 3522, 2883, 3047, 6650],
        [4047, 8828, 8732, 5743, 1091, 381],
    ]
)


def hartmann6(x: NDArray[np.float64]) -> float:
    """Hartmann's function of six variables in 0..1: one minimum, -3.32237, and a false one."""
    distances = (HARTMANN_STEEPNESS * (x - HARTMANN_CENTRES) ** 2).sum(axis=1)
    return float(-(HARTMANN_WEIGHTS * np.exp(-distances)).sum())


ACKLEY_CENTRE = np.array([7.1, -11.3, 4.7, -16.9])
"""Where the minimum lies; in the middle, a search that starts there would find it for nothing."""


def ackley4(x: NDArray[np.float64]) -> float:
    """Ackley's function: a plain full of dents around one deep hole of value 0."""
    z = x - ACKLEY_CENTRE
    bowl = -20 * math.exp(-0.2 * math.sqrt(float((z**2).mean())))
    dents = -math.exp(float(np.cos(2 * math.pi * z).mean()))
    return bowl + dents + 20 + math.e


def levy4(x: NDArray[np.float64]) -> float:
    """Levy's function: ripples, with the minimum 0 where all variables are 1."""
    w = 1 + (x - 1) / 4
    inner = (w[:-1] - 1) ** 2 * (1 + 10 * np.sin(math.pi * w[:-1] + 1) ** 2)
    last = (w[-1] - 1) ** 2 * (1 + math.sin(2 * math.pi * w[-1]) ** 2)
    return float(math.sin(math.pi * w[0]) ** 2 + inner.sum() + last)


def mixed(params: Mapping[str, Any]) -> float:
    """Settings of a network: two choices, two whole numbers and two floats that hang together.

    Every term is 0 or more, and all are 0 with adam, relu, 3 layers of 96 units, a learning rate
    of 10^-2.75 and no dropout.
    """
    rate_wanted, penalty = {"sgd": (-1.25, 0.3), "adam": (-2.75, 0.0), "rmsprop": (-3.25, 0.15)}[
        params["optimiser"]
    ]
    # Deeper networks want smaller steps, and what an activation costs grows with the depth.
    rate_wanted -= 0.15 * (params["layers"] - 3)
    activation = {"relu": 0.0, "tanh": 0.05, "sigmoid": 0.12}[params["activation"]]
    rate = math.log10(params["learning_rate"]) - rate_wanted
    size = math.log2(params["layers"] * params["units"] / 288)
    return (
        penalty
        + activation * params["layers"]
        + 0.4 * rate**2
        + 0.08 * size**2
        + 0.06 * abs(params["layers"] - 3)
        + params["dropout"] ** 2 * (1.0 if params["units"] < 128 else 0.3)
    )


def conditional(params: Mapping[str, Any]) -> float:
    """Two learners with settings of their own, of which the one that is better is harder to set.

    With ppo the least is 0, at a learning rate of 10^-3, a clip of 0.15 and 7 epochs; with dqn it
    is 0.15, at 10^-3.5, 7 and 3 levels and 0.3 of exploration.
    """
    rate = math.log10(params["learning_rate"])
    if params["agent"] == "ppo":
        narrow = 1 - math.exp(-((rate + 3) ** 2) / 0.5 - (params["clip"] - 0.15) ** 2 / 0.01)
        return 0.7 * narrow + 0.02 * abs(params["epochs"] - 7)
    levels = 0.03 * abs(params["n_steer"] - 7) + 0.05 * abs(params["n_throttle"] - 3)
    return 0.15 + 0.1 * (rate + 3.5) ** 2 + levels + (params["exploration"] - 0.3) ** 2


# --- problems -----------------------------------------------------------------------------------


def _box(low: float, high: float, count: int) -> SearchSpace:
    return make_space({f"x{i}": {"low": float(low), "high": float(high)} for i in range(count)})


def _vector(params: Mapping[str, Any]) -> NDArray[np.float64]:
    return np.array(list(params.values()), dtype=np.float64)


def _of_vector(function: Callable[[NDArray[np.float64]], float]) -> Score:
    return lambda params: -function(_vector(params))


BRANIN_SPACE = make_space({"x0": {"low": -5.0, "high": 10.0}, "x1": {"low": 0.0, "high": 15.0}})
MIXED_SPACE = make_space(
    {
        "optimiser": {"choices": ["sgd", "adam", "rmsprop"]},
        "activation": {"choices": ["relu", "tanh", "sigmoid"]},
        "layers": {"low": 1, "high": 6},
        "units": {"low": 16, "high": 512, "log": True},
        "learning_rate": {"low": 1e-5, "high": 1.0, "log": True},
        "dropout": {"low": 0.0, "high": 0.5},
    }
)
CONDITIONAL_SPACE = make_space(
    {
        "agent": {"choices": ["ppo", "dqn"]},
        "learning_rate": {"low": 1e-5, "high": 1e-1, "log": True},
        "clip": {"low": 0.05, "high": 0.5, "when": {"agent": "ppo"}},
        "epochs": {"low": 1, "high": 12, "when": {"agent": "ppo"}},
        "n_steer": {"low": 3, "high": 15, "when": {"agent": "dqn"}},
        "n_throttle": {"low": 2, "high": 6, "when": {"agent": "dqn"}},
        "exploration": {"low": 0.05, "high": 1.0, "when": {"agent": "dqn"}},
    }
)


def _classics() -> dict[str, Problem]:
    plain: list[tuple[str, SearchSpace, Score, float, tuple[float, ...]]] = [
        ("branin", BRANIN_SPACE, _of_vector(branin), -0.39788735772973816, (1.0,)),
        ("hartmann6", _box(0, 1, 6), _of_vector(hartmann6), 3.322368011415515, (0.1, 0.5)),
        ("ackley4", _box(-32.768, 32.768, 4), _of_vector(ackley4), 0.0, (1.0,)),
        ("levy4", _box(-10, 10, 4), _of_vector(levy4), 0.0, (1.0,)),
        ("mixed", MIXED_SPACE, lambda params: -mixed(params), 0.0, (0.1,)),
        ("conditional", CONDITIONAL_SPACE, lambda params: -conditional(params), 0.0, (0.1,)),
    ]
    found = {}
    for name, space, true, best, noises in plain:
        found[name] = Problem(name, space, true, best)
        for noise in noises:
            noisy = f"{name}+{noise:g}"
            found[noisy] = Problem(noisy, space, true, best, noise)
    return found


CLASSICS = _classics()


# --- the suites of coco-experiment --------------------------------------------------------------


@dataclass(frozen=True)
class CocoFunction:
    """One function of a suite, in its first instance."""

    suite: str
    number: int
    dimension: int
    least: float
    """Its minimum."""
    without_noise: int = 0
    """Number in the suite bbob of the same function without noise."""


COCO = {
    "noisy-f107-d5": CocoFunction("bbob-noisy", 107, 5, 79.48, 1),  # sphere, Gaussian
    "noisy-f105-d3": CocoFunction("bbob-noisy", 105, 3, 149.15, 8),  # Rosenbrock, uniform
    "noisy-f121-d3": CocoFunction("bbob-noisy", 121, 3, -52.35, 14),  # powers, Cauchy
    "noisy-f122-d3": CocoFunction("bbob-noisy", 122, 3, -16.94, 17),  # Schaffer, Gaussian
    "noisy-f128-d2": CocoFunction("bbob-noisy", 128, 2, 40.78, 21),  # Gallagher's peaks, Gaussian
    "mixint-f3-d5": CocoFunction("bbob-mixint", 3, 5, -46.209),  # Rastrigin, separable
    "mixint-f8-d5": CocoFunction("bbob-mixint", 8, 5, 1.4915),  # Rosenbrock
    "mixint-f14-d5": CocoFunction("bbob-mixint", 14, 5, -52.35),  # powers
    "mixint-f15-d5": CocoFunction("bbob-mixint", 15, 5, 100.0),  # Rastrigin, rotated
    "mixint-f21-d5": CocoFunction("bbob-mixint", 21, 5, 40.78),  # Gallagher's peaks
}
STREAM = 2000
"""Places at which the suite's own stream of noise may be entered."""


@functools.cache
def _coco_problem(name: str) -> Problem:
    function = COCO[name]
    if not function.without_noise:
        measured = _coco_function(function.suite, function.number, function.dimension)
        space = _coco_space(measured)
        return Problem(name, space, lambda p: -float(measured(_vector(p))), -function.least)

    plain = _coco_function("bbob", function.without_noise, function.dimension)

    def noisy(params: Params, rng: np.random.Generator) -> float:
        # The noise comes from one stream in the library, which begins anew with every suite. To
        # be a function of `rng` alone, every look enters that stream at a place drawn from it.
        fresh = _coco_function(function.suite, function.number, function.dimension)
        x = _vector(params)
        for _ in range(int(rng.integers(STREAM))):
            fresh(x)
        return -float(fresh(x))

    return Problem(
        name,
        _coco_space(plain),
        lambda p: -float(plain(_vector(p))),
        -function.least,
        noisy=noisy,
    )


def _coco_function(suite: str, number: int, dimension: int) -> Any:
    try:
        cocoex = importlib.import_module("cocoex")
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "problems of the coco suites need the package coco-experiment: "
            "pip install coco-experiment, or hotlap[bench]"
        ) from None
    chosen = f"function_indices:{number - 100 if number > 100 else number}"
    functions = cocoex.Suite(suite, "instances:1", f"dimensions:{dimension} {chosen}")
    return functions.get_problem_by_function_dimension_instance(number, dimension, 1)


def _coco_space(function: Any) -> SearchSpace:
    """Whole numbers first, as many as the function says, then floats."""
    table: dict[str, Any] = {}
    for i, (low, high) in enumerate(zip(function.lower_bounds, function.upper_bounds, strict=True)):
        kind = int if i < function.number_of_integer_variables else float
        table[f"x{i}"] = {"low": kind(low), "high": kind(high)}
    return make_space(table)
