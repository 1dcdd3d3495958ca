"""A run keeps its best, goes back to it once, and leaves its last good state when it fails."""

import errno
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from hotlap.config.presets import to_table
from hotlap.config.runs import EvaluationConfig, RollbackConfig, RunConfig
from hotlap.learning.ppo import _Loss
from hotlap.records import EpisodeResult, EvalResult
from hotlap.research import reporting
from hotlap.research.experiment import TEST_SEED, Run, describe
from hotlap.research.models import open_model, save_model
from hotlap.research.progress import Progress
from hotlap.store.bundle import load_bundle
from hotlap.store.run_folder import RunFolder

from .tiny import tiny_run

torch.set_num_threads(1)
Tensors = dict[str, torch.Tensor]


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Callable[..., Run]]:
    """Begins a run in a folder, or goes on with the one that is there."""
    opened: list[RunFolder] = []

    def make(config: RunConfig, name: str = "run") -> Run:
        for old in opened:
            old.close()
        path = tmp_path / name
        if (path / "config.json").exists():
            opened.append(RunFolder.open(path))
        else:
            opened.append(RunFolder.create(path, to_table(config)))
        return Run(config, opened[-1], Progress("", config.timesteps, live=False))

    yield make
    for folder in opened:
        folder.close()


def judged(value: float) -> EvalResult:
    row = EpisodeResult(identity=0, seed=1, episode_return=value, length=3, end="time")
    return EvalResult(
        count=1, mean_return=value, std_return=0.0, iqm=value, interval=None, iqm_interval=None,
        episodes=(row,),
    )  # fmt: skip


@pytest.fixture
def force(monkeypatch: pytest.MonkeyPatch) -> Callable[[list[float]], list[EvaluationConfig]]:
    """Has the judge give these scores, one after another; returns how it was asked."""

    def patch(scores: list[float]) -> list[EvaluationConfig]:
        asked: list[EvaluationConfig] = []

        def judge(self: Run, config: EvaluationConfig) -> EvalResult:
            asked.append(config)
            return judged(scores[len(asked) - 1])

        monkeypatch.setattr(Run, "judge", judge)
        return asked

    return patch


def weights(run: Run) -> Tensors:
    return {name: value.clone() for name, value in run.learner.policy.state_dict().items()}


def equal(mine: Tensors, other: Tensors) -> bool:
    return mine.keys() == other.keys() and all(torch.equal(mine[n], other[n]) for n in mine)


def policy_in(tensors: Tensors) -> Tensors:
    """The policy's weights among those of a checkpoint."""
    return {n.partition("/")[2]: v for n, v in tensors.items() if n.startswith("policy/")}


def model_in(run: Run) -> Tensors:
    return load_bundle(run.folder.model_folder).weights


def learning_rate(run: Run) -> float:
    learner: Any = run.learner
    optimiser = getattr(learner, "actor", learner.policy).optimizer
    return float(optimiser.param_groups[0]["lr"])


def lengthened(segments: int, agent: str = "ppo", **changed: Any) -> RunConfig:
    return tiny_run(agent, timesteps=32 * segments, **changed)


# --- keeping the best ----------------------------------------------------------------------------


@pytest.mark.parametrize("agent", ["ppo", "sac"])
def test_it_goes_back_to_the_best_once_at_half_the_learning_rate(
    agent: str, begin: Callable[..., Run], force: Any
) -> None:
    force([0, 10, 4, 4, 4, 4, 4, 4])
    run = begin(lengthened(8, agent, learning_rate=1e-2))
    before = []
    for _ in range(5):
        run._train_segment()
        before.append(weights(run))
    assert equal(before[4], before[1]) and not equal(before[3], before[1])
    assert run.learner.num_timesteps == 5 * 32  # the clock is not turned back
    assert run.learner.rate_scale == 0.5 and learning_rate(run) == pytest.approx(1e-2)
    checkpoint = run.folder.load_checkpoint()
    assert checkpoint is not None and equal(policy_in(checkpoint.tensors), before[1])
    for _ in range(3):
        run._train_segment()
        assert learning_rate(run) == pytest.approx(5e-3)
    (event,) = run.folder.rows("events")
    assert event["event"] == "rollback" and event["segment"] == 4
    assert "fell from 10.00 to 4.00: went back to the best, of segment 1, at 0.5" in event["text"]
    verdicts = [row["verdict"] for row in run.folder.rows("evaluations")]
    assert verdicts == ["best", "best", *["hold"] * 2, "collapsed", *["hold"] * 3]


