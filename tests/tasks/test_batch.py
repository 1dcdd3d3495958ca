"""What the batch engine promises."""

from typing import Any

import pytest
import torch
from torch import Tensor

from hotlap.config.sensors import CameraConfig
from hotlap.sim.random import make_key, uniform
from hotlap.tasks.batch import BatchEnv, Step
from hotlap.tasks.registry import make_task
from hotlap.tasks.task import Task, copy_tree, leaves

CLOSE = 1e-5
STRAIGHT_ON, HARD_RIGHT, STAY = (0.0, 0.6), (1.0, 1.0), (0.0, 0.0)


@pytest.fixture(scope="module")
def telemetry() -> Task:
    return make_task("donkey-telemetry", start="random", max_steps=60)


def actions(who: Tensor, t: int) -> Tensor:
    """Each identity's own random driving: any steering, throttle from 0 to 1."""
    draws = uniform(make_key(who, 0xD217E, t), 2)
    return draws * torch.tensor([2.0, 1.0], device=who.device) - torch.tensor(
        [1.0, 0.0], device=who.device
    )


def play(batch: BatchEnv, steps: int, first: int = 0) -> dict[str, Tensor]:
    """What every step gave, steps first, and the state it led to."""
    told = []
    for t in range(first, first + steps):
        step = batch.step(actions(batch.who, t))
        world = batch.world
        told.append(
            {
                "observation": step.observation,
                "reward": step.reward,
                "terminated": step.terminated,
                "truncated": step.truncated,
                "key": world["key"],
                "x": world["car"]["x"],
                "y": world["car"]["y"],
                "vx": world["car"]["vx"],
                "s": world["place"]["s"],
                "progress": world["laps"]["progress"],
                "length": step.episode_length,
            }
        )
    return {name: torch.stack([row[name] for row in told]) for name in told[0]}


def begun(task: Task, who: Tensor, seed: int = 11) -> BatchEnv:
    batch = BatchEnv(task, len(who), seed, who)
    batch.reset()
    return batch


def same(one: dict[str, Tensor], other: dict[str, Tensor], tolerance: float = 0.0) -> None:
    for name, value in one.items():
        if value.dtype.is_floating_point and tolerance:
            assert torch.allclose(value, other[name], rtol=tolerance, atol=tolerance), name
        else:
            assert torch.equal(value, other[name]), name


def pick(log: dict[str, Tensor], places: Tensor) -> dict[str, Tensor]:
    return {name: value[:, places] for name, value in log.items()}


# --- independence ----------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [130, pytest.param(500, marks=pytest.mark.slow)])
def test_an_environment_is_the_same_alone_and_in_any_batch(telemetry: Task, steps: int) -> None:
    order = torch.randperm(64, generator=torch.Generator().manual_seed(0))
    crowd = play(begun(telemetry, order), steps)
    assert crowd["terminated"].any() and crowd["truncated"].any()  # many episodes, both endings
    seven = torch.tensor([3, 50, 0, 21, 63, 8, 40])
    few = play(begun(telemetry, seven), steps)
    same(few, pick(crowd, torch.argsort(order)[seven]), CLOSE)
    alone = play(begun(telemetry, torch.tensor([21])), steps)
    same(alone, pick(few, torch.tensor([3])), CLOSE)


def test_a_permuted_batch_gives_permuted_results(telemetry: Task) -> None:
    order = torch.tensor([4, 2, 0, 5, 1, 3])
    plain, permuted = begun(telemetry, torch.arange(6)), begun(telemetry, order)
    same(pick(play(plain, 60), order), play(permuted, 60), CLOSE)


def test_the_same_seed_gives_the_same_bits_and_another_does_not(telemetry: Task) -> None:
    one, again, other = (begun(telemetry, torch.arange(5), seed) for seed in (1, 1, 2))
    log = play(one, 40)
    same(log, play(again, 40))
    assert not torch.equal(log["x"], play(other, 40)["x"])


def test_a_seed_of_64_bits_counts_in_full(telemetry: Task) -> None:
    keys = [
        begun(telemetry, torch.arange(3), seed).world["key"] for seed in (7, 7 + 2**32, 7 + 2**62)
    ]
    assert len(torch.cat(keys).unique()) == 9


# --- beginning and ending --------------------------------------------------------------------


def drive(batch: BatchEnv, action: tuple[float, float], steps: int = 1) -> Step:
    for _ in range(steps):
        step = batch.step(torch.tensor([action] * batch.num_envs))
    return step


