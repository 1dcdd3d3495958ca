"""Which configuration to try next, from everything that was tried.

A proposal is a function of what was seen, what is running and the study's seed, and of nothing
else: asked again, it is the same, to the bit, so a study that was killed goes on as it would have.
The first proposals fill the space; later ones have the largest upper confidence bound (UCB) under
a Gaussian process, and every `exploit_every`-th the largest expected improvement.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotlap.research.acquisition import (
    Belief,
    Rule,
    geometry_of,
    log_improvement,
    maximise,
    neighbours,
    quasi_random,
    upper_bound,
)
from hotlap.research.gp import Array, Observations, Surrogate, fit
from hotlap.research.space import Params, SearchSpace, identity


@dataclass(frozen=True)
class Seen:
    """One configuration and what came of it."""

    params: Params
    scores: tuple[float, ...] = ()
    """Scores of its runs, all finite."""
    failures: int = 0
    """Runs that gave no score: crashed, out of time, not a number."""
    seconds: float | None = None
    """Mean time a run took; None where it is not known."""

    def __post_init__(self) -> None:
        """Refuse what is no score."""
        if not all(math.isfinite(score) for score in self.scores):
            raise ValueError(
                f"scores must be finite, got {self.scores}; count a run without one in `failures`"
            )
        if self.failures < 0:
            raise ValueError(f"failures must be at least 0, got {self.failures}")


@dataclass(frozen=True)
class ProposerSettings:
    """How proposals are made."""

    explore: float = 2.0
    """Standard deviations of hope in UCB = mean + explore x sd; 0 trusts the means."""
    initial: int = 8
    """Configurations that fill the space before the surrogate has a say; at least 2."""
    pattern: str = "eues"
    few: int = 24
    fill_when_lost: bool = True
    repeat: bool = True
    """Whether a configuration that ran may run again where runs of one differ."""
    cost_aware: bool = False
    """Whether hope is weighed against the seconds a trial is expected to take."""
    candidates: int = 512
    """Quasi-random points that are looked at before the best are climbed from."""
    starts: int = 8
    """Points that are climbed from."""

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        if not self.explore >= 0:
            raise ValueError(f"explore must be at least 0, got {self.explore}")
        if self.initial < 2:
            raise ValueError(f"initial must be at least 2, got {self.initial}")
        if self.candidates < 1:
            raise ValueError(f"candidates must be at least 1, got {self.candidates}")
        if self.starts < 1:
            raise ValueError(f"starts must be at least 1, got {self.starts}")


@dataclass(frozen=True)
class Candidate:
    """A configuration that was considered."""

    params: Params
    mean: float
    """Expected score."""
    std: float
    """Standard deviation of that, pending trials counted as learnt."""
    ucb: float

    def to_table(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {"params": self.params, "mean": self.mean, "std": self.std, "ucb": self.ucb}


@dataclass(frozen=True)
class Proposal:
    """The configuration to try next."""

    params: Params
    candidates: tuple[Candidate, ...]
    """Up to five that were best, the chosen one first; none where the space is being filled."""
    why: str
    """How it was chosen, in a sentence."""


def propose(
    space: SearchSpace,
    seen: Sequence[Seen],
    pending: Sequence[Mapping[str, Any]] = (),
    seed: int = 0,
    settings: ProposerSettings | None = None,
    pool: NDArray[np.float64] | None = None,
) -> Proposal:
    """The configuration to try next.

    Args:
        space: What may be chosen.
        seen: What was tried, in any order; the same configuration may stand in it twice.
        pending: Configurations that are running; none of them is proposed.
        seed: The study's; the same for all its proposals.
        settings: How to choose.
        pool: Points (m, d) to choose among, where not all of the space is to be had.
    """
    settings = settings or ProposerSettings()
    running = _encode_all(space, pending)
    observations = observe(space, seen)
    turn = sum(len(each.scores) + each.failures for each in seen) + len(pending)
    known = len(observations) + len({identity(params) for params in pending})
    if known < settings.initial or not len(observations):
        return _fill(space, observations, running, known, seed, pool)
    rng = np.random.default_rng([seed, turn])
    surrogate = fit(observations)
    belief = Belief.of(surrogate, running)
    scored = observations.points[observations.counts > 0]
    leader = float(surrogate.predict(scored)[0].max()) if len(scored) else 0.0
    rule, why = _rule(settings, turn, leader, surrogate)
    letter = settings.pattern[turn % len(settings.pattern)]
    if pool is None and (
        letter == "s" or (letter == "u" and settings.fill_when_lost and surrogate.check.error > 1.0)
    ):
        points = quasi_random(space, settings.few, int(rng.integers(2**31)))
        mean, sd = belief.predict(points)
        points = points[np.argsort(-rule(mean, sd)[0], kind="stable")]
        why += " scatter"
    elif pool is None:
        points, _ = _search(space, belief, rule, observations, settings, rng)
    else:
        mean, sd = belief.predict(pool)
        points = pool[np.argsort(-rule(mean, sd)[0], kind="stable")]
    barred = _barred(space, observations, pending, surrogate, settings)
    top, note = _first_free(space, points, barred, pending)
    return Proposal(top[0][0], _describe(space, belief, top, settings.explore), why + note)


def fit_surrogate(space: SearchSpace, seen: Sequence[Seen]) -> Surrogate:
    """What the runs so far say about every point of the space."""
    return fit(observe(space, seen))


def recommend(space: SearchSpace, seen: Sequence[Seen]) -> Params:
    """The configuration with the best expected score among those that have one.

    Where the surrogate foretells badly, the best mean of observed scores.
    """
    observations = observe(space, seen)
    scored = np.flatnonzero(observations.counts > 0)
    if not len(scored):
        raise ValueError("no configuration has a score yet, so none can be recommended")
    surrogate = fit(observations)
    values = observations.means[scored]
    if surrogate.check.good:
        values = surrogate.predict(observations.points[scored])[0]
    return space.decode(observations.points[scored[int(np.argmax(values))]])


def observe(space: SearchSpace, seen: Sequence[Seen]) -> Observations:
    """Everything seen, each configuration once."""
    merged: dict[str, tuple[Params, list[float], int]] = {}
    for each in seen:
        if not each.scores and not each.failures:
            continue
        name = identity(each.params)
        params, scores, failures = merged.get(name, (each.params, [], 0))
        merged[name] = (params, [*scores, *each.scores], failures + each.failures)
    rows = list(merged.values())
    means = np.array([np.mean(s) if s else np.nan for _, s, _ in rows])
    squares = sum(float(np.sum((np.array(s) - np.mean(s)) ** 2)) for _, s, _ in rows if s)
    return Observations(
        points=_encode_all(space, [params for params, _, _ in rows]),
        geometry=geometry_of(space),
        means=means,
        counts=np.array([float(len(s)) for _, s, _ in rows]),
        failures=np.array([float(f) for _, _, f in rows]),
        squares=squares,
        freedom=sum(max(len(s) - 1, 0) for _, s, _ in rows),
    )


def _encode_all(space: SearchSpace, many: Sequence[Mapping[str, Any]]) -> Array:
    if not many:
        return np.empty((0, len(space)))
    return np.stack([space.encode(params) for params in many])


def _fill(
    space: SearchSpace,
    observations: Observations,
    running: Array,
    place: int,
    seed: int,
    pool: NDArray[np.float64] | None,
) -> Proposal:
    """The next of a sequence that fills the space and that the seed alone decides."""
    taken = np.concatenate([observations.points, running])
    if pool is None:
        points = quasi_random(space, 64, seed)
        points = np.roll(points, -place, axis=0)
    else:
        points = pool[np.random.default_rng(seed).permutation(len(pool))]
    for point in points:
        if not len(taken) or np.abs(taken - point).max(axis=1).min() > 1e-9:
            break
    return Proposal(space.decode(point), (), f"fills the space, number {place + 1}")


def _rule(
    settings: ProposerSettings, turn: int, leader: float, surrogate: Surrogate
) -> tuple[Rule, str]:
    """What decides at this turn, and what to say of it."""
    if settings.pattern[turn % len(settings.pattern)] == "e" and settings.explore > 0:
        return log_improvement(leader), f"largest expected improvement over {leader:.4g}"
    return upper_bound(settings.explore), f"largest mean + {settings.explore:g} sd"


def _search(
    space: SearchSpace,
    belief: Belief,
    rule: Rule,
    observations: Observations,
    settings: ProposerSettings,
    rng: np.random.Generator,
) -> tuple[Array, Array]:
    """Points of the whole space, those worth most first."""
    mean, _ = belief.finished.predict(observations.points)
    best = observations.points[np.argsort(-mean, kind="stable")[:5]]
    candidates = np.concatenate(
        [
            neighbours(space, best, 40, rng),
            quasi_random(space, settings.candidates, int(rng.integers(2**31))),
            observations.points,
        ]
    )
    return maximise(space, belief, rule, candidates, settings.starts)


def _barred(
    space: SearchSpace,
    observations: Observations,
    pending: Sequence[Mapping[str, Any]],
    surrogate: Surrogate,
    settings: ProposerSettings,
) -> set[str]:
    """Configurations not to be proposed: what runs, and what cannot tell more by running again."""
    barred = {identity(params) for params in pending}
    if not settings.repeat or surrogate.hyperparameters.noise < 1e-3:
        barred |= {identity(space.decode(point)) for point in observations.points}
    return barred


def _first_free(
    space: SearchSpace, points: Array, barred: set[str], pending: Sequence[Mapping[str, Any]]
) -> tuple[list[tuple[Params, Array]], str]:
    """Up to five configurations that are not barred, in order; where all are, the best of them."""
    for refused, note in (
        (barred, ""),
        ({identity(p) for p in pending}, "; every configuration ran, so one runs again"),
        (set(), "; every configuration is running, so one runs twice"),
    ):
        found: dict[str, tuple[Params, Array]] = {}
        for point in points:
            params = space.decode(point)
            name = identity(params)
            if name not in refused and name not in found:
                found[name] = (params, space.encode(params))
            if len(found) == 5:
                break
        if found:
            return list(found.values()), note
    raise ValueError("there are no points to choose from")


def _describe(
    space: SearchSpace, belief: Belief, top: list[tuple[Params, Array]], explore: float
) -> tuple[Candidate, ...]:
    mean, sd = belief.predict(np.stack([point for _, point in top]))
    return tuple(
        Candidate(params, float(m), float(s), float(m + explore * s))
        for (params, _), m, s in zip(top, mean, sd, strict=True)
    )
