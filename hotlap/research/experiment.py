"""One training run, from its settings to a judged model."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from hotlap.config.carracing import CarRacingConfig
from hotlap.config.learners import PPOConfig, ReplayConfig
from hotlap.config.randomisation import RandomisationConfig
from hotlap.config.runs import EvaluationConfig, RunConfig
from hotlap.evaluation.judge import judge, judge_gym
from hotlap.learning.driver import Driver, refuse_other_shape
from hotlap.learning.factory import make_learner
from hotlap.learning.hearing import Hearing, make_logger
from hotlap.learning.knowing import Knowing
from hotlap.learning.off_policy import OffPolicy
from hotlap.learning.ppo import PPO
from hotlap.learning.ramps import Finish, Ramp
from hotlap.learning.replay import Replay
from hotlap.learning.rollouts import Rollouts
from hotlap.learning.roster import Roster, make_roster
from hotlap.records import EvalResult
from hotlap.research.insight import make_insight
from hotlap.research.keeper import BEFORE, Keeper
from hotlap.research.models import add_evaluation, load_weights, open_model, save_model
from hotlap.research.progress import Progress
from hotlap.research.reporting import Reporter, told_by_track
from hotlap.research.teachers import find_teacher
from hotlap.research.trackers import Trackers
from hotlap.research.worlds import (
    RealCars,
    judge_same_cars,
    judged_at_once,
    judged_tracks,
    make_judged_env,
    make_training_env,
    track_words,
)
from hotlap.store.run_folder import RunFolder
from hotlap.tasks.memory import refuse_if_too_large, usable_bytes

TABLES = ("metrics", "evaluations", "events")
TEST_SEED = 50_000
"""Added to the evaluation's seed for the last one: the best was chosen on the others."""
KEPT = 3
"""Checkpoints kept."""
SPREAD = "spread.log_std"
"""Name of a policy's spread among its weights."""


@dataclass(frozen=True)
class Prepared:
    """What a run trains with, made before anything of it is written."""

    env: Any
    learner: Any


def prepare(config: RunConfig, say: Callable[[str], None]) -> Prepared:
    """Make environments and learner; refuses here what cannot be trained, or does not fit."""
    env = make_training_env(config)
    try:
        if isinstance(config.settings, CarRacingConfig) and config.settings.outside:
            say(f"{env.task.version_line}: its own reward, from the line")
        return Prepared(env, prepare_learner(config, env, say))
    except BaseException:
        env.close()
        raise


def prepare_learner(config: RunConfig, env: Any, say: Callable[[str], None]) -> Any:
    """The learner, and whoever helps it."""
    agent = config.agent
    if isinstance(agent, ReplayConfig):
        needed = Replay.bytes_needed(
            agent.replay_size, env.observation_space, env.action_space, agent.envs, agent.stack
        )
        say(f"replay: {agent.replay_size:,} steps, {needed / 1e9:.2f} GB on {config.device}")
        _refuse_what_cannot_be_saved(config, agent, needed)
    learner = make_learner(
        agent, env, config.device, config.seed, config.timesteps, config.compiled
    )
    ramps, learner.roster = supervise(config, env)  # first: what worlds hold depends on it
    if ramps:
        cast(PPO, learner).ramps = ramps
    if isinstance(agent, PPOConfig) and agent.teacher is not None:
        cast(PPO, learner).teacher = find_teacher(config, agent, env.task)
    if isinstance(agent, PPOConfig) and agent.knowing:
        ppo = cast(PPO, learner)
        rollouts = cast(Rollouts, ppo.rollout_buffer)
        ppo.knowing = Knowing(*make_insight(env.task), rollouts, config.compiled)
    return learner


def _refuse_what_cannot_be_saved(config: RunConfig, agent: ReplayConfig, needed: int) -> None:
    """Stop where a replay fits and the copy of what a segment added, to be saved, does not."""
    size, segment, cpu = agent.replay_size, config.segment_steps, torch.device("cpu")
    held = config.device == "cpu"  # of a GPU's only the copy lies here
    step = needed / size
    fitting = usable_bytes(cpu) / step
    most = int(max(fitting - segment, fitting / 2) if held else fitting)
    what = "steps of replay, and a copy of what a segment adds, to be saved,"
    here = (min(size, segment) + held * size) * step
    refuse_if_too_large(size, what, here, cpu, " (replay_size)", most)