def until_it_ends(batch: BatchEnv, action: tuple[float, float]) -> tuple[int, Step]:
    for count in range(1, 1000):
        step = drive(batch, action)
        if step.done.any():
            return count, step
    raise AssertionError("it never ended")


def line_batch(num_envs: int = 1, **settings: Any) -> BatchEnv:
    batch = BatchEnv(make_task("donkey-telemetry", **settings), num_envs)
    batch.reset()
    return batch


def test_leaving_the_road_terminates_and_the_clock_truncates() -> None:
    _, left = until_it_ends(line_batch(), HARD_RIGHT)
    assert bool(left.terminated) and not bool(left.truncated)
    count, late = until_it_ends(line_batch(max_steps=5), STAY)
    assert count == 5 and bool(late.truncated) and not bool(late.terminated)


def test_leaving_the_road_at_the_last_moment_terminates_only() -> None:
    count, _ = until_it_ends(line_batch(), HARD_RIGHT)
    again, step = until_it_ends(line_batch(max_steps=count), HARD_RIGHT)
    assert again == count
    assert bool(step.terminated) and not bool(step.truncated)


def test_what_ends_begins_anew_in_the_same_step_and_its_end_can_still_be_seen() -> None:
    batch = line_batch(max_steps=4)
    first = batch.reset()
    drive(batch, STRAIGHT_ON, 3)
    step = drive(batch, STRAIGHT_ON)
    assert torch.equal(step.observation, first)  # a line start is the same every time
    last = batch.final_observation(torch.tensor([0]))
    longer = line_batch(max_steps=5)
    assert torch.equal(last, drive(longer, STRAIGHT_ON, 4).observation)
    assert step.metrics["speed"] > 0.2  # of the ended episode
    assert step.episode_length.tolist() == [4]
    assert drive(batch, STRAIGHT_ON).episode_length.tolist() == [1]


def test_one_ending_changes_no_other_environment(telemetry: Task) -> None:
    batch = begun(telemetry, torch.arange(7))
    twin = begun(telemetry, torch.arange(7))
    for t in range(60):
        ours = actions(batch.who, t)
        theirs = ours.clone()
        theirs[2] = torch.tensor(HARD_RIGHT)
        step, other = batch.step(ours), twin.step(theirs)
        rest = torch.arange(7) != 2
        assert torch.equal(step.observation[rest], other.observation[rest])
        assert torch.equal(step.reward[rest], other.reward[rest])
    assert twin.save_state()["envs"]["episode"][2] > 0


def test_a_masked_reset_begins_the_next_episode_of_those_alone(telemetry: Task) -> None:
    batch, twin = begun(telemetry, torch.arange(6)), begun(telemetry, torch.arange(6))
    play(batch, 10), play(twin, 10)
    mask = torch.tensor([False, True, False, False, True, False])
    seen = batch.reset(mask=mask)
    fresh = telemetry.begin(batch.seed, batch.who, torch.ones(6, dtype=torch.int64))
    assert torch.equal(batch.world["key"][mask], fresh["key"][mask])
    assert torch.equal(seen[mask], telemetry.observe(fresh).squeeze(1)[mask])
    logs = [pick(play(b, 20, first=10), (~mask).nonzero().squeeze(-1)) for b in (batch, twin)]
    same(*logs)


def test_a_masked_reset_cannot_change_the_seed(telemetry: Task) -> None:
    batch = begun(telemetry, torch.arange(2))
    with pytest.raises(ValueError, match="reset all"):
        batch.reset(seed=3, mask=torch.tensor([True, False]))


def test_the_reward_is_the_sum_of_its_terms_and_the_return_of_the_rewards(telemetry: Task) -> None:
    batch, total = begun(telemetry, torch.arange(4)), torch.zeros(4)
    for t in range(50):
        step = batch.step(actions(batch.who, t))
        assert torch.allclose(step.reward, torch.stack(list(step.terms.values())).sum(0))
        total += step.reward
        assert torch.allclose(step.episode_return, total, atol=1e-5)
        total[step.done] = 0


# --- saving ----------------------------------------------------------------------------------


def test_a_saved_batch_goes_on_in_every_bit(telemetry: Task) -> None:
    batch = begun(telemetry, torch.tensor([5, 9, 2]))
    play(batch, 37)
    saved = batch.save_state()
    log = play(batch, 60, first=37)
    seen = batch.load_state(saved)
    same(log, play(batch, 60, first=37))
    other = BatchEnv(telemetry, 3, seed=99)
    assert torch.equal(other.load_state(saved), seen)
    same(log, play(other, 60, first=37))


