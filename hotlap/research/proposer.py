"""Which configuration to try next, from everything that was tried.

A proposal is a function of what was seen, what is running and the study's seed, and of nothing
else: asked again, it is the same, to the bit, so a study that was killed goes on as it would have.
The first proposals fill the space. After that, three ways take turns, for none of them alone was
best on every problem tried:

    bound     the largest upper confidence bound, UCB = mean + explore x sd
    improve   the largest expected improvement over the best expected score: works out details
    scatter   the largest UCB among a few random points: a look where the surrogate sees no reason
              to, which finds what it is wrong about (plateaus, branches hardly tried)
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from hotlap.config.naming import nearest
from hotlap.research.acquisition import (
    Belief,
    Rule,
    expected_improvement,
    geometry_of,
    log_improvement,
    maximise,
    neighbours,
    quasi_random,
    upper_bound,
)
from hotlap.research.gp import Observations, Surrogate, fit
from hotlap.research.kernel import Array
from hotlap.research.space import Params, SearchSpace, identity

Turn = Literal["bound", "improve", "scatter"]

OUTLIER = 3.0
NO_NOISE = 4e-3
"""Noise variance, beside outcomes of variance 1, below which a second run tells nothing new."""


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
    here: bool = True
    """Whether it ran in this study; what is known from elsewhere only may always be run."""

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
    turns: tuple[Turn, ...] = ("improve", "bound", "scatter")
    """What decides, one proposal after the other, over and over."""
    few: int = 8
    """Random points of which a scattered proposal is the best."""
    repeat: bool = True
    """Whether a configuration that ran may run again where runs of one differ."""
    cost_aware: bool = False
    """Whether hope is weighed against the seconds a trial is expected to take.

    A second surrogate, of the logarithm of the seconds, is asked how long a trial will take; what
    the score may rise above the best expected one, UCB or expected improvement, is divided by it.
    """
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
        for turn in self.turns:
            if turn not in get_args(Turn):
                raise ValueError(f"turns: {nearest(turn, get_args(Turn), 'turn')}")
        if not self.turns:
            raise ValueError("turns must name at least one of bound, improve, scatter")
        for name in ("few", "candidates", "starts"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")


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
    surrogate: Surrogate | None = None,
) -> Proposal:
    """The configuration to try next.

    Args:
        space: What may be chosen.
        seen: What was tried, in any order; the same configuration may stand in it twice.
        pending: Configurations that are running; none of them is proposed.
        seed: The study's; the same for all its proposals.
        settings: How to choose.
        pool: Points (m, d) to choose among, where not all of the space is to be had.
        surrogate: What `fit_surrogate` makes of the same `seen`, where it is there already.
    """
    settings = settings or ProposerSettings()
    running = _encode_all(space, pending)
    observations = observe(space, seen)
    known = len(observations) + len({identity(params) for params in pending})
    if known < settings.initial or not len(observations):
        filling = _fill(space, observations, running, known, seed, pool)
        if filling is not None:
            return filling
    if pool is None and settings.repeat and _is_noise_unknown(observations, running):
        return _again(space, observations)
    number = sum(len(each.scores) + each.failures for each in seen) + len(pending)
    rng = np.random.default_rng([seed, number])
    surrogate = surrogate or fit(observations)
    belief = Belief.of(surrogate, running)
    leader = _leader(surrogate, observations)
    turn = _turn(settings, number, surrogate)
    rule = log_improvement(leader) if turn == "improve" else upper_bound(settings.explore)
    points = _ranked(space, belief, rule, turn, settings, rng, pool)
    why = _reason(turn, leader, settings)
    if settings.cost_aware and (clock := fit_clock(space, seen)):
        few = settings.few if turn == "scatter" else len(points)
        first = _by_cost(points[:few], belief, turn, leader, settings.explore, clock)
        points = np.concatenate([first, points[few:]])
        why += ", per expected second"
    barred = _barred(space, seen, pending, surrogate, settings)
    top, note = _first_free(space, points, barred, pending)
    if not surrogate.check.good:
        note += f"; {surrogate.check.sentence}"
    return Proposal(top[0][0], _describe(belief, top, settings.explore), why + note)


def fit_surrogate(space: SearchSpace, seen: Sequence[Seen]) -> Surrogate:
    """What the runs so far say about every point of the space."""
    return fit(observe(space, seen))


def fit_clock(space: SearchSpace, seen: Sequence[Seen]) -> Surrogate | None:
    """The logarithm of the seconds a trial takes at every point; None where too few are known."""
    timed = [each for each in seen if each.seconds is not None and each.seconds > 0]
    if len(timed) < 3:
        return None
    return fit(observe(space, [Seen(t.params, (math.log(t.seconds or 1.0),)) for t in timed]))


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
    rows = _without_outliers(list(merged.values()))
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


def _without_outliers(
    rows: list[tuple[Params, list[float], int]],
) -> list[tuple[Params, list[float], int]]:
    """Rows in which no run of a configuration is absurdly far from its others.

    One among them that is further away than three times what the middle half of all scores spans
    would be taken for noise everywhere; it counts as if it were no further.
    """
    every = [score for _, scores, _ in rows for score in scores]
    if len(every) < 8:
        return rows
    reach = OUTLIER * float(np.subtract(*np.quantile(every, [0.75, 0.25])))
    if reach <= 0:
        return rows
    return [
        (params, [*np.clip(scores, np.median(scores) - reach, np.median(scores) + reach)], failures)
        if len(scores) > 2
        else (params, scores, failures)
        for params, scores, failures in rows
    ]


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
) -> Proposal | None:
    """The next of a sequence that fills the space and that the seed alone decides.

    None where nothing is left to fill it with and something has run already.
    """
    taken = np.concatenate([observations.points, running])
    if pool is None:
        points = quasi_random(space, 64, seed)
        points = np.roll(points, -place, axis=0)
    else:
        points = pool[np.random.default_rng(seed).permutation(len(pool))]
    for point in points:
        if not len(taken) or np.abs(taken - point).max(axis=1).min() > 1e-9:
            break
    else:
        if len(observations):
            return None
        point = points[0]
    return Proposal(space.decode(point), (), f"fills the space, number {place + 1}")


def _is_noise_unknown(observations: Observations, running: Array) -> bool:
    """Whether no configuration ran twice, nor is about to."""
    if observations.freedom or not (observations.counts > 0).any():
        return False
    return not any((observations.points == point).all(axis=1).any() for point in running)


def _again(space: SearchSpace, observations: Observations) -> Proposal:
    """The best configuration so far once more: no other single run tells as much of the noise."""
    best = int(np.nanargmax(observations.means))
    why = "the best so far once more, to tell noise from signal"
    return Proposal(space.decode(observations.points[best]), (), why)


def _leader(surrogate: Surrogate, observations: Observations) -> float:
    """The best expected score of a configuration that has one."""
    scored = observations.points[observations.counts > 0]
    return float(surrogate.predict(scored)[0].max()) if len(scored) else surrogate.scale.middle


def _turn(settings: ProposerSettings, number: int, surrogate: Surrogate) -> Turn:
    """What decides at this proposal."""
    turn = settings.turns[number % len(settings.turns)]
    if settings.explore == 0:
        return "bound"
    # A surrogate that foretells no better than the plain mean knows no bounds either: it would send
    # trial after trial into the corners.
    if turn == "bound" and surrogate.check.error > 1.0:
        return "scatter"
    return turn


def _reason(turn: Turn, leader: float, settings: ProposerSettings) -> str:
    if turn == "improve":
        return f"largest expected improvement over {leader:.4g}"
    bound = f"largest mean + {settings.explore:g} sd"
    return bound if turn == "bound" else f"{bound} of {settings.few} random points"


def _ranked(
    space: SearchSpace,
    belief: Belief,
    rule: Rule,
    turn: Turn,
    settings: ProposerSettings,
    rng: np.random.Generator,
    pool: NDArray[np.float64] | None,
) -> Array:
    """Points to choose from, those worth most first."""
    if pool is None and turn != "scatter":
        held = belief.finished.points
        best = np.argsort(-belief.finished.predict(held)[0], kind="stable")
        candidates = np.concatenate(
            [
                neighbours(space, held[best[:5]], 40, rng),
                quasi_random(space, settings.candidates, int(rng.integers(2**31))),
                held[best[:100]],
            ]
        )
        return maximise(space, belief, rule, candidates, settings.starts)[0]
    points = space.sample(rng, 4 * settings.few) if pool is None else rng.permutation(pool)
    mean, sd = belief.predict(points)
    worth = rule(mean, sd)[0]
    if turn == "scatter":
        # The few come first; the others only serve where all of the few are barred.
        rare = _in_rarest_branch(points, belief.expected)
        few = rare & (np.cumsum(rare) <= settings.few)
        worth[~few] -= np.ptp(worth) + 1.0
    return np.asarray(points[np.argsort(-worth, kind="stable")])


def _in_rarest_branch(points: Array, belief: Surrogate) -> NDArray[np.bool_]:
    """Which points (m,) lie in the branch of a condition that was tried least.

    What is known of one branch says next to nothing of another, so hope alone may never go back to
    one whose first trials were poor, however few they were.
    """
    branches = belief.geometry.branches
    if not branches.any():
        return np.ones(len(points), dtype=bool)
    kinds, which = np.unique(points[:, branches], axis=0, return_inverse=True)
    tried = (belief.points[:, None, branches] == kinds[None]).all(axis=2).sum(axis=0)
    return np.asarray(which.reshape(-1) == int(np.argmin(tried)))


def _by_cost(
    points: Array, belief: Belief, turn: Turn, leader: float, explore: float, clock: Surrogate
) -> Array:
    """The points again, those first that promise most per second."""
    mean, sd = belief.predict(points)
    if turn == "improve":
        hope = expected_improvement(mean, sd, leader)
    else:
        hope = np.maximum(mean + explore * sd - leader, 0.0)
    seconds = np.exp(clock.predict(points)[0])
    return np.asarray(points[np.argsort(-hope / seconds, kind="stable")])


def _barred(
    space: SearchSpace,
    seen: Sequence[Seen],
    pending: Sequence[Mapping[str, Any]],
    surrogate: Surrogate,
    settings: ProposerSettings,
) -> set[str]:
    """Configurations not to be proposed: what runs, and what cannot tell more by running again."""
    barred = {identity(params) for params in pending}
    if not settings.repeat or surrogate.hyperparameters.noise < NO_NOISE:
        ran = [each.params for each in seen if each.here and (each.scores or each.failures)]
        barred |= {identity(space.decode(space.encode(params))) for params in ran}
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
    belief: Belief, top: list[tuple[Params, Array]], explore: float
) -> tuple[Candidate, ...]:
    mean, sd = belief.predict(np.stack([point for _, point in top]))
    return tuple(
        Candidate(params, float(m), float(s), float(m + explore * s))
        for (params, _), m, s in zip(top, mean, sd, strict=True)
    )