def supervise(config: RunConfig, env: Any) -> tuple[tuple[Ramp | Finish, ...], Roster | None]:
    """Whoever decides what environments that have not made a step are like, and pay."""
    agent, ramps = config.agent, ()
    if isinstance(agent, PPOConfig) and agent.ramp[1] > 0:
        ramps += (Ramp(env.batch.batch, agent.ramp),)
    if isinstance(agent, PPOConfig) and agent.finish:
        ramps += (Finish(env.batch.batch, agent.finish, agent.finish_between),)
    return ramps, make_roster(
        config.schedule, env, config.timesteps, advantages=isinstance(agent, PPOConfig)
    )


class Run:
    """A training run in its folder; goes on where it stopped.

    Args:
        config: Its settings.
        folder: Where it is written, open for writing.
        progress: Where it is shown.
        trackers: Who else is told.
        trust: Whether the model it begins with may be a zip from elsewhere.
        prepared: Its environments and learner, where they are made already.
    """

    def __init__(
        self,
        config: RunConfig,
        folder: RunFolder,
        progress: Progress,
        trackers: Trackers | None = None,
        trust: bool = False,
        prepared: Prepared | None = None,
    ) -> None:
        self.config, self.folder, self.progress = config, folder, progress
        prepared = prepared or prepare(config, progress.note)
        self.env, self.learner = prepared.env, prepared.learner
        self.seen = self.env.observation_space
        self.reporter = Reporter(folder, progress, trackers)
        self.hearing = Hearing(self.reporter)
        self.learner.set_logger(make_logger(folder.path / "tensorboard", self.hearing))
        self.keeper = Keeper()
        self.segment = 0
        self._pieces: dict[str, list[int]] = {}
        """First row and end of what each segment added to a replay."""
        self._judged_env: Any = None
        if config.bridge is not None:
            changed = _judged_otherwise(config)
            self._judged_env = judge_same_cars(config, self.env.task, **changed)
        elif config.settings is not None:
            self._judged_env = make_judged_env(config, **_judged_otherwise(config))
        if not self._resume() and config.init_from is not None:
            model = open_model(config.init_from, config.device, trust)
            refuse_other_shape(tuple(model.seen.shape or ()), tuple(self.seen.shape))
            weights, own = model.policy.state_dict(), self.learner.policy.state_dict()
            if isinstance(config.agent, PPOConfig) and config.agent.spread_anew:
                weights |= {name: own[name] for name in weights.keys() & {SPREAD}}
            load_weights(self.learner.policy, weights, config.init_from)
            self.segment = BEFORE

    # --- the story -----------------------------------------------------------------------------

    def train(self) -> EvalResult:
        """Train to the end, keep the best, judge it on seeds it was not chosen on."""
        try:
            if self.segment == BEFORE:
                self._note(self.judge(self.config.evaluation))
                self.segment = 0
            while self.segment < self.config.segments:
                self._train_segment()
            return self._finish()
        except BaseException as error:
            self._record_failure(error)
            raise
        finally:
            self.env.close()
            if isinstance(self._judged_env, RealCars):
                self._judged_env.close()
            self.reporter.close()

    def _train_segment(self) -> None:
        segment = self.segment
        self.reporter.segment_began(segment)
        self.learner.learn_segment(
            self.config.seed, segment, self.config.steps_of(segment), self.hearing
        )
        with self._spending("judging"):
            result = self.judge(self.config.evaluation)
        with self._spending("saving"):
            self._note(result)
            self._save()
        self.segment += 1

    def judge(self, config: EvaluationConfig) -> EvalResult:
        """How the learner does now, through the same interface as it trains with."""
        with self.learner.at_its_best():
            return self._judge(config)

    def _judge(self, config: EvaluationConfig) -> EvalResult:
        policy = self.learner.policy
        if self._judged_env is not None:
            driver = Driver(policy, self.seen, config.deterministic)
            tracks = judged_tracks(self.config, self.config.evaluation.episodes)
            return judge(driver, self._judged_env, tracks, config, judged_at_once(self.config))

        def act(seen: Any) -> Any:
            action = self.learner.predict(np.asarray(seen), deterministic=config.deterministic)[0]
            return action.item() if action.ndim == 0 else action

        import gymnasium

        return judge_gym(act, lambda: gymnasium.make(self.config.task), config)

    def _finish(self) -> EvalResult:
        """Judge the best on seeds that played no part in choosing it."""
        best = self.folder.load_best()
        assert best is not None, "a run that trained has a best"
        last = self.learner.state()
        self.learner.load_state(best.tensors, best.numbers)
        final = replace(self.config.evaluation, seed=self.config.evaluation.seed + TEST_SEED)
        with self._spending("judging"):
            result = self.judge(final)
        self.learner.load_state(*last)
        with self._spending("saving"):
            add_evaluation(self.folder.model_folder, result)
        return result

    # --- keeping the best ----------------------------------------------------------------------

    def _note(self, result: EvalResult) -> None:
        """Write an evaluation down; keep the policy if it is the best, go back if it collapsed."""
        score, segment = result.mean_return, self.segment
        self.keeper, verdict = self.keeper.note(score, segment, self.config.rollback)
        row = result.to_table() | {"tracks": told_by_track(result)}
        self.folder.append(
            "evaluations",
            {"segment": segment, "steps": self.learner.num_timesteps, "verdict": verdict, **row},
        )
        told = self.reporter.evaluated(result, self.learner.num_timesteps, verdict)
        for name, value in told.items():
            self.learner.logger.record(name, value)
        self.learner.logger.dump(self.learner.num_timesteps)
        if self.config.milestones and segment != BEFORE:
            self._save_model(self.folder.milestone_folder(segment), result)
            self.folder.forget_milestones(segment, self.config.milestones)
        if verdict == "best":
            tensors, numbers = self._state_now()
            self.folder.save_best(tensors, numbers | {"segment": segment, "score": score})
            self._save_model(self.folder.model_folder, result)
        elif verdict == "collapsed":
            self._roll_back(score)

    def _roll_back(self, score: float) -> None:
        best = self.folder.load_best()
        assert best is not None
        numbers = best.numbers | {"learner": best.numbers["learner"] | self._clock()}
        self.learner.load_state(best.tensors, numbers)
        self.learner.rate_scale *= self.config.rollback.rate
        self.event(
            "rollback",
            f"return fell from {self.keeper.best:.2f} to {score:.2f}: went back to the best, of "
            f"segment {self.keeper.best_segment}, at {self.learner.rate_scale:g} of the "
            "learning rate",
        )

    def _save_model(self, folder: Path, result: EvalResult | None) -> None:
        save_model(folder, self.config, self.learner, self.seen, result)

    def _clock(self) -> dict[str, Any]:
        """Numbers that count how far the training is, which no rollback turns back."""
        names = ("num_timesteps", "_episode_num", "_n_updates")
        return {name: getattr(self.learner, name) for name in names}

    def event(self, kind: str, text: str) -> None:
        """Write down that something happened, and say so."""
        self.folder.append("events", {"segment": self.segment, "event": kind, "text": text})
        self.progress.note(f"{kind}: {text}")

    def _record_failure(self, error: BaseException) -> None:
        kind = "stopped" if isinstance(error, KeyboardInterrupt) else "failed"
        text = f"{type(error).__name__}: {error}"
        try:
            # Kept when the segment is done again, unlike the other tables.
            self.folder.append("failures", {"segment": self.segment, "event": kind, "text": text})
            self.progress.note(f"{kind}: {text}")
        except OSError as full:  # the disk that failed the run may fail its obituary too
            self.progress.note(f"{kind}: {error} (and it could not be written down: {full})")

    # --- saving and going on -------------------------------------------------------------------

    def _state_now(self) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
        tensors, numbers = self.learner.state()
        for name, value in tensors.items():
            if value.is_floating_point() and not bool(torch.isfinite(value).all()):
                raise FloatingPointError(
                    f"{name} holds numbers that are not finite: the training has diverged. "
                    "The last good checkpoint is kept"
                )
        return {name: value.cpu() for name, value in tensors.items()}, numbers

    def _save(self) -> None:
        """Write a checkpoint, of which the replay is only what this segment added."""
        tensors, numbers = self._state_now()
        rows, first = None, 0
        if isinstance(self.learner, OffPolicy):
            replay = self.learner.replay_buffer
            since = max([0, *(end for _, end in self._pieces.values())])
            rows = {name: value.cpu() for name, value in replay.rows_since(since).items()}
            self._pieces[str(self.segment)] = [max(since, replay.oldest), replay.written]
            gone = [int(s) for s, (_, end) in self._pieces.items() if end <= replay.oldest]
            first = max(gone, default=-1) + 1
        numbers = numbers | {"keeper": self.keeper.to_table(), "pieces": dict(self._pieces)}
        self.folder.save_checkpoint(self.segment, tensors, numbers, rows, KEPT, first)

    def _resume(self) -> bool:
        """Take up where the last whole segment ended; False if there is none."""
        checkpoint = self.folder.load_checkpoint()
        if checkpoint is None:
            for table in TABLES:
                self.folder.forget_after(table, BEFORE - 1)
            return False
        for text in checkpoint.damaged:
            self.progress.note(f"passed over a damaged checkpoint: {text}")
        for table in TABLES:
            self.folder.forget_after(table, checkpoint.segment)
        numbers = dict(checkpoint.numbers)
        self.keeper = Keeper(**numbers.pop("keeper"))
        self._pieces = numbers.pop("pieces")
        if isinstance(self.learner, OffPolicy):
            held = [s for s in self._pieces if int(s) >= checkpoint.replay_first]
            for segment, rows in zip(held, checkpoint.replay_pieces, strict=True):
                self.learner.replay_buffer.put_rows(rows, self._pieces[segment][0])
        self.learner.load_state(checkpoint.tensors, numbers)
        self.segment = checkpoint.segment + 1
        self.progress.first = self.progress.steps = self.learner.num_timesteps
        self.progress.note(
            f"going on after segment {checkpoint.segment}, at {self.learner.num_timesteps:,} steps"
        )
        if self.config.device != "cpu":
            self._adopt_best(checkpoint.segment)
        return True

    def _adopt_best(self, segment: int) -> None:
        """Keep a best that was saved after the last checkpoint.

        On a CPU the segment is done again to the same score; on a GPU it may come out worse.
        """
        best = self.folder.load_best()
        if best is None or best.numbers["segment"] <= segment:
            return
        now = self.learner.state()
        self.learner.load_state(best.tensors, best.numbers)
        self._save_model(self.folder.model_folder, None)
        self.learner.load_state(*now)
        score = best.numbers["score"]
        self.keeper = replace(self.keeper, best=score, best_segment=best.numbers["segment"])

    @contextmanager
    def _spending(self, on: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        self.progress.spend(on, time.monotonic() - began)


def _judged_otherwise(config: RunConfig) -> dict[str, Any]:
    """Settings of the task that differ between training and judging."""
    tracks = judged_tracks(config, config.evaluation.episodes)
    if not tracks:
        return {}
    asked = config.evaluation
    changed: dict[str, Any] = {"tracks": tracks}
    if asked.reward is not None:
        changed["reward"] = asked.reward
    if isinstance(config.settings, CarRacingConfig):
        return changed | {"start": "line"}
    changed["start"] = asked.start
    if not asked.randomised:
        changed["randomise"] = RandomisationConfig()
    return changed


def describe(config: RunConfig) -> str:
    """A run in a line."""
    agent = config.agent
    shape = f"{agent.envs} environments"
    if isinstance(agent, PPOConfig):
        shape += f" x {agent.steps} steps"
    tracks = ", ".join(track_words(config)[:3]) or "-"
    return (
        f"{config.agent_name} on {config.task} ({tracks}), {config.timesteps:,} steps, seed "
        f"{config.seed}, {shape}, {config.device}{', compiled' if config.compiled else ''}"
    )
