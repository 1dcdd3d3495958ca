"""Real CarRacing environments as a batch, for whatever takes a batch of our own."""

import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from hotlap.config.carracing import CarRacingConfig
from hotlap.config.interface import InterfaceConfig
from hotlap.config.runs import EvaluationConfig
from hotlap.evaluation.judge import HELD_OUT, judge
from hotlap.sim.carracing.tile_track import STEP, TileTrack
from hotlap.tasks.bridges.carracing import CarRacingBatch, CarRacingBridge, CarsGone
from hotlap.tasks.interface import Interface

pytest.importorskip("Box2D")
from hotlap.tasks.bridges.carracing_env import CarRacingEnv, version_line

SHORT = CarRacingConfig(backend="gymnasium", repeat=4, max_frames=12)


@pytest.fixture(scope="module")
def shared() -> Iterator[CarRacingBridge]:
    """Three cars in two processes, which take a second to begin."""
    task = CarRacingBridge(SHORT, 3, tracks=(), workers=2)
    yield task
    task.close()


@pytest.fixture
def made() -> Iterator[Any]:
    """Tasks that are closed with the test."""
    tasks: list[CarRacingBridge] = []

    def make(config: CarRacingConfig = SHORT, num_envs: int = 1, **more: Any) -> CarRacingBridge:
        tasks.append(CarRacingBridge(config, num_envs, **more))
        return tasks[-1]

    yield make
    for task in tasks:
        task.close()


def _first_seen(seed: int, config: CarRacingConfig = SHORT) -> torch.Tensor:
    return torch.from_numpy(CarRacingEnv(config).reset(seed=seed)[0])


def test_a_batch_is_its_environments_one_by_one(shared: CarRacingBridge) -> None:
    batch = CarRacingBatch(shared, 3, seed=40)
    assert shared.cars.shares == [[0, 1], [2]]
    alone = [CarRacingEnv(SHORT) for _ in range(3)]
    first = [env.reset(seed=40 + place)[0] for place, env in enumerate(alone)]
    assert torch.equal(batch.reset(), torch.from_numpy(np.stack(first)))
    actions = torch.tensor([[0.1, 0.5], [-0.3, 0.2], [0.9, -0.4]])
    earned = np.zeros(3)
    for number in range(1, 4):
        step = batch.step(actions)
        own = [env.step(act) for env, act in zip(alone, actions.numpy(), strict=True)]
        infos = [info for *_, info in own]
        earned += [reward for _, reward, *_ in own]
        assert step.reward.tolist() == pytest.approx([reward for _, reward, *_ in own], abs=1e-5)
        assert step.episode_return.tolist() == pytest.approx(earned, abs=1e-4)
        assert step.episode_length.tolist() == [number] * 3
        assert step.metrics["frames"].tolist() == [4 * number] * 3
        shares = [info["visited"] / info["tiles"] for info in infos]
        assert step.metrics["tiles"].tolist() == pytest.approx(shares)
        assert step.metrics["progress"].tolist() == pytest.approx(
            [info["visited"] * STEP for info in infos]
        )
        assert step.metrics["speed"].tolist() == pytest.approx([info["speed"] for info in infos])
        assert set(step.terms) == {"tiles", "time", "left"}
        if number < 3:
            pictures = torch.from_numpy(np.stack([seen for seen, *_ in own]))
            assert torch.equal(step.observation, pictures)
            assert not step.done.any()
    # The twelfth frame is the last; each goes on with the seed that is three further.
    assert step.truncated.all() and not step.terminated.any()
    assert not step.metrics["laps"].any() and not step.metrics["lap_time"].any()
    following = torch.stack([_first_seen(43 + place) for place in range(3)])
    assert torch.equal(step.observation, following)
    assert torch.equal(batch.final_observation(torch.tensor([2]))[0], torch.from_numpy(own[2][0]))


def test_identities_decide_the_seeds_in_any_batch(shared: CarRacingBridge) -> None:
    seen = CarRacingBatch(shared, 3, seed=100, who=torch.tensor([5, 6, 7])).reset()
    assert torch.equal(seen[1], _first_seen(106))
    held_out = CarRacingBatch(shared, 3, seed=HELD_OUT + 100, who=torch.tensor([5, 6, 7]))
    assert torch.equal(held_out.reset(), seen), "judged seeds are the plain ones"


def test_some_can_begin_anew(shared: CarRacingBridge) -> None:
    batch = CarRacingBatch(shared, 3, seed=40)
    batch.reset()
    before = batch.step(torch.zeros(3, 2)).observation
    after = batch.reset(mask=torch.tensor([False, True, False]))
    assert torch.equal(after[[0, 2]], before[[0, 2]])
    assert torch.equal(after[1], _first_seen(44))
    assert batch.step(torch.zeros(3, 2)).episode_length.tolist() == [2, 1, 2]


def test_a_saved_state_cannot_be_gone_back_to(shared: CarRacingBridge) -> None:
    batch = CarRacingBatch(shared, 3)
    batch.reset()
    with pytest.raises(RuntimeError, match="cannot be put back"):
        batch.load_state(batch.save_state())


def test_actions_that_are_no_numbers_and_other_sizes_are_refused(shared: CarRacingBridge) -> None:
    with pytest.raises(ValueError, match="3 cars"):
        CarRacingBatch(shared, 2)
    batch = CarRacingBatch(shared, 3)
    batch.reset()
    with pytest.raises(ValueError, match="not a finite number"):
        batch.step(torch.full((3, 2), math.nan))
    with pytest.raises(ValueError, match="own reward"):
        CarRacingBridge(replace(SHORT, reward="thorough"), 1, tracks=())


