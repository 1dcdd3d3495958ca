"""Whole studies on a recorded landscape: who chooses well, and does the claim hold?

A strategy spends a study's runs on a landscape and claims a configuration, in one or more ways:

    observed   the highest single score, Optuna's `best_trial`, claimed to be worth just that
    posterior  the best expected score under our surrogate, over the same runs
    race       the champion of a whole study, and what it claims from runs on fresh seeds

Everybody may ask only for configurations of the table. gp-ucb and Optuna's GPSampler maximise
their acquisition over those that have seeds left. TPE and random search propose freely, and the
nearest configuration with a seed left is taken, which is a handicap for TPE; it is told which
configuration was really tried.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import optuna
from numpy.typing import NDArray
from optuna.trial import TrialState

from hotlap.config.naming import nearest
from hotlap.config.study import SeedLists, StopConfig, StudyConfig
from hotlap.research.landscape import Landscape, Replay
from hotlap.research.optimiser import optimise
from hotlap.research.proposer import fit_surrogate, propose
from hotlap.research.samplers import Run, gather, make_sampler, middle_of, quiet, suggest
from hotlap.research.space import Params, identity


@dataclass(frozen=True)
class Claim:
    """The configuration that a study ends with, and what it says of it."""

    config: int
    """Its number in the landscape."""
    score: float
    """Mean score that is claimed for it."""
    interval: tuple[float, float] | None = None
    """Where that mean is claimed to lie, for those who say so."""


Strategy = Callable[[Replay, int, int], dict[str, Claim]]
"""Takes a fresh replay, the number of runs and a seed; returns a claim for each way of choosing."""


def replay(landscape: Landscape, strategy: str, budget: int, seed: int) -> dict[str, Any]:
    """One study; for each way of choosing, what was claimed and what unseen seeds say."""
    if strategy not in STRATEGIES:
        raise KeyError(nearest(strategy, STRATEGIES, "strategy"))
    study = Replay(landscape, seed)
    with quiet():
        claims = STRATEGIES[strategy](study, budget, seed)
    return {how: _judged(study, claim) for how, claim in claims.items()}


def _judged(study: Replay, claim: Claim) -> dict[str, Any]:
    row: dict[str, Any] = {
        "config": claim.config,
        "claimed": claim.score,
        "quality": study.quality(claim.config),
        "optimism": study.optimism(claim.config, claim.score),
        "runs": len(study.runs),
    }
    if claim.interval is not None:
        low, high = claim.interval
        row |= {"low": low, "high": high}
        row["covered"] = low <= study.judged(claim.config) <= high
        row["covered_by_all"] = low <= study.mean(claim.config) <= high
    return row


def runs_of(study: Replay) -> list[Run]:
    """What a study has seen, as params and scores."""
    return [(study.landscape.configs[config], score) for config, score in study.runs]


def nearest_open(study: Replay, params: Params) -> int:
    """The configuration with a seed left that is nearest to these params.

    A choice that differs is as far as a number from one end of its range to the other.
    """
    space, open_ones = study.landscape.space, study.open
    choices = np.array([dimension.is_choice for dimension in space])
    apart = np.abs(study.landscape.points[open_ones] - space.encode(params))
    apart[:, choices] = apart[:, choices] > 0.5
    return int(open_ones[int(np.argmin((apart**2).sum(axis=1)))])


def claims(study: Replay) -> dict[str, Claim]:
    """The two plain ways of choosing, from what the study has seen."""
    scored = [(config, score) for config, score in study.runs if score is not None]
    lucky, highest = max(scored, key=lambda run: run[1])
    surrogate = fit_surrogate(study.landscape.space, gather(runs_of(study)))
    tried = np.array(sorted({config for config, _ in scored}))
    means, _ = surrogate.predict(study.landscape.points[tried])
    best = int(np.argmax(means))
    return {
        "observed": Claim(lucky, highest),
        "posterior": Claim(int(tried[best]), float(means[best])),
    }


def gp_ucb(study: Replay, budget: int, seed: int) -> dict[str, Claim]:
    """Our proposer, every run a proposal."""
    landscape = study.landscape
    for _ in range(budget):
        pool = landscape.points[study.open]
        seen = gather(runs_of(study))
        proposal = propose(landscape.space, seen, (), seed, None, pool)
        study.query(nearest_open(study, proposal.params))
    return claims(study)


def race(study: Replay, budget: int, seed: int) -> dict[str, Claim]:
    """A whole study of ours: proposals, races on fresh seeds, and a title."""
    landscape, seeds = study.landscape, study.tuning
    numbers = {identity(params): number for number, params in enumerate(landscape.configs)}

    def objective(params: Params, seed: int) -> float:
        score = study.query(numbers[identity(params)], seed)
        return math.nan if score is None else score

    config = StudyConfig(
        trials=budget,
        seed=seed,
        test_runs=0,
        stop=StopConfig(converge=False),
        seeds=SeedLists(seeds, seeds, ()),
    )
    result = optimise(objective, landscape.space, config, pool=landscape.points)
    found = claims(study)
    if result.champion is None or result.claimed is None:
        # Without a title there is no claim: an interval that covers nothing.
        best = found["posterior"]
        nothing = Claim(best.config, best.score, (best.score, best.score))
        return {"race": nothing, "observed": found["observed"]}
    champion = numbers[identity(result.champion)]
    claim = Claim(champion, result.claimed, result.interval)
    return {"race": claim, "observed": found["observed"]}


def random_search(study: Replay, budget: int, seed: int) -> dict[str, Claim]:
    """Configurations of the table at random, none twice while there are others."""
    order = np.random.default_rng([seed, 2]).permutation(len(study.landscape.configs))
    for step in range(budget):
        study.query(int(order[step % len(order)]))
    return claims(study)


def optuna_gp(study: Replay, budget: int, seed: int) -> dict[str, Claim]:
    """Optuna's GPSampler, its acquisition maximised over the table."""
    _with_optuna(study, budget, _pool_sampler(study, seed), flat=True)
    return claims(study)


