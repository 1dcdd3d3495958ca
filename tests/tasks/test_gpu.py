"""The same world on a GPU. Run where there is one; skipped elsewhere."""

import pytest
import torch

from hotlap.config.sensors import CameraConfig
from hotlap.tasks.batch import BatchEnv
from hotlap.tasks.drivers import make_driver
from hotlap.tasks.registry import make_task
from hotlap.tasks.task import leaves, map_tree

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here"),
]
TRACKS = ("generated_track", "mountain_track", "circuit:3", "waveshare")
CAMERA = CameraConfig(width=84, height=84)


def _actions(steps: int, batch: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(3)
    drift = torch.randn(steps, batch, 2, generator=generator).cumsum(0) * 0.05
    return torch.stack([drift[..., 0].clamp(-0.5, 0.5), 0.15 + 0.1 * drift[..., 1].sin()], -1)


def test_cpu_and_gpu_drive_alike_for_200_steps() -> None:
    """Ends of episodes agree exactly, positions within a millimetre, while noise has not grown."""
    batch, steps = 16, 200
    actions = _actions(steps, batch)
    envs = {
        device: BatchEnv(make_task("donkey-telemetry", device, tracks=TRACKS), batch, seed=5)
        for device in ("cpu", "cuda")
    }
    for env in envs.values():
        env.reset()
    for action in actions:
        cpu, gpu = (env.step(action) for env in envs.values())
        assert torch.equal(cpu.terminated, gpu.terminated.cpu())
        assert torch.equal(cpu.metrics["laps"], gpu.metrics["laps"].cpu())
        torch.testing.assert_close(gpu.metrics["pos"].cpu(), cpu.metrics["pos"], atol=1e-3, rtol=0)


def test_random_draws_are_equal_to_the_bit() -> None:
    """Where episodes begin is decided by integers."""
    begun = []
    for device in ("cpu", "cuda"):
        task = make_task("donkey-telemetry", device, tracks=TRACKS, start="random")
        who = torch.arange(64, device=device)
        begun.append(task.begin(9, who, who * 3)["key"].cpu())
    assert torch.equal(*begun)


def test_pictures_agree_between_cpu_and_gpu() -> None:
    """Fewer than one pixel in a hundred differs by more than two grey levels."""
    pictures = []
    for device in ("cpu", "cuda"):
        task = make_task("donkey", device, tracks=TRACKS, camera=CAMERA, start="random")
        pictures.append(BatchEnv(task, 32, seed=1).reset().cpu().to(torch.int16))
    differs = (pictures[0] - pictures[1]).abs() > 2
    assert differs.float().mean() < 0.01


def test_a_captured_step_equals_an_eager_one() -> None:
    """Compiled and replayed, with episodes that end on the way: same ends, same places."""
    batch, steps = 64, 150
    actions = _actions(steps, batch).cuda() * 2
    settings = {"tracks": TRACKS, "camera": CAMERA, "max_steps": 60}
    envs = [
        BatchEnv(make_task("donkey", "cuda", compiled, **settings), batch)
        for compiled in (False, True)
    ]
    for env in envs:
        env.reset()
    ended = 0
    for action in actions:
        eager, graphed = (env.step(action) for env in envs)
        assert torch.equal(eager.done, graphed.done)
        torch.testing.assert_close(graphed.metrics["pos"], eager.metrics["pos"], atol=1e-3, rtol=0)
        seen = [step.observation.to(torch.int16) for step in (eager, graphed)]
        assert ((seen[0] - seen[1]).abs() > 2).float().mean() < 0.02
        if bool(eager.done.any()):
            ended += 1
            index = eager.done.nonzero().squeeze(-1)
            last = [env.final_observation(index).to(torch.int16) for env in envs]
            assert ((last[0] - last[1]).abs() > 2).float().mean() < 0.02
    assert ended > 0


def test_what_a_captured_step_returns_is_kept() -> None:
    """The next step does not overwrite it, unless borrowing was asked for."""
    env = BatchEnv(make_task("donkey-telemetry", "cuda", True), 8)
    env.reset()
    action = torch.full((8, 2), 0.3, device="cuda")
    first = vars(env.step(action))
    kept = map_tree(torch.clone, first)
    env.step(action)
    assert all(torch.equal(a, b) for a, b in zip(leaves(first), leaves(kept), strict=True))


def test_a_scripted_driver_laps_on_the_gpu() -> None:
    """The whole chain works there: roads, vehicle, laps, driver."""
    task = make_task("donkey-telemetry", "cuda", tracks=("generated_track",), max_steps=600)
    env = BatchEnv(task, 4)
    env.reset()
    driver = make_driver("pure_pursuit", task)
    laps = sum(float(env.step(driver(env.world)).metrics["lap_time"].sum()) > 0 for _ in range(500))
    assert laps >= 1


@pytest.mark.parametrize("first", [0, 1, 7])
@pytest.mark.parametrize("compiled", [False, True])
def test_bad_actions_are_refused_within_a_few_steps(first: int, compiled: bool) -> None:
    """A GPU is not made to wait at every step, but a NaN does not go unnoticed for long."""
    env = BatchEnv(make_task("donkey-telemetry", "cuda", compiled), 8)
    env.reset()
    with pytest.raises(ValueError, match="environment 3"):
        for step in range(130):
            action = torch.zeros(8, 2, device="cuda")
            if step == first:
                action[3, 0] = torch.nan
            env.step(action)


def carracing(device: str, captured: bool, compiled: bool = False) -> BatchEnv:
    tracks = ("carracing:0-3", "carracing:figure_eight")
    task = make_task("carracing", device, compiled, tracks=tracks, repeat=2, reward="thorough")
    return BatchEnv(task, 8, seed=2, captured=captured)


@pytest.mark.parametrize(("captured", "compiled"), [(False, False), (True, False), (True, True)])
def test_carracing_is_the_same_on_a_gpu(captured: bool, compiled: bool) -> None:
    cpu, gpu = carracing("cpu", False), carracing("cuda", captured, compiled)
    pictures = [(cpu.reset(), gpu.reset().cpu())]
    for action in _actions(60, 8):
        steps = [env.step(action) for env in (cpu, gpu)]
        assert torch.equal(steps[0].done, steps[1].done.cpu())
        torch.testing.assert_close(steps[1].reward.cpu(), steps[0].reward, atol=1e-3, rtol=0)
        for name in ("x", "y"):
            found = steps[1].metrics[name].cpu()
            torch.testing.assert_close(found, steps[0].metrics[name], atol=1e-2, rtol=0)
        pictures.append((steps[0].observation, steps[1].observation.cpu().clone()))
    ours, theirs = (torch.stack(column).to(torch.int16) for column in zip(*pictures, strict=True))
    assert ((ours - theirs).abs() > 2).float().mean() < 0.01
