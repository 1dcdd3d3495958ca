"""A study: decides what runs next, takes in what came out, and knows when to stop.

    book     where everything is written down, in order (a ledger on disk, or a list in memory)
    plan     a run that was decided on; written down before it begins
    finish   what came of it

Every decision is a function of what stands in the book, of the seed and of nothing else: a study
whose process was killed is opened again and goes on to the same end. With several workers that
holds where `ordered` is set: trial t is then decided from the results of trials up to t - workers,
whichever of the others have ended by chance.

The book's records: `proposal` (a plan), `trial` (how it ended), `title` (promotion or refusal, and
why), `standing` (after every trial: who leads, and how sure that is), `closing` (no new proposals
from here on), `stop`, `reopened` (there is budget again), `certificate` (the best three on
untouched seeds).
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hotlap.config.study import StudyConfig
from hotlap.research.book import LARGEST, SCORED, Book, Finish, Plan
from hotlap.research.certificate import tested
from hotlap.research.convergence import assess
from hotlap.research.gp import Surrogate
from hotlap.research.kernel import Array
from hotlap.research.proposer import (
    Proposal,
    ProposerSettings,
    Seen,
    fit_surrogate,
    propose,
)
from hotlap.research.race import (
    WAY,
    Entrant,
    Estimate,
    RunSeen,
    Standings,
    Title,
    closing_rungs,
    crown,
    estimate,
    gather,
    judge_title,
    nearest_to_title,
    next_again,
    rank,
    to_seen,
)
from hotlap.research.samplers import OptunaProposer
from hotlap.research.space import Params, SearchSpace, identity
from hotlap.research.threads import one_thread

Basis = tuple[int, ...]
"""The runs that a figure was worked out from; it is worked out once, though asked for often."""

NOTHING_LEFT = "nothing is left to try"
REOPENED = ("budget", "target", "converged", "failing", NOTHING_LEFT)
"""Reasons to stop, up to their colon, that may not hold when the study is taken up again."""
AGAIN = ("replicate", "confirm", "seal")
"""Roles of runs that are made again."""
BEST = 3
"""Configurations that are tested at the end."""


class Study:
    """The controller, without the running itself.

    Args:
        space: What may be chosen.
        config: How.
        book: Where it is written down; what stands in it already is taken up.
        pool: Points (m, d) to choose among, where not all of the space is to be had.
        earlier: What is known from elsewhere; it informs proposals and enters no race.
        say: Where a person is told.
    """

    @one_thread
    def __init__(
        self,
        space: SearchSpace,
        config: StudyConfig,
        book: Book,
        pool: Array | None = None,
        earlier: Sequence[Seen] = (),
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.space, self.config, self.book, self.pool = space, config, book, pool
        self.earlier, self.say = [replace(seen, here=False) for seen in earlier], say
        if pool is not None and config.sampler != "gp-ucb":
            raise ValueError(f"a pool to choose among takes sampler gp-ucb, got {config.sampler}")
        self.plans: dict[int, Plan] = {}
        self.finished: dict[int, RunSeen] = {}
        self.champion: str | None = None
        self._judged: set[int] = set()
        self._held = 0
        self._surrogate: tuple[Basis, Surrogate | None] = ((), None)
        self._standings: tuple[Basis, Standings] | None = None
        self._refused: dict[str, tuple[int, int]] = {}
        for record in book.records():
            self._take_up(record)
        for trial in sorted(self.finished.keys() - self._judged):
            self._judge(trial)

    # --- what stands ---------------------------------------------------------------------------

    @property
    def runs(self) -> list[RunSeen]:
        """Finished runs that enter races: not those of the last test, nor what a pruner cut."""
        return [r for r in self.finished.values() if r.role != "test" and r.cut_at is None]

    @property
    def has_scored(self) -> bool:
        """Whether any run has given a score."""
        return any(run.score is not None for run in self.finished.values())

    @property
    def pending(self) -> list[Plan]:
        """Runs decided on and not finished, oldest first."""
        return [plan for trial, plan in self.plans.items() if trial not in self.finished]

    @property
    def stopped(self) -> str | None:
        """Why no more is proposed; None while it goes on."""
        return self._stopped

    @property
    def is_closing(self) -> bool:
        """Whether the race at the end has begun."""
        if self._closing:
            return True
        limit = self.config.trials
        return bool(limit) and self.made >= limit - self.closing_runs

    @property
    def made(self) -> int:
        """Runs decided on so far, the last test not counted."""
        return sum(plan.role != "test" for plan in self.plans.values())

    @property
    def closing_runs(self) -> int:
        """How many runs the race at the end has; enough for one to be confirmed, if it can be."""
        if self.config.champion == "naive":
            return 0
        limit = self.config.trials or len(self.plans)
        least = min(self.config.race.runs + 1, limit // 3)
        return max(round(self.config.race.closing * limit), least)

    _closing = False
    _sealing = False
    _heir: str | None = None
    """Whom the last runs are of."""
    _sealed_from = 0
    """The first of them."""
    _stopped: str | None = None

    def close_race(self, reason: str) -> None:
        """From now on only run the best again."""
        if not self._closing:
            self._closing = True
            self.book.append("closing", after=len(self.plans), reason=reason)

    def seal(self, reason: str) -> None:
        """From now on only run whoever is to have the title."""
        if not self._sealing:
            self._sealing = True
            self.book.append("sealing", after=len(self.plans), reason=reason)

    @property
    def is_sealing(self) -> bool:
        """Whether only the heir to the title still runs, for a claim that no choice colours."""
        limit = self.config.trials
        near = bool(limit) and self.made >= limit - self.config.race.runs
        return self.config.champion == "race" and (self._sealing or near)

    def standings(self, runs: Sequence[RunSeen] | None = None) -> Standings:
        """Who stands where now."""
        runs = self.runs if runs is None else runs
        basis = self._basis(runs)
        if self._standings is None or self._standings[0] != basis:
            self._standings = (basis, rank(self.space, runs, self.surrogate(runs)))
        return self._standings[1]

    def surrogate(self, runs: Sequence[RunSeen]) -> Surrogate | None:
        """What the runs and earlier results say; None before there is a score."""
        if not any(run.score is not None for run in runs):
            return None
        basis = self._basis(runs)
        if self._surrogate[0] != basis:
            self._surrogate = (basis, fit_surrogate(self.space, self._seen(runs)))
        return self._surrogate[1]

    def claim(self) -> Estimate | None:
        """What is claimed of the champion."""
        if self.champion is None:
            return None
        if self.config.champion == "naive":
            entrant = gather(self.runs)[self.champion]
            return Estimate(max(entrant.scores), 0.0, 1.0, 1)
        standings = self.standings()
        sealed = [
            standings.worst if run.score is None else run.score
            for run in self.runs
            if run.role == "seal" and run.trial >= self._sealed_from
        ]
        if self.champion == self._heir and len(sealed) >= self.config.race.runs:
            # They had no part in its being chosen, so that nothing need be taken off.
            return estimate(sealed, standings.variance)
        return standings.claim(self.champion)

    def champion_params(self) -> Params | None:
        """The champion's configuration."""
        holders = (plan.params for plan in self.plans.values() if plan.config == self.champion)
        return next(holders, None)

    # --- deciding ------------------------------------------------------------------------------

    @one_thread
    def next(self) -> Plan | None:
        """Decide on the next run, and write it down; None where results must come first."""
        trial = max(self.plans, default=0) + 1
        if self.stopped is not None or len(self.pending) >= self.config.workers:
            return None
        if self.config.trials and self.made >= self.config.trials:
            return None
        known = self._known(trial)
        if known is None:
            return None
        runs = [run for run in self.runs if run.trial in known]
        underway = [plan for t, plan in self.plans.items() if t not in known]
        again = self._again(runs, underway)
        if again is not None:
            plan = Plan(trial, again[0], again[1], again[2])
            self._write(plan, (), "runs again, to tell luck from merit")
            return plan
        pool = self._open_pool()
        used_up = pool is not None and not len(pool)
        if used_up or (self.is_closing and not self._may_explore_while_closing()):
            return None
        proposal = self._propose(runs, underway, pool)
        seed = self._tuning_seed(proposal.params, trial)
        plan = Plan(trial, proposal.params, seed, "explore")
        self._write(plan, [c.to_table() for c in proposal.candidates], proposal.why)
        return plan

    @one_thread
    def finish(self, plan: Plan, how: Finish) -> dict[str, Any]:
        """Write down how a run ended, and judge what follows from it."""
        if plan.trial in self.finished:
            raise ValueError(f"trial {plan.trial} has ended already; its record stays as it is")
        score = how.score if how.status in SCORED else None
        if score is not None and not abs(score) <= LARGEST:
            how = Finish("failed", None, None, how.elapsed, None, f"the score was {score}")
            score = None
        cut_at = int(how.more.get("timesteps", 0)) if how.status == "pruned" else None
        seconds = round(how.elapsed, 3)  # as it will be read when the study is taken up
        run = RunSeen(plan.trial, plan.params, plan.seed, plan.role, score, seconds, cut_at)
        self.finished[plan.trial] = run
        title = self._title(plan.trial) if plan.role != "test" else None
        record = self.book.append(
            "trial",
            trial=plan.trial,
            timestamp=time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            params=plan.params,
            seed=plan.seed,
            role=plan.role,
            config=plan.config,
            mean_reward=score,
            std_reward=how.std,
            model_path=how.model,
            champion=title is not None and title.verdict == "promoted",
            elapsed_sec=seconds,
            run_status=how.status,
            reason=how.reason,
            **how.more,
        )
        if plan.role != "test":
            self._judge(plan.trial)
        return record

    # --- stopping ------------------------------------------------------------------------------

    def should_stop(self) -> str | None:
        """A reason to stop now, beside the number of trials."""
        stop = self.config.stop
        if stop.target is not None and (reached := self._reaches(stop.target)) is not None:
            return f"target: {reached:.4g} is claimed, {stop.target:g} was asked for"
        if stop.converge and self._held >= stop.hold:
            return (
                f"converged: for {self._held} trials nothing could plausibly beat the leader by "
                "what matters"
            )
        limit = self.config.trials
        underway = any(plan.role != "test" for plan in self.pending)
        if limit and self.made >= limit and not underway:
            return f"budget: {limit} trials"
        return None

    def stop(self, reason: str) -> None:
        """Write down that no more is proposed, and give a title that is still free."""
        if self.stopped is None:
            self._crown()
            self.book.append("stop", after=len(self.finished), reason=reason)
            self._stopped = reason

    def go_on(self) -> None:
        """Reopen what had ended, or was about to, by limits that were moved since."""
        ended = "" if self.stopped is None else self.stopped.partition(":")[0]
        if ended in REOPENED and self.should_stop() is None:
            self._reopen("what ended it no longer holds")
        # Hours are those of one command; one that was killed in its last test has that to finish.
        elif (ended == "time" and self._is_tested()) or (not ended and self._closing):
            self._reopen("there is time again")

    # --- the last test -------------------------------------------------------------------------

    def finalists(self) -> list[Entrant]:
        """The champion, and the best others: who is tested on untouched seeds."""
        standings = self.standings()
        names = [n for n in (self.champion, *standings.ranked) if n is not None]
        return [standings.entrants[name] for name in dict.fromkeys(names)][:BEST]

    @one_thread
    def next_test(self) -> Plan | None:
        """The next run of the last test; None when all are decided on."""
        if len(self.pending) >= self.config.workers:
            return None
        done = {(plan.config, plan.seed) for plan in self.plans.values() if plan.role == "test"}
        for seed in self.config.seeds.test[: self.config.test_runs]:
            for entrant in self.finalists():
                if (entrant.config, seed) not in done:
                    trial = max(self.plans, default=0) + 1
                    plan = Plan(trial, entrant.params, seed, "test")
                    self._write(plan, (), "the last test, on a seed that nothing has touched")
                    return plan
        return None

    @one_thread
    def certify(self) -> dict[str, Any] | None:
        """What the last test says, written down once; None if nothing was tested."""
        written = self.book.records("certificate")
        if written and written[-1]["after"] == len(self.finished):
            return written[-1]
        final = {entrant.config for entrant in self.finalists()}
        tests = [
            run
            for run in self.finished.values()
            if run.role == "test" and self.plans[run.trial].config in final
        ]
        if not tests:
            return None
        claims = {name: self.standings().claim(name) for name in gather(tests)}
        if self.champion in claims:
            claims[self.champion] = self.claim()
        worst = self.standings().worst
        rows = tested(tests, claims, worst, self.champion, self.config.seed)
        return self.book.append("certificate", after=len(self.finished), finalists=rows)

    def _reaches(self, target: float) -> float | None:
        """What is claimed of the champion, or of who would be it, if it is that much."""
        claim = self.claim()
        if self.champion is None and self.config.champion == "race":
            heir = crown(self.standings(), self.config.race)
            claim = None if heir is None else self.standings().claim(heir.config)
        return claim.mean if claim is not None and claim.mean >= target else None

    # --- inside --------------------------------------------------------------------------------

    def _reopen(self, reason: str) -> None:
        self.book.append("reopened", after=len(self.finished), reason=reason)
        self._forget_the_end()

    def _forget_the_end(self) -> None:
        self._stopped, self._closing, self._sealing, self._heir = None, False, False, None

    def _is_tested(self) -> bool:
        """Whether the last test that there was to make is over."""
        stop = self.book.records("stop")[-1]
        tested = any(c["after"] >= stop["after"] for c in self.book.records("certificate"))
        return tested or self.config.test_runs == 0 or not self.finalists()

    def _take_up(self, record: Mapping[str, Any]) -> None:
        kind = record["kind"]
        if kind == "proposal":
            plan = Plan(record["trial"], record["params"], record["seed"], record["role"])
            self._note_plan(plan)
        elif kind == "trial":
            if record["trial"] not in self.plans:  # a damaged line that was taken out
                plan = Plan(record["trial"], record["params"], record["seed"], record["role"])
                self.plans[plan.trial] = plan
            plan = self.plans[record["trial"]]
            score = record["mean_reward"] if record["run_status"] in SCORED else None
            pruned = record["run_status"] == "pruned"
            self.finished[plan.trial] = RunSeen(
                plan.trial,
                plan.params,
                plan.seed,
                plan.role,
                score,
                record["elapsed_sec"],
                int(record.get("timesteps", 0)) if pruned else None,
            )
            if plan.role == "test":
                self._judged.add(plan.trial)
        elif kind == "title":
            self._note_title(record["verdict"], record["config"], record["runs"])
        elif kind == "standing":
            self._judged.add(record["after"])
            self._held = record["held"]
        elif kind == "closing":
            self._closing = True
        elif kind == "sealing":
            self._sealing = True
        elif kind == "stop":
            self._stopped = record["reason"]
        elif kind == "reopened":
            self._forget_the_end()

    def _known(self, trial: int) -> set[int] | None:
        """Trials whose results the decision on this one may use; None if some are not there yet."""
        if not self.config.ordered:
            return set(self.finished)
        known = {t for t in self.plans if t <= trial - self.config.workers}
        return known if known <= self.finished.keys() else None

    def _seen(self, runs: Sequence[RunSeen]) -> list[Seen]:
        return [*to_seen(gather(runs)), *self.earlier, *map(self._as_cut, self._cut(runs))]

    def _cut(self, runs: Sequence[RunSeen]) -> list[RunSeen]:
        """What a pruner cut short until the last of these runs."""
        latest = max((run.trial for run in runs), default=0)
        return [r for r in self.finished.values() if r.cut_at is not None and r.trial <= latest]

    def _basis(self, runs: Sequence[RunSeen]) -> Basis:
        return tuple(run.trial for run in (*runs, *self._cut(runs)))

    def _as_cut(self, run: RunSeen) -> Seen:
        """A run that a pruner ended tells what its settings give in the steps that it had.

        Where steps are no part of the space its score stands as it is, rather too low.
        """
        params, steps = run.params, run.cut_at
        shorter = params | {"timesteps": steps}
        if "timesteps" in params and self.space.problem(shorter) is None:
            params = shorter
        return Seen(params, () if run.score is None else (run.score,), int(run.score is None))

    def _again(
        self, runs: Sequence[RunSeen], underway: Sequence[Plan]
    ) -> tuple[Params, int, str] | None:
        """A run of something that ran before, where it is time for that."""
        race = self.config.race
        if self.config.champion == "naive" or not self._is_time_to_race(race.every):
            return None
        standings = self.standings(runs)
        running: dict[str, int] = {}
        for plan in underway:
            running[plan.config] = running.get(plan.config, 0) + 1
        lists = self.config.seeds
        most = len({*lists.tuning, *lists.race})
        rungs = closing_rungs(self.closing_runs) if self.is_closing else WAY
        name = next_again(standings, race, rungs, running, self.champion, most)
        if not self.is_closing or self._is_in_a_hurry():
            # Leaders come and go among places that are as good: one of them must be confirmed.
            name = nearest_to_title(standings, race, running) or name
        if name is None and self.is_closing:
            # Everything on the ladder is done: the leader's mean can always be known better.
            name = standings.ranked[0] if standings.ranked else None
        if self.champion is not None and self._is_stale(self.champion):
            name = self.champion
        heir = self._heir or self.champion or (standings.ranked[0] if standings.ranked else None)
        if self.is_sealing and heir is not None:
            used = {plan.seed for plan in self.plans.values() if plan.config == heir}
            free = [seed for seed in lists.race if seed not in used]
            if free:
                return standings.entrants[heir].params, free[0], "seal"
        if name is None:
            return None
        for who in (name, *(standings.ranked if self.is_closing else ())):
            used = {plan.seed for plan in self.plans.values() if plan.config == who}
            free = [seed for seed in lists.race if seed not in used]
            if free:
                role = "confirm" if who in (self.champion, standings.ranked[0]) else "replicate"
                return standings.entrants[who].params, free[0], role
        return None

    def _is_time_to_race(self, every: int) -> bool:
        """At the end always; on the way, so often that the share of the race comes out."""
        if self.is_closing:
            return True
        race = self.config.race
        again = sum(plan.role in AGAIN for plan in self.plans.values())
        new = sum(plan.role == "explore" for plan in self.plans.values())
        share = race.share - race.closing if self.config.trials else race.share
        wanted = share / (1 - race.share) * every
        return again < round(new // every * wanted)

    def _is_in_a_hurry(self) -> bool:
        """Whether the end is near and the title still free: then somebody must get there."""
        if self.champion is not None or not self.is_closing:
            return False
        left = self.config.trials - self.made if self.config.trials else 0
        return self._closing or left <= self.config.race.runs + 2

    def _is_stale(self, champion: str) -> bool:
        last = max(t for t, plan in self.plans.items() if plan.config == champion)
        return len(self.plans) - last >= self.config.race.refresh

    def _may_explore_while_closing(self) -> bool:
        """With nothing left to run again, a budget is still a budget."""
        return not self._closing and not self.pending

    def _propose(
        self, runs: Sequence[RunSeen], underway: Sequence[Plan], pool: Array | None
    ) -> Proposal:
        waiting = [plan.params for plan in underway]
        if self.config.sampler == "gp-ucb":
            # What is run again, and how often, the race decides.
            settings = ProposerSettings(
                explore=self.config.explore,
                cost_aware=self.config.cost_aware,
                repeat=self.config.champion == "naive",
            )
            return propose(
                self.space,
                self._seen(runs),
                waiting,
                self.config.seed,
                settings,
                pool,
                self.surrogate(runs),
            )
        proposer = OptunaProposer(
            self.config.sampler, self.space, self.config.seed, self.config.explore
        )
        known = [(run.params, run.score) for run in runs]
        known += [(seen.params, score) for seen in self.earlier for score in seen.scores]
        params = proposer.propose(known, waiting)
        return Proposal(params, (), f"chosen by {self.config.sampler}")

    def _open_pool(self) -> Array | None:
        """The pool's points that have a seed left to run with."""
        if self.pool is None:
            return None
        used: dict[str, set[int]] = {}
        for plan in self.plans.values():
            used.setdefault(plan.config, set()).add(plan.seed)
        seeds = {*self.config.seeds.tuning, *self.config.seeds.race}
        full = {name for name, its in used.items() if seeds <= its}
        keep = [identity(self.space.decode(point)) not in full for point in self.pool]
        return self.pool[np.array(keep)]

    def _tuning_seed(self, params: Params, trial: int) -> int:
        """The next tuning seed, in turn, that this configuration did not run with."""
        name, lists = identity(params), self.config.seeds
        used = {plan.seed for plan in self.plans.values() if plan.config == name}
        turn = (trial - 1) % len(lists.tuning)
        in_turn = (*lists.tuning[turn:], *lists.tuning[:turn], *lists.race)
        beyond = max(*in_turn, *lists.test) + len(used)
        return next((seed for seed in in_turn if seed not in used), beyond)

    def _note_plan(self, plan: Plan) -> None:
        self.plans[plan.trial] = plan
        if plan.role == "seal" and self._heir is None:
            self._heir, self._sealed_from = plan.config, plan.trial

    def _write(self, plan: Plan, candidates: Sequence[Any], why: str) -> None:
        self._note_plan(plan)
        self.book.append(
            "proposal",
            trial=plan.trial,
            params=plan.params,
            config=plan.config,
            seed=plan.seed,
            role=plan.role,
            why=why,
            candidates=list(candidates),
        )

    def _title(self, trial: int) -> Title | None:
        """What the runs up to this one say about the title; only what was not said before."""
        if self.config.champion == "naive":
            return self._naive_title(trial)
        standings = self.standings()
        title = judge_title(standings, self.champion, self.config.race)
        if title is None or title.verdict == "promoted":
            return title
        evidence = (title.estimate.runs, len(standings.entrants[self.champion or ""].runs))
        return None if self._refused.get(title.config) == evidence else title

    def _crown(self) -> None:
        """Give a title that nobody has won on the way."""
        if self.champion is not None or self.config.champion == "naive":
            return
        title = crown(self.standings(), self.config.race, self._heir)
        if title is not None:
            self._write_title(title, max(self.finished, default=0))

    def _naive_title(self, trial: int) -> Title | None:
        scored = [run for run in self.runs if run.score is not None]
        if not scored:
            return None
        best = max(scored, key=lambda run: (run.score, -run.trial))
        if best.trial != trial:
            return None
        assert best.score is not None
        name = identity(best.params)
        own = estimate([best.score], 0.0)
        return Title("promoted", name, best.params, "the highest mean so far", own, self.champion)

    def _judge(self, trial: int) -> None:
        """Write down what follows from a trial; a second time, after a crash, only what lacks."""
        title = self._title(trial)
        said = [r for r in self.book.records("title")[-3:] if r["after"] == trial]
        if title is not None and not said:
            self._write_title(title, trial)
        elif title is not None:
            self._note_title(title.verdict, title.config, title.estimate.runs)
        self._write_standing(trial)
        self._judged.add(trial)

    def _write_title(self, title: Title, trial: int) -> None:
        self.book.append("title", after=trial, **title.to_table())
        self.say(f"title {title.verdict}: {title.config}: {title.reason}")
        self._note_title(title.verdict, title.config, title.estimate.runs)

    def _note_title(self, verdict: str, config: str, runs: int) -> None:
        if verdict == "promoted":
            self.champion = config
        elif verdict == "refused":
            configs = [self.plans[run.trial].config for run in self.runs]
            self._refused[config] = (runs, configs.count(self.champion or ""))

    def _write_standing(self, trial: int) -> None:
        standings = self.standings()
        leader = standings.leader
        fields: dict[str, Any] = {"leader": None, "champion": self.champion}
        surrogate = self.surrogate(self.runs)
        settled = False
        if leader is not None and surrogate is not None:
            # The best that is confirmed: leaders come and go among places that are as good.
            confirmed = standings.confirmed(self.config.race.runs)
            stands = confirmed or leader
            assessed = assess(
                self.space,
                surrogate,
                self.space.encode(stands.params),
                len(stands.scores),
                float(np.sqrt(standings.variance)),
                self.config.stop.epsilon,
                self.config.seed,
                self.pool,
            )
            fields |= {"leader": leader.config, "expected": standings.expected[leader.config]}
            fields |= assessed.to_table() | {"seed_sd": float(np.sqrt(standings.variance))}
            least = max(self.config.stop.least, 5 * len(self.space))
            settled = (
                assessed.settled(self.config.stop)
                and surrogate.check.error <= 1.0
                and surrogate.check.good
                and confirmed is not None
                and len(self.runs) >= least
            )
        self._held = self._held + 1 if settled else 0
        self.book.append("standing", after=trial, held=self._held, **fields)