def test_a_rollback_is_remembered_when_a_run_goes_on(begin: Callable[..., Run], force: Any) -> None:
    config = lengthened(8, rollback=RollbackConfig(patience=1, rate=0.1))
    force([0, 10, 4, 4, 4])
    first = begin(config)
    for _ in range(3):
        first._train_segment()
    again = begin(config)
    assert again.segment == 3 and again.keeper == first.keeper
    assert again.learner.rate_scale == pytest.approx(0.1)
    force([4, 4])
    again._train_segment()
    again._train_segment()
    assert len(again.folder.rows("events")) == 1
    assert again.learner.rate_scale == pytest.approx(0.1)


def test_a_worse_policy_does_not_replace_the_best(begin: Callable[..., Run], force: Any) -> None:
    force([5, 4, 6, 5.5])
    run = begin(lengthened(4))
    kept, own = [], []
    for _ in range(4):
        run._train_segment()
        kept.append(model_in(run))
        own.append(weights(run))
    assert equal(kept[0], own[0]) and equal(kept[1], own[0])
    assert equal(kept[2], own[2]) and equal(kept[3], own[2])
    best = run.folder.load_best()
    assert best is not None and equal(policy_in(best.tensors), own[2])
    assert (run.keeper.best, run.keeper.best_segment) == (6, 2)


def test_the_latest_policies_stay_as_milestones_whatever_their_scores(
    begin: Callable[..., Run], force: Any
) -> None:
    """And a run that goes on replaces those that it makes again."""
    config = lengthened(4, milestones=2)
    force([5, 4, 6, 3, 3])
    run = begin(config)
    own = []
    for _ in range(3):
        run._train_segment()
        own.append(weights(run))
    shutil.rmtree(run.folder.path / "checkpoints" / "000002")
    again = begin(config)
    again._train_segment()  # the third, again
    again._train_segment()
    own.append(weights(again))
    kept = run.folder.path / "milestones"
    assert sorted(path.name for path in kept.iterdir()) == ["000002", "000003"]
    for segment in (2, 3):
        assert equal(load_bundle(kept / f"{segment:06d}").weights, own[segment])
    assert load_bundle(kept / "000003").evaluation["mean_return"] == 3  # type: ignore[index]
    assert open_model(str(kept / "000003")).run == config


def test_there_are_no_milestones_unless_asked_for(begin: Callable[..., Run], force: Any) -> None:
    force([5])
    run = begin(lengthened(1))
    run._train_segment()
    assert not (run.folder.path / "milestones").exists()


