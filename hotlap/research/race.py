"""The race: who leads, who runs again, and who takes the title.

    run        one configuration with one seed
    entrant    a configuration and all its runs; the first of them nominated it, and luck had a hand
               in that, so the title is judged on the others alone (`raced`)
    leader     the entrant with the best expected score under the surrogate; never the luckiest run
    champion   the holder of the title
    error      standard deviation of a mean score
    freedom    degrees of freedom behind an error, as in Student's t

All of it is a function of the runs: asked again, it answers the same.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import t as student

from hotlap.config.study import RaceConfig
from hotlap.research.acquisition import probability_better
from hotlap.research.gp import Surrogate
from hotlap.research.proposer import Seen
from hotlap.research.space import Params, SearchSpace, identity

PRIOR_FREEDOM = 3.0
"""Runs' worth of belief that one configuration's seeds scatter as those of all others do."""
LEAST_SHARED = 3
"""Seeds that two configurations must share to be compared seed by seed."""
CLEARER = 0.7
"""Share of the usual error below which such a comparison is believed instead."""
PLAUSIBLE = 0.2
"""Probability of being better than the leader from which somebody may as well be confirmed."""
WAY = ((1, 2), (3, 1), (3, 2))
"""On the way: (runs, places) until which the best so many by expected score run again."""


class RunSeen(NamedTuple):
    """A finished run."""

    trial: int
    params: Params
    seed: int
    role: str
    score: float | None
    """None where it gave none: it crashed, hung, or took too long."""
    seconds: float | None = None
    cut_at: int | None = None
    """Steps after which a pruner ended it; None where it ran to its end."""


@dataclass(frozen=True)
class Entrant:
    """A configuration and its runs, in the order of their trials."""

    config: str
    params: Params
    runs: tuple[RunSeen, ...]

    @property
    def scores(self) -> tuple[float, ...]:
        """Scores of all its runs."""
        return tuple(run.score for run in self.runs if run.score is not None)

    @property
    def fresh(self) -> tuple[RunSeen, ...]:
        """All runs after the first that scored, which nominated it."""
        scored = [place for place, run in enumerate(self.runs) if run.score is not None]
        return self.runs[scored[0] + 1 :] if scored else ()

    def raced(self, worst: float) -> tuple[float, ...]:
        """Scores of its fresh runs; one that failed counts as `worst`."""
        return tuple(worst if run.score is None else run.score for run in self.fresh)


@dataclass(frozen=True)
class Estimate:
    """A mean score, and how well it is known."""

    mean: float
    error: float
    freedom: float
    runs: int

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Where the mean lies, with this probability."""
        half = float(student.ppf(0.5 + level / 2, self.freedom)) * self.error
        return self.mean - half, self.mean + half


def gather(runs: Iterable[RunSeen]) -> dict[str, Entrant]:
    """The entrants, by the names of their configurations."""
    found: dict[str, list[RunSeen]] = {}
    for run in sorted(runs, key=lambda run: run.trial):
        found.setdefault(identity(run.params), []).append(run)
    return {name: Entrant(name, its[0].params, tuple(its)) for name, its in found.items()}


def to_seen(entrants: Mapping[str, Entrant]) -> list[Seen]:
    """What the surrogate is told."""
    seen = []
    for entrant in entrants.values():
        times = [run.seconds for run in entrant.runs if run.seconds is not None]
        failures = len(entrant.runs) - len(entrant.scores)
        mean_time = float(np.mean(times)) if times else None
        seen.append(Seen(entrant.params, entrant.scores, failures, mean_time))
    return seen


def seed_variance(entrants: Mapping[str, Entrant], otherwise: float) -> float:
    """Variance of one configuration's runs, pooled over all that ran more than once."""
    squares, freedom = 0.0, 0
    for entrant in entrants.values():
        if len(entrant.scores) > 1:
            squares += float(np.sum((np.array(entrant.scores) - np.mean(entrant.scores)) ** 2))
            freedom += len(entrant.scores) - 1
    # A few replicates alone say little: the surrogate's own estimate counts as some more.
    return (squares + PRIOR_FREEDOM * otherwise) / (freedom + PRIOR_FREEDOM)


def estimate(scores: Sequence[float], variance: float) -> Estimate:
    """The mean behind some scores, whose own scatter is believed in as far as there are many."""
    count = len(scores)
    if not count:
        raise ValueError("an estimate needs at least one score")
    squares = float(np.sum((np.array(scores) - np.mean(scores)) ** 2))
    freedom = PRIOR_FREEDOM + count - 1
    own = (PRIOR_FREEDOM * variance + squares) / freedom
    return Estimate(float(np.mean(scores)), math.sqrt(own / count), freedom, count)


