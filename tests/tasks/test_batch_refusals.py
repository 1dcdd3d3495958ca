"""What the batch engine refuses, and what it says."""

from pathlib import Path

import pytest
import torch

from hotlap.config.sensors import LidarConfig
from hotlap.tasks import memory
from hotlap.tasks.batch import BatchEnv
from hotlap.tasks.registry import make_task
from hotlap.tasks.task import Task


@pytest.fixture(scope="module")
def telemetry() -> Task:
    return make_task("donkey-telemetry")


def begun(task: Task, who: torch.Tensor) -> BatchEnv:
    batch = BatchEnv(task, len(who), who=who)
    batch.reset()
    return batch


def stay(batch: BatchEnv, steps: int = 1) -> None:
    for _ in range(steps):
        batch.step(torch.zeros(batch.num_envs, 2))


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_an_action_that_is_no_number_is_refused_with_its_place_and_time(
    telemetry: Task, bad: float
) -> None:
    batch = begun(telemetry, torch.tensor([10, 20, 30]))
    stay(batch, 4)
    wrong = torch.zeros(3, 2)
    wrong[1, 0] = bad
    with pytest.raises(ValueError, match=r"environment 20 \(place 1 .*\) at step 4 .* 1 of 3"):
        batch.step(wrong)


@pytest.mark.parametrize("shape", [(3, 2), (2, 3), (4,), (2,), (1, 4)])
def test_actions_of_a_wrong_shape_are_refused_with_both_shapes(
    telemetry: Task, shape: tuple[int, ...]
) -> None:
    batch = begun(telemetry, torch.arange(2))
    with pytest.raises(ValueError) as refused:
        batch.step(torch.zeros(shape))
    assert "(2, 2)" in str(refused.value) and str(shape) in str(refused.value)


def test_two_seats_need_an_axis_for_seats() -> None:
    batch = BatchEnv(make_task("tag", seats=2), 3)
    batch.reset()
    with pytest.raises(ValueError, match=r"\(3, 2, 2\), got \(3, 2\)"):
        batch.step(torch.zeros(3, 2))


def test_a_batch_that_does_not_fit_is_refused_with_what_would(
    telemetry: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "free_bytes", lambda device: 100 * telemetry.bytes_per_env)
    BatchEnv(telemetry, 90)
    with pytest.raises(MemoryError, match=r"91 environments.*at most 90 would fit"):
        BatchEnv(telemetry, 91)


def test_a_container_has_what_its_limit_leaves_and_its_kept_files_give_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "CGROUP", tmp_path)
    machine = memory.free_bytes(torch.device("cpu"))
    told = {"max": "1000", "current": "800", "stat": "anon 500\ninactive_file 250\nkernel 50"}
    for name, text in told.items():
        (tmp_path / f"memory.{name}").write_text(text)
    assert memory.free_bytes(torch.device("cpu")) == 450 < machine
    (tmp_path / "memory.max").write_text("max")
    assert memory.free_bytes(torch.device("cpu")) > 450


def test_a_lidar_takes_the_memory_of_all_points_of_its_beams() -> None:
    few, many = (
        make_task("donkey-lidar", lidar=LidarConfig(beams=beams)).bytes_per_env
        for beams in (19, 1900)
    )
    assert few > 50_000 and many > 90 * few


def test_a_batch_must_begin_before_it_steps(telemetry: Task) -> None:
    batch = BatchEnv(telemetry, 1)
    with pytest.raises(RuntimeError, match="call reset first"):
        stay(batch)
    batch.reset()
    with pytest.raises(RuntimeError, match="call step first"):
        batch.final_observation(torch.tensor([0]))


@pytest.mark.parametrize("num_envs", [0, -1])
def test_an_empty_batch_is_refused(telemetry: Task, num_envs: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        BatchEnv(telemetry, num_envs)