def test_the_last_judgement_is_of_the_best_on_seeds_it_was_not_chosen_on(
    begin: Callable[..., Run], force: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = force([5, 4, 3, 7.5])
    run = begin(lengthened(3))
    drove: list[Tensors] = []
    judge = Run.judge
    monkeypatch.setattr(Run, "judge", lambda r, c: (drove.append(weights(r)), judge(r, c))[1])
    assert run.train() == judged(7.5)
    assert [config.seed for config in asked] == [10_000] * 3 + [10_000 + TEST_SEED]
    assert equal(drove[3], drove[0])
    assert load_bundle(run.folder.model_folder).evaluation == judged(7.5).to_table()
    assert equal(weights(run), drove[2])  # the learner itself is as training left it
    assert run.learner.num_timesteps == 96


@pytest.mark.parametrize("task", ["donkey-telemetry", "CartPole-v1"])
def test_no_episode_of_the_last_judgement_was_played_before(
    task: str, begin: Callable[..., Run]
) -> None:
    config = tiny_run(timesteps=64)
    if task == "CartPole-v1":
        config = replace(config, task=task, settings=None)
    run = begin(config)
    result = run.train()
    played = [row for table in run.folder.rows("evaluations") for row in table["episodes"]]
    chosen_on = {(row["seed"], row["identity"]) for row in played}
    assert len(played) == 4 and len(chosen_on) == 2  # the same for every checkpoint
    assert not {row["seed"] for row in played} & {row.seed for row in result.episodes}
    assert min(row.seed for row in result.episodes) >= 2**30  # no training has a seed as large


# --- when it fails -------------------------------------------------------------------------------


def poison_losses(after: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """PPO's loss is no number any more after so many updates."""
    forward, calls = _Loss.forward, []

    def spoilt(self: _Loss, *given: torch.Tensor) -> Any:
        calls.append(0)
        loss, metrics = forward(self, *given)
        if len(calls) > after:
            loss = loss * torch.nan
            metrics = metrics | {"loss": loss.detach()}
        return loss, metrics

    monkeypatch.setattr(_Loss, "forward", spoilt)


def test_a_loss_that_is_no_number_stops_it_and_spares_what_was_saved(
    begin: Callable[..., Run], force: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    force([1, 2, 3, 4])
    config = lengthened(4)
    run = begin(config)
    for _ in range(2):
        run._train_segment()
    good = weights(run)
    with monkeypatch.context() as patch:
        poison_losses(1, patch)
        with pytest.raises(FloatingPointError, match="loss became nan: the training has diverged"):
            run.train()
    assert not all(value.isfinite().all() for value in weights(run).values())
    assert equal(model_in(run), good)
    checkpoint = run.folder.load_checkpoint()
    assert checkpoint is not None and checkpoint.segment == 1
    assert equal(policy_in(checkpoint.tensors), good)
    (event,) = run.folder.rows("failures")
    assert (event["event"], event["segment"]) == ("failed", 2)
    assert event["text"].startswith("FloatingPointError: loss became nan")
    force([3, 4, 5])
    again = begin(config)
    assert again.segment == 2 and equal(weights(again), good)
    again.train()
    assert len(again.folder.rows("failures")) == 1  # is not forgotten
    assert all(value.isfinite().all() for value in model_in(again).values())


@pytest.mark.parametrize("score", [0.0, 99.0])
def test_weights_that_are_no_numbers_are_never_saved(
    score: float, begin: Callable[..., Run], force: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether they were judged well or not."""
    force([5, score])
    run = begin(lengthened(2))
    run._train_segment()
    good = weights(run)
    learn = run.learner.learn_segment

    def diverge(*given: Any) -> None:
        learn(*given)
        with torch.no_grad():
            run.learner.policy.value_net.bias.fill_(torch.inf)  # type: ignore[union-attr]

    monkeypatch.setattr(run.learner, "learn_segment", diverge)
    with pytest.raises(FloatingPointError, match=r"policy/value_net\.bias holds numbers that are"):
        run.train()
    checkpoint, best = run.folder.load_checkpoint(), run.folder.load_best()
    assert checkpoint is not None and equal(policy_in(checkpoint.tensors), good)
    assert best is not None and equal(policy_in(best.tensors), good)
    assert equal(model_in(run), good)


@pytest.mark.parametrize("agent", ["ppo", "dqn"])
def test_a_full_disk_leaves_the_old_checkpoint_and_the_run_goes_on_from_it(
    agent: str, begin: Callable[..., Run], force: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = lengthened(3, agent)
    force([1, 2, 3, 4])
    calm = begin(config, "calm")
    calm.train()

    force([1, 2])
    run, save = begin(config, "torn"), RunFolder.save_checkpoint

    def full_at_second(self: RunFolder, segment: int, *given: Any) -> None:
        if segment == 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        save(self, segment, *given)

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "save_checkpoint", full_at_second)
        with pytest.raises(OSError, match="No space left on device"):
            run.train()
    checkpoint = run.folder.load_checkpoint()
    assert checkpoint is not None and checkpoint.segment == 0 and not checkpoint.damaged
    (event,) = run.folder.rows("failures")
    assert event["event"] == "failed" and "No space left on device" in event["text"]
    force([2, 3, 4])
    again = begin(config, "torn")
    assert again.segment == 1
    again.train()
    assert equal(weights(again), weights(calm))
    assert again.folder.rows("evaluations") == calm.folder.rows("evaluations")


def test_a_disk_too_full_for_its_own_obituary_does_not_hide_the_failure(
    begin: Callable[..., Run], force: Any, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    force([1])
    run = begin(lengthened(1))

    def full(*given: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(RunFolder, "save_checkpoint", full)
    monkeypatch.setattr(RunFolder, "append", full)
    with pytest.raises(OSError, match="No space left on device"):
        run.train()
    assert "could not be written down" in capsys.readouterr().out


def test_being_stopped_by_hand_is_written_down_as_such(
    begin: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(self: Run, config: EvaluationConfig) -> EvalResult:
        raise KeyboardInterrupt

    monkeypatch.setattr(Run, "judge", stop)
    run = begin(lengthened(1))
    with pytest.raises(KeyboardInterrupt):
        run.train()
    assert [row["event"] for row in run.folder.rows("failures")] == ["stopped"]


# --- beginning with a model ----------------------------------------------------------------------


def test_it_begins_with_the_weights_of_a_model_and_needs_it_only_then(
    begin: Callable[..., Run], force: Any, tmp_path: Path
) -> None:
    first = begin(tiny_run(seed=5), "first")
    save_model(tmp_path / "model", first.config, first.learner, first.seen, None)
    config = lengthened(1, init_from=str(tmp_path / "model"))
    run = begin(config, "second")
    assert equal(weights(run), weights(first))
    force([5, 4, 6])
    run.train()
    assert [row["segment"] for row in run.folder.rows("evaluations")] == [-1, 0]
    assert equal(model_in(run), weights(first))  # training made it worse: the start is the best
    shutil.rmtree(tmp_path / "model")
    again = begin(config, "second")
    assert again.segment == 1 and equal(weights(again), weights(run))


@pytest.mark.parametrize(("anew", "spread"), [(False, -3.0), (True, -1.5)])
def test_a_model_begun_with_keeps_its_spread_unless_told_otherwise(
    anew: bool, spread: float, begin: Callable[..., Run], tmp_path: Path
) -> None:
    first = begin(tiny_run(log_std=-3.0), "first")
    save_model(tmp_path / "model", first.config, first.learner, first.seen, None)
    wide = tiny_run(log_std=-1.5, spread_anew=anew, init_from=str(tmp_path / "model"))
    assert begin(wide, "second").learner.policy.log_std.tolist() == [spread, spread]


def test_a_model_of_another_sensor_is_refused_naming_both_shapes(
    begin: Callable[..., Run], tmp_path: Path
) -> None:
    first = begin(tiny_run(sensor="lidar"), "first")
    save_model(tmp_path / "model", first.config, first.learner, first.seen, None)
    assert open_model(str(tmp_path / "model")).run == first.config
    with pytest.raises(ValueError, match=r"of shape \(25,\), this environment gives \(16,\)"):
        begin(tiny_run(init_from=str(tmp_path / "model")), "second")


# --- what is told --------------------------------------------------------------------------------


def test_nearly_all_time_is_booked(begin: Callable[..., Run]) -> None:
    run = begin(lengthened(3))
    began = time.monotonic()
    run.train()
    wall = time.monotonic() - began
    spent = run.progress.spent
    assert set(spent) == {"driving", "learning", "judging", "saving"}
    assert all(seconds >= 0 for seconds in spent.values())
    assert 0.75 * wall < sum(spent.values()) <= wall


def test_a_run_is_described_in_a_line() -> None:
    assert describe(tiny_run("sac", seed=3)) == (
        "sac on donkey-telemetry (generated_track), 128 steps, seed 3, 4 environments, cpu"
    )
    assert "4 environments x 8 steps" in describe(tiny_run("ppo"))


def test_every_metric_of_a_stock_loop_is_written_down(
    begin: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reporting, "QUIET", 0.0)
    run = begin(replace(tiny_run(timesteps=64), task="CartPole-v1", settings=None))
    run.train()
    names = {name for row in run.folder.rows("metrics") for name in row}
    wanted = {"train/loss", "train/approx_kl", "train/explained_variance", "eval/mean_return"}
    assert wanted <= names