def test_a_policy_is_judged_on_the_seeds_that_the_user_names(shared: CarRacingBridge) -> None:
    def make(num_envs: int, who: torch.Tensor, seed: int) -> Interface:
        return Interface(CarRacingBatch(shared, num_envs, seed, who), InterfaceConfig(stack=2))

    def straight_on(seen: torch.Tensor) -> torch.Tensor:
        assert seen.shape == (3, 84, 84, 2)
        return torch.tensor([[0.0, 0.5]]).expand(len(seen), 2)

    config = EvaluationConfig(episodes=6, seed=10_000)
    rows = judge(straight_on, make, (), config, at_once=3).episodes
    for row, seed in zip(rows, range(10_000, 10_006), strict=True):
        env, paid = CarRacingEnv(SHORT), 0.0
        env.reset(seed=seed)
        for _ in range(3):
            _, reward, *_ = env.step(np.array([0.0, 0.5]))
            paid += reward
        assert row.episode_return == pytest.approx(paid, abs=1e-4)
        assert (row.length, row.end, row.laps) == (3, "time", 0)
        assert row.seconds == pytest.approx(12 / 50)
    assert shared.version_line == version_line()


def _ring(radius: float) -> TileTrack:
    """A round track; the car starts on its first tile and touches two or three of them."""
    around = np.arange(40) * 2 * math.pi / 40
    x, y = radius * np.cos(around), radius * np.sin(around)
    return TileTrack(f"ring {radius}", x, y, around, np.zeros(40, np.int8))


def test_given_tracks_are_driven_in_turn(made: Any) -> None:
    rings = [_ring(radius) for radius in (22.0, 30.0, 40.0)]
    batch = CarRacingBatch(made(replace(SHORT, max_frames=4), 2, tracks=rings), 2)
    env = CarRacingEnv(SHORT)
    expected = [torch.from_numpy(env.reset(seed=0, options={"track": ring})[0]) for ring in rings]
    seen = [*batch.reset(), *batch.step(torch.zeros(2, 2)).observation]
    for number, picture in enumerate(seen):
        assert torch.equal(picture, expected[number % 3]), number


def test_a_lap_is_told_when_it_is_finished(made: Any) -> None:
    # Four tiles, all of them under the front wheels (1.06 to 2.14 ahead) where the car begins.
    y = np.array([0.0, 1.5, 2.0, 1.5])
    patch = TileTrack("patch", np.zeros(4), y, np.zeros(4), np.zeros(4, np.int8))
    batch = CarRacingBatch(made(tracks=[patch]), 1)
    batch.reset()
    step = batch.step(torch.tensor([[0.0, 1.0]]))
    assert step.terminated.all() and not step.truncated.any()
    assert step.metrics["laps"].tolist() == [1.0]
    assert step.metrics["tiles"].tolist() == [1.0]
    assert step.metrics["lap_time"].tolist() == pytest.approx([1 / 50])
    assert step.reward.tolist() == pytest.approx([1000 - 0.1])


def test_what_goes_wrong_in_a_process_is_told_with_its_traceback(made: Any) -> None:
    task = made()
    batch = CarRacingBatch(task, 1)
    batch.reset()
    with pytest.raises(CarsGone, match=r"Traceback(.|\n)*2 finite numbers"):
        task.cars.drive(np.full((1, 2), np.nan, np.float32))
    with pytest.raises(CarsGone, match="make them anew"):
        batch.step(torch.zeros(1, 2))


def test_an_interrupted_step_leaves_no_answer_for_the_next(
    made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = made()
    batch = CarRacingBatch(task, 1)
    batch.reset()

    def interrupted(worker: int, timeout: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(task.cars, "_answer", interrupted)
    with pytest.raises(KeyboardInterrupt):
        batch.step(torch.zeros(1, 2))
    with pytest.raises(CarsGone, match="make them anew"):
        batch.step(torch.zeros(1, 2))


def test_a_process_that_dies_ends_the_step_and_the_others(made: Any) -> None:
    task = made(num_envs=2, workers=2)
    batch = CarRacingBatch(task, 2)
    batch.reset()
    victim, other = (worker.pid for worker in task.cars._workers)
    os.kill(victim, signal.SIGKILL)
    with pytest.raises(CarsGone, match="code -9"):
        batch.step(torch.zeros(2, 2))
    assert not _lives(other)


def test_a_process_that_hangs_is_ended_in_time(made: Any) -> None:
    task = made(timeout=0.5)
    batch = CarRacingBatch(task, 1)
    batch.reset()
    (stopped,) = (worker.pid for worker in task.cars._workers)
    os.kill(stopped, signal.SIGSTOP)
    began = time.monotonic()
    with pytest.raises(CarsGone, match=r"within 0\.5 s"):
        batch.step(torch.zeros(1, 2))
    assert time.monotonic() - began < 10
    assert not _lives(stopped)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["exit", "killed"])
def test_processes_end_with_the_one_that_began_them(how: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(f"""
import os, signal
from hotlap.config.carracing import CarRacingConfig
from hotlap.tasks.bridges.carracing import CarRacingBridge
if __name__ == "__main__":
    task = CarRacingBridge(CarRacingConfig(backend="gymnasium"), 2, tracks=(), workers=2)
    print(*(worker.pid for worker in task.cars._workers), flush=True)
    if {how!r} == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
""")
    root = Path(__file__).parents[3]
    told = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=120,
        env=os.environ | {"PYTHONPATH": str(root)},
    )  # fmt: skip
    workers = [int(word) for word in told.stdout.split()]
    assert len(workers) == 2, told.stderr
    deadline = time.monotonic() + 10
    while any(_lives(worker) for worker in workers) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(_lives(worker) for worker in workers)


def _lives(pid: int) -> bool:
    """Whether a process is there and more than a name that nobody has fetched."""
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
