import importlib.util
import math
from typing import Any

import numpy as np
import optuna
import pytest
from optuna.study import StudyDirection
from optuna.trial import TrialState

from hotlap.research.samplers import (
    NAMES,
    GPUCBSampler,
    Grid,
    OptunaProposer,
    Run,
    gather,
    make_sampler,
    observed,
    quiet,
    suggest,
)
from hotlap.research.space import Params, SearchSpace, identity, make_space

SPACE = make_space(
    {
        "agent": {"choices": ["ppo", "dqn"]},
        "rate": {"low": 1e-4, "high": 1e-1, "log": True},
        "clip": {"low": 0.1, "high": 0.4, "when": {"agent": "ppo"}},
        "levels": {"low": 3, "high": 7, "when": {"agent": "dqn"}},
    }
)
LINE = make_space({"x": {"low": 0.0, "high": 1.0}})


def score(params: Params) -> float:
    return -abs(math.log10(params["rate"]) + 2) + (0.5 if params["agent"] == "dqn" else 0.0)


def some_runs(count: int, space: SearchSpace = SPACE) -> list[Run]:
    points = space.sample(np.random.default_rng(0), count)
    return [(params, score(params)) for params in map(space.decode, points)]


def a_trial(params: Params, space: SearchSpace = LINE, **settings: Any) -> optuna.trial.FrozenTrial:
    distributions = {name: space[name].distribution for name in params}
    return optuna.create_trial(params=params, distributions=distributions, **settings)


@pytest.fixture(autouse=True)
def _quiet() -> Any:
    with quiet():
        yield


@pytest.mark.parametrize("name", NAMES)
def test_every_sampler_runs_a_study_of_a_conditional_space(name: str) -> None:
    study = optuna.create_study(direction="maximize", sampler=make_sampler(name, SPACE, seed=1))
    study.optimize(lambda trial: score(suggest(SPACE, trial)), n_trials=6)
    assert [SPACE.problem(trial.params) for trial in study.trials] == [None] * 6


@pytest.mark.parametrize("name", NAMES)
def test_a_proposer_is_a_function_of_the_runs(name: str) -> None:
    runs: list[Run] = [*some_runs(12), ({"agent": "ppo", "rate": 0.1, "clip": 0.4}, None)]
    pending = [{"agent": "dqn", "rate": 0.01, "levels": 4}]
    asked = [OptunaProposer(name, SPACE, seed=3).propose(runs, pending) for _ in range(2)]
    assert asked[0] == asked[1]
    assert SPACE.problem(asked[0]) is None
    again = OptunaProposer(name, SPACE, seed=3).propose([*runs, (asked[0], 0.0)], pending)
    assert identity(again) != identity(asked[0])
    assert all(
        SPACE.problem(OptunaProposer(name, SPACE, 3).propose(some_runs(n))) is None for n in (0, 1)
    )


def test_cma_es_closes_in_over_generations_that_are_only_records() -> None:
    space = make_space({f"x{i}": {"low": 0.0, "high": 1.0} for i in range(3)})
    proposer = OptunaProposer("cmaes", space, seed=0)
    runs: list[Run] = []
    for _ in range(60):
        params = proposer.propose(runs)
        runs.append((params, -sum((x - 0.8) ** 2 for x in params.values())))
    first, last = (np.mean([score for _, score in part]) for part in (runs[:15], runs[-15:]))
    assert last > 0.4 * first  # both are negative


def test_an_unknown_sampler_is_named_with_a_guess() -> None:
    with pytest.raises(KeyError, match="did you mean 'gp-ucb'"):
        make_sampler("gpucb", SPACE)
    with pytest.raises(KeyError, match="unknown sampler"):
        OptunaProposer("nuts", SPACE)


def test_cma_es_says_which_package_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match="pip install cmaes"):
        make_sampler("cmaes", SPACE)


def test_equal_params_are_replicates() -> None:
    runs: list[Run] = [
        ({"x": 0.5}, 1.0),
        ({"x": 0.2}, None),
        ({"x": 0.5}, 3.0),
        ({"x": 0.5}, math.nan),
    ]
    first, second = gather(runs)
    assert (first.scores, first.failures) == ((1.0, 3.0), 1)
    assert (second.scores, second.failures) == ((), 1)


def test_trials_become_runs_by_how_they_ended() -> None:
    trials = [
        a_trial({"x": 0.1}, value=5.0),
        a_trial({"x": 0.2}, value=math.inf),
        a_trial({"x": 0.3}, state=TrialState.FAIL),
        a_trial({"x": 0.4}, state=TrialState.PRUNED, intermediate_values={1: 9.0, 3: 7.0}),
        a_trial({"x": 0.5}, state=TrialState.PRUNED),
        a_trial({"x": 0.6}, state=TrialState.RUNNING),
    ]
    runs = observed(trials, LINE, StudyDirection.MINIMIZE)
    assert [(params["x"], found) for params, found in runs] == [
        (0.1, -5.0),
        (0.2, None),
        (0.3, None),
        (0.4, -7.0),
        (0.5, None),
    ]