def probability_on_shared_seeds(
    better: Entrant, than: Entrant, worst: float, variance: float
) -> tuple[float, float] | None:
    """P(one mean exceeds another) by the seeds that both ran fresh, and the difference's error.

    A seed may be easy or hard for all; its luck falls out of the differences. None where they
    share fewer than three.
    """
    scores = [
        {run.seed: worst if run.score is None else run.score for run in entrant.fresh}
        for entrant in (better, than)
    ]
    shared = [seed for seed in scores[0] if seed in scores[1]]
    if len(shared) < LEAST_SHARED:
        return None
    apart = estimate([scores[0][seed] - scores[1][seed] for seed in shared], 2 * variance)
    if apart.error == 0:
        return 0.5 if apart.mean == 0 else float(apart.mean > 0), 0.0
    return float(student.cdf(apart.mean / apart.error, apart.freedom)), apart.error


def probability_of(better: Estimate, than: Estimate) -> float:
    """P(one mean exceeds another), both known only so well."""
    error = math.hypot(better.error, than.error)
    if error == 0:
        return 0.5 if better.mean == than.mean else float(better.mean > than.mean)
    # Welch's degrees of freedom.
    freedom = error**4 / (better.error**4 / better.freedom + than.error**4 / than.freedom)
    return float(student.cdf((better.mean - than.mean) / error, freedom))


@dataclass(frozen=True)
class Standings:
    """Entrants that have a score, best expected score first."""

    entrants: dict[str, Entrant]
    ranked: tuple[str, ...]
    expected: dict[str, float]
    """Expected score of each."""
    challenge: dict[str, float]
    """Probability of each to be better than the leader."""
    variance: float
    """Of runs of one configuration."""
    worst: float
    """Lowest score of all."""

    @property
    def leader(self) -> Entrant | None:
        """The first."""
        return self.entrants[self.ranked[0]] if self.ranked else None

    def confirmed(self, runs: int) -> Entrant | None:
        """The best by expected score of those with so many fresh runs."""
        enough = (self.entrants[name] for name in self.ranked)
        return next((entrant for entrant in enough if len(entrant.fresh) >= runs), None)

    def estimate(self, config: str) -> Estimate | None:
        """What the runs after its nomination say; None before there is one."""
        scores = self.entrants[config].raced(self.worst)
        return estimate(scores, self.variance) if scores else None

    def claim(self, config: str) -> Estimate | None:
        """What may be claimed of a configuration; None before it has a fresh run.

        Its own runs had a part in its being chosen, so that their mean promises too much. The
        expected score, which all runs near it have drawn to where they are, promises less; how
        well it is known is still said by its own runs alone.
        """
        own = self.estimate(config)
        return None if own is None else replace(own, mean=self.expected[config])


def rank(space: SearchSpace, runs: Sequence[RunSeen], surrogate: Surrogate | None) -> Standings:
    """Who stands where. Without a surrogate that can be trusted, by means drawn to the average."""
    entrants = gather(runs)
    scored = [entrant for entrant in entrants.values() if entrant.scores]
    if not scored:
        return Standings(entrants, (), {}, {}, 0.0, 0.0)
    worst = min(min(entrant.scores) for entrant in scored)
    noise = surrogate.noise if surrogate is not None else _spread(scored)
    variance = seed_variance(entrants, noise**2)
    points = np.stack([space.encode(entrant.params) for entrant in scored])
    if surrogate is not None and surrogate.check.good:
        mean, covariance = surrogate.joint(points)
    else:
        mean, covariance = _shrunk(scored, variance)
        # A run that failed is a score too, as it is for the surrogate: one seed in four that
        # crashes is no champion.
        failed = np.array([1 - len(e.scores) / len(e.runs) for e in scored])
        mean = mean - failed * np.maximum(mean - worst, 0)
    order = np.argsort(-mean, kind="stable")
    names = [scored[i].config for i in order]
    first = int(order[0])
    return Standings(
        entrants,
        tuple(names),
        {scored[i].config: float(mean[i]) for i in order},
        {scored[i].config: probability_better(mean, covariance, int(i), first) for i in order},
        variance,
        worst,
    )


