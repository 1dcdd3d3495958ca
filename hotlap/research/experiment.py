"""One training run, from its settings to a judged model."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from stable_baselines3.common.vec_env import VecEnv

from hotlap.config.learners import PPOConfig
from hotlap.config.runs import EvaluationConfig, RunConfig
from hotlap.evaluation.judge import judge, judge_gym
from hotlap.learning.driver import Driver
from hotlap.learning.factory import make_learner
from hotlap.learning.off_policy import OffPolicy
from hotlap.records import EvalResult
from hotlap.research.keeper import Keeper
from hotlap.research.models import add_evaluation, load_weights, open_model, save_model
from hotlap.research.progress import Progress
from hotlap.research.reporting import Reporter, make_logger
from hotlap.research.trackers import Trackers
from hotlap.research.worlds import make_judged_env, make_training_env, tracks_of
from hotlap.store.run_folder import RunFolder

TABLES = ("metrics", "evaluations", "events")
TEST_SEED = 50_000
"""Added to the evaluation's seed for the last one: the best was chosen on the others."""
KEPT = 3
"""Checkpoints kept."""


class Run:
    """A training run in its folder; goes on where it stopped.

    Args:
        config: Its settings.
        folder: Where it is written, open for writing.
        progress: Where it is shown.
        trackers: Who else is told.
        trust: Whether the model it begins with may be a zip from elsewhere.
    """

    def __init__(
        self,
        config: RunConfig,
        folder: RunFolder,
        progress: Progress,
        trackers: Trackers | None = None,
        trust: bool = False,
    ) -> None:
        self.config, self.folder, self.progress = config, folder, progress
        self.env: VecEnv = make_training_env(config)
        self.seen = self.env.observation_space
        self.learner = make_learner(
            config.agent, self.env, config.device, config.seed, config.timesteps, config.compiled
        )
        self.reporter = Reporter(folder, progress, trackers)
        self.learner.set_logger(make_logger(folder.path / "tensorboard", self.reporter))
        self.keeper = Keeper()
        self.segment = 0
        self._pieces: dict[str, int] = {}
        self._judged_env: Any = None
        if config.settings is not None:
            changed = {"start": config.evaluation.start} if tracks_of(config) else {}
            self._judged_env = make_judged_env(config, **changed)
        if config.init_from is not None:
            model = open_model(config.init_from, config.device, trust)
            load_weights(self.learner.policy, model.policy.state_dict(), config.init_from)
        self._resume()

    # --- the story -----------------------------------------------------------------------------

    def train(self) -> EvalResult:
        """Train to the end, keep the best, judge it on seeds it was not chosen on."""
        try:
            while self.segment < self.config.segments:
                self._train_segment()
            return self._finish()
        except BaseException as error:
            self._record_failure(error)
            raise
        finally:
            self.env.close()
            self.reporter.close()

    def _train_segment(self) -> None:
        segment = self.segment
        self.reporter.segment = segment
        self.learner.learn_segment(
            self.config.seed, segment, self.config.steps_of(segment), self.reporter
        )
        with self._spending("judging"):
            result = self.judge(self.config.evaluation)
        self._note(result)
        with self._spending("saving"):
            self._save()
        self.segment += 1

    def judge(self, config: EvaluationConfig) -> EvalResult:
        """How the learner does now, through the same interface as it trains with."""
        policy = self.learner.policy
        if self._judged_env is not None:
            driver = Driver(policy, self.seen, config.deterministic)
            return judge(driver, self._judged_env, tracks_of(self.config), config)

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
        add_evaluation(self.folder.model_folder, result)
        return result

    # --- keeping the best ----------------------------------------------------------------------

    def _note(self, result: EvalResult) -> None:
        """Write an evaluation down; keep the policy if it is the best, go back if it collapsed."""
        score, segment = result.mean_return, self.segment
        self.keeper, verdict = self.keeper.note(score, segment, self.config.rollback)
        row = {name: v for name, v in result.to_table().items() if name != "tracks"}
        self.folder.append(
            "evaluations",
            {"segment": segment, "steps": self.learner.num_timesteps, "verdict": verdict, **row},
        )
        self.reporter.evaluated(result, self.learner.num_timesteps, verdict)
        if verdict == "best":
            self.folder.save_best(*self._state_now())
            save_model(self.folder.model_folder, self.config, self.learner, self.seen, result)
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
        try:
            self.event(kind, f"{type(error).__name__}: {error}")
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
            since = max(self._pieces.values(), default=0)
            rows = {name: value.cpu() for name, value in replay.rows_since(since).items()}
            self._pieces[str(self.segment)] = replay.written
            gone = [int(s) for s, end in self._pieces.items() if end <= replay.oldest]
            first = max(gone, default=-1) + 1
        numbers = numbers | {"keeper": self.keeper.to_table(), "pieces": dict(self._pieces)}
        self.folder.save_checkpoint(self.segment, tensors, numbers, rows, KEPT, first)

    def _resume(self) -> None:
        checkpoint = self.folder.load_checkpoint()
        if checkpoint is None:
            for table in TABLES:
                self.folder.forget_after(table, -1)
            return
        for text in checkpoint.damaged:
            self.progress.note(f"passed over a damaged checkpoint: {text}")
        for table in TABLES:
            self.folder.forget_after(table, checkpoint.segment)
        numbers = dict(checkpoint.numbers)
        self.keeper = Keeper(**numbers.pop("keeper"))
        self._pieces = numbers.pop("pieces")
        if isinstance(self.learner, OffPolicy):
            ends = [0, *self._pieces.values()]
            skipped = len(ends) - 1 - sum(int(s) >= checkpoint.replay_first for s in self._pieces)
            for start, rows in zip(ends[skipped:], checkpoint.replay_pieces, strict=False):
                on_device = {n: value.to(self.config.device) for n, value in rows.items()}
                self.learner.replay_buffer.put_rows(on_device, start)
        self.learner.load_state(checkpoint.tensors, numbers)
        self.segment = checkpoint.segment + 1
        self.progress.first = self.progress.steps = self.learner.num_timesteps
        self.progress.note(
            f"going on after segment {checkpoint.segment}, at {self.learner.num_timesteps:,} steps"
        )

    @contextmanager
    def _spending(self, on: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        self.progress.spend(on, time.monotonic() - began)


def describe(config: RunConfig) -> str:
    """A run in a line."""
    agent = config.agent
    shape = f"{agent.envs} environments"
    if isinstance(agent, PPOConfig):
        shape += f" x {agent.steps} steps"
    tracks = ", ".join(tracks_of(config)[:3]) or "-"
    return (
        f"{config.agent_name} on {config.task} ({tracks}), {config.timesteps:,} steps, seed "
        f"{config.seed}, {shape}, {config.device}{', compiled' if config.compiled else ''}"
    )