def test_a_pruned_trial_counts_at_the_step_it_reached() -> None:
    space = make_space({"timesteps": {"low": 100, "high": 1000}, "x": {"low": 0.0, "high": 1.0}})

    def pruned(step: int) -> optuna.trial.FrozenTrial:
        params = {"timesteps": 800, "x": 0.5}
        return a_trial(params, space, state=TrialState.PRUNED, intermediate_values={step: 2.0})

    trials = [pruned(300), pruned(20), pruned(900)]
    runs = observed(trials, space, StudyDirection.MAXIMIZE, budget="timesteps")
    assert [params["timesteps"] for params, _ in runs] == [300, 100, 800]
    assert {found for _, found in runs} == {2.0}


def test_an_unknown_budget_is_refused() -> None:
    with pytest.raises(KeyError, match="unknown parameter 'timestep'"):
        GPUCBSampler(SPACE, budget="timestep")
    with pytest.raises(ValueError, match="agent is a choice"):
        GPUCBSampler(SPACE, budget="agent")


def test_trials_outside_the_space_are_left_out() -> None:
    wide = make_space({"x": {"low": 0.0, "high": 9.0}})
    runs = observed([a_trial({"x": 5.0}, wide, value=1.0)], LINE, StudyDirection.MAXIMIZE)
    assert runs == []


@pytest.mark.parametrize("direction", ["minimize", "maximize"])
def test_gp_ucb_finds_the_top_in_either_direction(direction: str) -> None:
    sign = 1.0 if direction == "minimize" else -1.0
    study = optuna.create_study(direction=direction, sampler=GPUCBSampler(seed=0))
    study.optimize(lambda trial: sign * (trial.suggest_float("x", 0, 1) - 0.73) ** 2, n_trials=15)
    assert abs(study.best_params["x"] - 0.73) < 0.02


def test_without_a_space_what_trials_share_is_modelled_and_the_rest_is_drawn() -> None:
    def objective(trial: optuna.Trial) -> float:
        x = trial.suggest_float("x", 0, 1)
        agent = trial.suggest_categorical("agent", ["a", "b"])
        extra = trial.suggest_int("extra", 1, 3) if agent == "a" else 0
        return -((x - 0.3) ** 2) + 0.01 * extra

    sampler = GPUCBSampler(seed=0)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    study.optimize(objective, n_trials=12)
    inferred = sampler.infer_relative_search_space(study, study.trials[-1])
    assert set(inferred) == {"x", "agent"}
    assert study.best_trial.number > 0


def test_the_same_study_goes_on_the_same_way() -> None:
    def next_params() -> Params:
        study = optuna.create_study(direction="maximize", sampler=GPUCBSampler(SPACE, seed=5))
        for params, found in some_runs(8):
            study.add_trial(a_trial(params, SPACE, value=found))
        return suggest(SPACE, study.ask())

    assert next_params() == next_params()


def test_running_trials_are_not_proposed_again_even_before_they_have_told_their_params() -> None:
    study = optuna.create_study(direction="maximize", sampler=GPUCBSampler(SPACE, seed=0))
    for params, found in some_runs(8):
        study.add_trial(a_trial(params, SPACE, value=found))
    beside = [study.ask() for _ in range(4)]
    asked = [identity(trial.relative_params) for trial in beside]  # none was asked for a value
    assert len(set(asked)) == 4


def test_several_objectives_are_refused() -> None:
    study = optuna.create_study(directions=["minimize"] * 2, sampler=GPUCBSampler(LINE))
    with pytest.raises(ValueError, match="one objective"):
        suggest(LINE, study.ask())


def test_a_grid_has_every_combination_once() -> None:
    grid = Grid(SPACE)
    assert len(grid) == 5 * 5 + 5 * 5  # rates x clips, rates x levels
    walked = [grid.walk(step, seed=4) for step in range(len(grid))]
    assert len({identity(params) for params in walked}) == 50
    assert [SPACE.problem(params) for params in walked] == [None] * 50
    assert grid.walk(50, seed=4) == walked[0]
    with pytest.raises(IndexError):
        grid[50]
    with pytest.raises(ValueError, match="needs the search space"):
        make_sampler("grid")


def test_quiet_puts_the_level_back(capsys: pytest.CaptureFixture[str]) -> None:
    optuna.logging.set_verbosity(optuna.logging.INFO)
    with quiet():
        optuna.create_study()
    assert optuna.logging.get_verbosity() == optuna.logging.INFO
    assert capsys.readouterr().err == ""