def closing_rungs(count: int) -> tuple[tuple[int, int], ...]:
    """The ladder of a last race of so many runs: many once, half of them thrice, two to the end.

    Eighteen runs are six configurations once, three of them three times and two of them six.
    """
    return (
        (1, max(1, count // 3)),
        (3, max(1, count // 6)),
        *((runs, max(1, min(2, count // 9))) for runs in range(4, 100)),
    )


def next_again(
    standings: Standings,
    config: RaceConfig,
    rungs: Sequence[tuple[int, int]],
    running: Mapping[str, int],
    champion: str | None,
    most: int,
) -> str | None:
    """The configuration to run again now; None where none is worth it.

    Args:
        standings: Who stands where.
        config: The race's settings.
        rungs: Until which number of runs how many of the best run again, one rung after another.
        running: How many runs of each configuration are under way.
        champion: Holder of the title.
        most: Runs that a configuration can have at all.
    """
    for runs, places in rungs:
        for name in standings.ranked[:places]:
            if name not in (standings.ranked[0], champion) and (
                standings.challenge[name] < config.hopeless
            ):
                continue
            made = len(standings.entrants[name].fresh) + running.get(name, 0)
            if made < runs and made + 1 < most:
                return name
    return None


def nearest_to_title(
    standings: Standings, config: RaceConfig, running: Mapping[str, int]
) -> str | None:
    """Who needs fewest runs to take a free title, of those that may well be best."""
    plausible = [
        name
        for place, name in enumerate(standings.ranked)
        if place == 0 or standings.challenge[name] >= PLAUSIBLE
    ]
    made = {n: len(standings.entrants[n].fresh) + running.get(n, 0) for n in plausible}
    short = [name for name in plausible if made[name] < config.runs]
    return max(short, key=lambda name: made[name], default=None)


@dataclass(frozen=True)
class Title:
    """What was decided about the title, and why."""

    verdict: str
    """promoted or refused."""
    config: str
    params: Params
    reason: str
    estimate: Estimate
    champion: str | None = None
    """Who held it before."""
    probability: float | None = None
    """Of being better than that one."""

    def to_table(self) -> dict[str, Any]:
        """As JSON holds it."""
        low, high = self.estimate.interval()
        return {
            "verdict": self.verdict,
            "config": self.config,
            "params": self.params,
            "reason": self.reason,
            "mean": self.estimate.mean,
            "low": low,
            "high": high,
            "runs": self.estimate.runs,
            "before": self.champion,
            "probability": self.probability,
        }


def judge_title(standings: Standings, champion: str | None, config: RaceConfig) -> Title | None:
    """Whether the title changes hands; None where there is nothing to decide."""
    if champion is None:
        return _sure_title(standings, config)
    leader = standings.leader
    if leader is None or leader.config == champion:
        return None
    own = standings.estimate(leader.config)
    if own is None or own.runs < config.runs:
        return None
    other = standings.estimate(champion)
    assert other is not None, "a champion has raced"
    probability = probability_of(own, other)
    paired = probability_on_shared_seeds(
        leader, standings.entrants[champion], standings.worst, standings.variance
    )
    if paired is not None and paired[1] < CLEARER * math.hypot(own.error, other.error):
        probability = paired[0]
    beats = probability >= config.probability and own.mean > other.mean
    reason = (
        f"{own.mean:.4g} over {own.runs} fresh seeds against the champion's {other.mean:.4g} over "
        f"{other.runs}: better with probability {probability:.2f}, {config.probability:g} is needed"
    )
    verdict = "promoted" if beats else "refused"
    return Title(verdict, leader.config, leader.params, reason, own, champion, probability)


def _sure_title(standings: Standings, config: RaceConfig) -> Title | None:
    """On the way a free title goes to nobody but a leader who is better than all others for sure.

    Whoever has it is hard to beat, so an early one must not be given to the first who comes.
    """
    leader = standings.leader
    own = None if leader is None else standings.estimate(leader.config)
    if leader is None or own is None or own.runs < config.runs:
        return None
    rivals = [standings.challenge[name] for name in standings.ranked[1:]]
    probability = 1 - max(rivals, default=1.0)
    if probability < config.probability:
        return None
    reason = (
        f"better than each other one with probability {probability:.2f}, and {own.runs} runs on "
        f"fresh seeds say {own.mean:.4g}; the title was free"
    )
    return Title("promoted", leader.config, leader.params, reason, own, None, probability)


def crown(standings: Standings, config: RaceConfig, heir: str | None = None) -> Title | None:
    """At the end a free title goes to the best of those that have raced enough, if it may lead.

    Its heir, whom the last runs were of, has it before all others unless these made it hopeless:
    to choose once more by them would be to choose by luck.
    """
    order = sorted(enumerate(standings.ranked), key=lambda each: each[1] != heir)
    for place, name in order:
        if standings.challenge[name] < config.hopeless and place > 0:
            if name == heir:
                continue
            return None
        own = standings.estimate(name)
        if own is not None and own.runs >= config.runs:
            where = "leads" if place == 0 else f"stands at place {place + 1} of those that may lead"
            reason = f"{where}, and {own.runs} runs on fresh seeds say {own.mean:.4g}"
            params = standings.entrants[name].params
            return Title("promoted", name, params, f"{reason}; the title was free", own)
    return None


def _shrunk(scored: Sequence[Entrant], variance: float) -> tuple[Any, Any]:
    """Means drawn to the average of all, as far as luck can have made them; and their variance."""
    means = np.array([np.mean(entrant.scores) for entrant in scored])
    errors = variance / np.array([len(entrant.scores) for entrant in scored])
    between = 1.0
    if len(means) > 1:
        scatter = float(np.var(means))
        between = max(scatter - float(errors.mean()), 1e-9 * scatter, 1e-300)
    weight = between / (between + errors)
    return means.mean() + weight * (means - means.mean()), np.diag(weight * errors)


def _spread(scored: Sequence[Entrant]) -> float:
    """A first guess of the seeds' noise: what all the scores scatter, if nothing else is known."""
    return float(np.std([np.mean(entrant.scores) for entrant in scored]))