def test_a_saved_batch_of_another_size_is_refused(telemetry: Task) -> None:
    saved = begun(telemetry, torch.arange(3)).save_state()
    with pytest.raises(ValueError, match=r"holds 3 environments.* this batch 2"):
        begun(telemetry, torch.arange(2)).load_state(saved)


def test_a_restored_batch_forgets_a_refused_action(telemetry: Task) -> None:
    batch = begun(telemetry, torch.arange(2))
    saved = batch.save_state()
    with pytest.raises(ValueError, match="not a finite number"):
        drive(batch, (float("nan"), 0.0))
    batch.load_state(saved)
    drive(batch, STAY)


def test_after_a_refused_action_the_batch_goes_on(telemetry: Task) -> None:
    batch = begun(telemetry, torch.arange(2))
    for begin_anew in (False, True):
        with pytest.raises(ValueError, match="not a finite number"):
            drive(batch, (float("nan"), 0.0))
        if begin_anew:
            batch.reset(mask=torch.ones(2, dtype=torch.bool))
        drive(batch, STAY)


def test_what_a_step_returns_belongs_to_the_caller(telemetry: Task) -> None:
    kept, spoilt = (begun(telemetry, torch.arange(3)) for _ in range(2))
    for _ in range(3):
        one, other = (leaves(vars(drive(batch, STRAIGHT_ON))) for batch in (kept, spoilt))
        for value, spoils in zip(one, other, strict=True):
            assert torch.equal(value, spoils)
            spoils.zero_()


def test_trees_are_copied_by_name_whatever_their_order() -> None:
    into = {"a": torch.zeros(2), "b": {"c": torch.zeros(1), "d": torch.zeros(1)}}
    copy_tree(into, {"b": {"d": torch.ones(1), "c": torch.full((1,), 2.0)}, "a": torch.ones(2)})
    assert into["a"].tolist() == [1.0, 1.0]
    assert (float(into["b"]["c"]), float(into["b"]["d"])) == (2.0, 1.0)


# --- compiled --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["donkey-telemetry", "carracing", "tag"])
def test_no_two_parts_of_a_first_state_lie_in_one_place(name: str) -> None:
    # A compiled step is compiled for where its parts lie, and later states' lie apart.
    batch = BatchEnv(make_task(name), 2)
    batch.reset()
    places = [leaf.data_ptr() for leaf in leaves(batch.world) if leaf.numel()]
    assert len(places) > 5 and len(set(places)) == len(places)


@pytest.mark.slow
def test_a_compiled_batch_draws_the_same_and_drives_nearly_the_same() -> None:
    # The compiler reorders sums, so floats drift apart: at most a millimetre in 200 steps.
    settings = {"start": "random", "max_steps": 120, "reward": "v6"}
    eager = make_task("donkey-telemetry", **settings)
    fused = make_task("donkey-telemetry", compiled=True, **settings)
    logs = [play(begun(task, torch.arange(16)), 200) for task in (eager, fused)]
    assert logs[0]["terminated"].any()
    same(*logs, 1e-3)


@pytest.mark.slow
@pytest.mark.parametrize(
    "tracks",
    [("generated_track",), ("mountain_track", "warehouse")],
    ids=["flat", "hills and walls"],
)
def test_a_compiled_batch_sees_the_same_pictures(tracks: tuple[str, ...]) -> None:
    camera = CameraConfig(width=64, height=48)
    settings: dict[str, Any] = {"camera": camera, "tracks": tracks, "max_steps": 7}
    eager, fused = (
        begun(make_task("donkey", compiled=compiled, **settings), torch.arange(5))
        for compiled in (False, True)
    )
    for _ in range(20):
        pictures = [
            drive(batch, STRAIGHT_ON).observation.to(torch.int16) for batch in (eager, fused)
        ]
        worst = ((pictures[0] - pictures[1]).abs() > 2).float().flatten(1).mean(1).max()
        assert float(worst) < 0.01
    last = [batch.final_observation(torch.tensor([1, 3])).float() for batch in (eager, fused)]
    assert float((last[0] - last[1]).abs().mean()) < 0.5


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_on_a_gpu_a_new_seed_reaches_the_episodes_begun_within_the_captured_step() -> None:
    task = make_task("donkey-telemetry", "cuda", compiled=True, start="random", max_steps=3)
    plain = make_task("donkey-telemetry", start="random", max_steps=3)
    who = torch.arange(4)
    batch = BatchEnv(task, 4, 1, who)
    for seed in range(1, 12):
        batch.reset(seed=seed)
        play(batch, 4)
        expected = plain.begin(seed, who, torch.ones(4, dtype=torch.int64))
        assert torch.equal(batch.world["key"].cpu(), expected["key"]), seed
