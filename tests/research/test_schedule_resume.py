"""A run with any schedule goes on as if it had never stopped, and tells how each track fares."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from hotlap.cli import main
from hotlap.config.presets import from_table, to_table
from hotlap.config.runs import EvaluationConfig, RunConfig
from hotlap.config.schedules import SCHEDULES, CurriculumConfig, ScheduleConfig
from hotlap.research.experiment import Run
from hotlap.research.progress import Progress
from hotlap.store.run_folder import RunFolder

from .tiny import tiny_run

torch.set_num_threads(1)
TRACKS = ("generated_track", "warehouse", "mini_monaco")
EASY = CurriculumConfig(success=0.01, pace=0.0, episodes=1)


def scheduled(agent: str, kind: Any, sensor: str = "telemetry", stack: int = 1) -> RunConfig:
    run = tiny_run(agent, sensor, timesteps=240, segment_steps=64, stack=stack)
    assert run.settings is not None
    return replace(
        run,
        settings=replace(run.settings, tracks=TRACKS),
        schedule=ScheduleConfig(kind, curriculum=EASY),
        evaluation=EvaluationConfig(episodes=3),
    )


@pytest.fixture
def folders(tmp_path: Path) -> Iterator[Any]:
    opened: list[RunFolder] = []

    def begin(config: RunConfig, name: str) -> Run:
        for folder in opened:
            folder.close()
        path = tmp_path / name
        is_there = (path / "config.json").exists()
        folder = RunFolder.open(path) if is_there else RunFolder.create(path, to_table(config))
        opened.append(folder)
        return Run(config, folder, Progress("", config.timesteps, live=False))

    yield begin
    for folder in opened:
        folder.close()


def end(run: Run) -> dict[str, Any]:
    """All that is left of a run."""
    checkpoint = run.folder.load_checkpoint()
    assert checkpoint is not None
    tensors = {name: value.tolist() for name, value in checkpoint.tensors.items()}
    rows = run.folder.rows("evaluations")
    return {"tensors": tensors, "roster": checkpoint.numbers["roster"], "evaluations": rows}


@pytest.mark.parametrize("kind", SCHEDULES)
@pytest.mark.parametrize("agent", ["ppo", "dqn"])
def test_a_run_that_goes_on_ends_like_one_that_never_stopped(
    agent: str, kind: str, folders: Any
) -> None:
    config = scheduled(agent, kind)
    calm = folders(config, "calm")
    calm.train()
    for _ in range(config.segments):  # stopped after every segment, and in the middle of the next
        torn = folders(config, "torn")
        torn._train_segment()
        if torn.segment < config.segments:
            torn.learner.learn_segment(config.seed, torn.segment, 32)
    whole = folders(config, "torn")
    whole.train()
    assert end(whole) == end(calm)
    if kind == "curriculum":
        assert end(calm)["roster"]["schedule"]["open"] > 1


@pytest.mark.parametrize("agent", ["ppo", "dqn"])
def test_pictures_are_switched_in_the_middle_of_a_segment(agent: str, folders: Any) -> None:
    run = folders(scheduled(agent, "switch", "camera", stack=2), "pictures")
    driven: list[set[int]] = []
    batch = run.env.batch.batch
    step = batch.step

    def watched(action: torch.Tensor) -> Any:
        told = step(action)
        driven.append(set(batch.ended_world["road"].flatten().tolist()))
        return told

    batch.step = watched
    run.train()
    each = {"ppo": [24, 16, 24], "dqn": [20, 20, 20]}[agent]  # ppo changes over between rollouts
    assert driven == [{track} for track, steps in enumerate(each) for _ in range(steps)]


def test_a_checkpoint_from_before_schedules_can_be_gone_on_from(folders: Any) -> None:
    run = folders(scheduled("ppo", "parallel"), "old")
    tensors, numbers = run.learner.state()
    del numbers["roster"]
    run.learner.load_state(tensors, numbers)
    again = run.learner.state()[0]
    assert again.keys() == tensors.keys()
    assert all(torch.equal(again[name], tensors[name]) for name in tensors)


def test_settings_from_before_schedules_mean_parallel() -> None:
    table = to_table(scheduled("ppo", "plr"))
    assert from_table(RunConfig, table, "now").schedule.kind == "plr"
    del table["schedule"]
    assert from_table(RunConfig, table, "before").schedule == ScheduleConfig()


def test_evaluations_keep_every_track(folders: Any) -> None:
    run = folders(scheduled("ppo", "switch"), "run")
    run.train()
    rows = run.folder.rows("evaluations")
    assert [set(row["tracks"]) for row in rows] == [set(TRACKS)] * run.config.segments
    for row in rows:
        returns = [row["tracks"][track]["return"] for track in TRACKS]
        assert sum(returns) / 3 == pytest.approx(row["mean_return"])
        assert all(0.0 <= row["tracks"][track]["lap_rate"] <= 1.0 for track in TRACKS)
    told = {name for row in run.folder.rows("metrics") for name in row}
    assert "eval/warehouse/return" in told


def test_a_schedule_for_one_track_is_a_wrong_word(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["train", "donkey-telemetry", "--schedule", "plr", "--track", "warehouse"]
    assert main([*words, "--save-dir", str(tmp_path / "run")]) == 2
    assert "name several with --track" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