def optuna_tpe(study: Replay, budget: int, seed: int) -> dict[str, Claim]:
    """Optuna's TPE, its proposals moved to the nearest configuration of the table."""
    _with_optuna(study, budget, make_sampler("tpe", study.landscape.space, seed), flat=False)
    return claims(study)


STRATEGIES: dict[str, Strategy] = {
    "race": race,
    "gp-ucb": gp_ucb,
    "gp": optuna_gp,
    "tpe": optuna_tpe,
    "random": random_search,
}


def _with_optuna(
    study: Replay, budget: int, sampler: optuna.samplers.BaseSampler, flat: bool
) -> None:
    """Ask a sampler, try the configuration it gets, and tell which one that was."""
    space = study.landscape.space
    told = optuna.create_study(direction="maximize", sampler=sampler)
    for _ in range(budget):
        asked = told.ask()
        params = suggest(space, asked, flat)
        # Where the sampler has chosen from the table itself, this finds that very configuration.
        config = nearest_open(study, params)
        score = study.query(config)
        told.tell(asked, state=TrialState.FAIL)
        tried = study.landscape.configs[config]
        tried = middle_of(space) | tried if flat else tried
        told.add_trial(
            optuna.create_trial(
                state=TrialState.FAIL if score is None else TrialState.COMPLETE,
                params=tried,
                distributions={name: space[name].distribution for name in tried},
                value=score,
            )
        )


def _pool_sampler(study: Replay, seed: int) -> optuna.samplers.GPSampler:
    """GPSampler that looks at the configurations with seeds left, and at nothing else."""
    if not optuna.__version__.startswith("5.0.") or not hasattr(
        optuna.samplers.GPSampler, "_optimize_acqf"
    ):
        raise RuntimeError(
            f"GPSampler is held to a table through parts of Optuna 5.0 that others may not have, "
            f"and this is {optuna.__version__}: pip install 'optuna==5.0.*', or leave out gp"
        )
    landscape = study.landscape
    configs = [middle_of(landscape.space) | params for params in landscape.configs]

    class PoolGPSampler(optuna.samplers.GPSampler):
        def _optimize_acqf(self, acqf: Any, best_params: Any) -> NDArray[np.float64]:
            pool: list[Any] = [configs[i] for i in study.open]
            normalized = acqf.search_space.get_normalized_params(pool, pool)
            return np.asarray(normalized[int(np.argmax(acqf.eval_acqf_no_grad(normalized)))])

    return PoolGPSampler(seed=seed, warn_independent_sampling=False)
