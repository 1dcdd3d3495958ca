"""One proposer on one problem: how far from the best is what it recommends?

Two recommendations are made from the same evaluations:

    observed   the configuration with the highest score that was seen, Optuna's `best_trial`
    posterior  the one with the best expected score under our surrogate

The second is given to Optuna's samplers too, though they come without it, so that a difference is
due to the evaluations they chose and not to how the winner was picked.
"""

import time
from collections.abc import Generator, Sequence
from typing import Any

import numpy as np
import optuna

from hotlap.research.problems import Problem
from hotlap.research.proposer import ProposerSettings, propose, recommend
from hotlap.research.samplers import OptunaProposer, Run, gather, make_sampler, quiet, suggest
from hotlap.research.space import Params, SearchSpace

RECOMMENDATIONS = ("observed", "posterior")


def compete(
    problem: Problem, sampler: str, budget: int, seed: int, settings: ProposerSettings | None = None
) -> dict[str, Any]:
    """Let a sampler spend its evaluations; regrets halfway and at the end, and the seconds.

    Args:
        problem: What is to be maximised.
        sampler: Who proposes. `gp-flat` is Optuna's GPSampler asked for every dimension, whether
            it counts or not; by itself, it draws at random what does not always count.
        budget: Evaluations.
        seed: Decides the noise and every choice; noise is the same for all samplers.
        settings: For gp-ucb.
    """
    noise = np.random.default_rng([seed, 1])
    runs: list[Run] = []
    checkpoints = sorted({max(budget // 2, 1), budget})
    regrets: dict[str, list[float]] = {name: [] for name in RECOMMENDATIONS}
    began = time.perf_counter()
    with quiet():
        proposals = _proposals(problem.space, sampler, seed, runs, settings)
        params = next(proposals)
        while True:
            score = problem.evaluate(params, noise)
            runs.append((params, score))
            if len(runs) in checkpoints:
                for name in RECOMMENDATIONS:
                    regrets[name].append(problem.regret(recommended(problem.space, runs, name)))
            if len(runs) == budget:
                break
            params = proposals.send(score)
    seconds = round(time.perf_counter() - began, 2)
    return {"checkpoints": checkpoints, "seconds": seconds, **regrets}


def recommended(space: SearchSpace, runs: Sequence[Run], how: str) -> Params:
    """The params to keep after these runs."""
    if how == "posterior":
        return recommend(space, gather(runs))
    return max(((p, s) for p, s in runs if s is not None), key=lambda run: run[1])[0]


def _proposals(
    space: SearchSpace,
    sampler: str,
    seed: int,
    runs: Sequence[Run],
    settings: ProposerSettings | None,
) -> Generator[Params, float, None]:
    """Params, one after another; takes the score of each, which `runs` has then too."""
    if sampler == "gp-ucb":
        while True:
            yield propose(space, gather(runs), (), seed, settings).params
    if sampler == "gp-flat":
        proposer = OptunaProposer("gp", space, seed)
        while True:
            yield proposer.propose(runs)
    # One study and one sampler throughout, as Optuna's users have it.
    study = optuna.create_study(direction="maximize", sampler=make_sampler(sampler, space, seed))
    while True:
        trial = study.ask()
        score = yield suggest(space, trial)
        study.tell(trial, score)
