"""What driving a DonkeyCar earns and where it ends, worked by hand."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from hotlap.config.tasks import DonkeyConfig
from hotlap.sim.tracks import NAMES, Start, Track, find_track
from hotlap.tasks.batch import BatchEnv, Step
from hotlap.tasks.donkey import COURSE, UNIT, DonkeyTask

from ..sim.roads_drawn import circle, straight


def task_on(track: Track, **settings: object) -> DonkeyTask:
    config = DonkeyConfig(sensor="telemetry", **settings)  # type: ignore[arg-type]
    return DonkeyTask(config, tracks=(track,))


def begun_at(n: float, track: Track | None = None, **settings: object) -> BatchEnv:
    """One car at rest in the middle of a straight road, n metres to the left of its line."""
    track = replace(track or straight(), starts=(Start(s=20.0, n=n),))
    batch = BatchEnv(task_on(track, **settings), 1)
    batch.reset()
    return batch


def go(batch: BatchEnv, steer: float, throttle: float, steps: int = 1) -> Step:
    for _ in range(steps):
        step = batch.step(torch.tensor([[steer, throttle]] * batch.num_envs))
    return step


# --- rewards ---------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [0.0, 0.4, -0.4])
def test_a_step_earns_forward_speed_times_closeness(n: float) -> None:
    step = go(begun_at(n, max_cte=8.0), 0.0, 1.0, steps=10)
    speed = step.metrics["forward_vel"].item()
    assert speed > 0.5
    assert step.metrics["cte"].item() == pytest.approx(-n / UNIT, abs=1e-3)
    assert step.reward.item() == pytest.approx((1 - abs(n) / (8 * UNIT)) * speed, rel=1e-4)


# --- endings ---------------------------------------------------------------------------------


@pytest.mark.parametrize("side", [1, -1])
@pytest.mark.parametrize(("n", "over"), [(0.99, False), (1.01, True)])
def test_an_episode_ends_beyond_max_cte_on_either_side(side: int, n: float, over: bool) -> None:
    step = go(begun_at(side * n, max_cte=8.0), 0.0, 0.0)  # 8 u are 1 m
    assert (bool(step.terminated), bool(step.truncated)) == (over, False)
    assert step.reward.item() == (-1.0 if over else 0.0)


@pytest.mark.parametrize("side", [1, -1])
@pytest.mark.parametrize(("beyond", "over"), [(-0.001, False), (0.001, True)])
def test_an_episode_may_end_where_no_part_of_the_car_is_on_the_road(
    side: int, beyond: float, over: bool
) -> None:
    n = side * (0.5 + DonkeyConfig().car.width / 2 + beyond)  # the edge is 0.5 m from the line
    step = go(begun_at(n, end="road"), 0.0, 0.0)
    assert (bool(step.terminated), bool(step.truncated)) == (over, False)
    assert step.reward.item() == (-1.0 if over else 0.0)
    assert not go(begun_at(n), 0.0, 0.0).terminated  # unless asked for, max_cte alone ends it


def test_reversing_may_end_an_episode() -> None:
    """From half a metre per second backwards on, where the road ends it; slower is braking."""
    for end, over in (("road", True), ("cte", False)):
        batch = begun_at(0.0, end=end, throttle_min=-1.0)
        speeds = []
        for _ in range(20):
            step = go(batch, 0.0, -1.0)
            speeds.append(step.metrics["forward_vel"].item())
            if step.terminated:
                break
        assert bool(step.terminated) == over
        assert speeds[-1] < -0.5
        assert not over or min(speeds[:-1]) >= -0.5


@pytest.mark.parametrize(("end", "throttle", "over"), [
    ("road", 0.0, True), ("road", 0.5, False), ("cte", 0.0, False),
])  # fmt: skip
def test_standing_may_end_an_episode(end: str, throttle: float, over: bool) -> None:
    """From two seconds after its beginning on, where the road ends it."""
    batch = begun_at(0.0, end=end)
    ended = [bool(go(batch, 0.0, throttle).terminated) for _ in range(43)]
    assert not any(ended[:40])
    assert any(ended) == over


def test_max_cte_ends_an_episode_on_the_road_too() -> None:
    assert go(begun_at(0.3, max_cte=2.0, end="road"), 0.0, 0.0).terminated  # 2 u are 0.25 m


@pytest.mark.parametrize("side", [1, -1])
@pytest.mark.parametrize(("n", "hit"), [(0.65, False), (0.68, True)])
def test_an_episode_ends_where_the_cars_side_meets_a_wall(side: int, n: float, hit: bool) -> None:
    # Road's edge at 0.5, wall 0.25 further, half a car of 0.174 m: touched from 0.663 on.
    step = go(begun_at(side * n, replace(straight(), wall_gap=0.25)), 0.0, 0.0)
    assert bool(step.terminated) is hit
    assert step.metrics["hit"].item() == float(hit)
    assert step.reward.item() == (-1.0 if hit else 0.0)


def test_where_an_open_road_runs_out_the_episode_is_cut_off() -> None:
    track = replace(straight(length=10.0), starts=(Start(s=8.0),))
    batch = BatchEnv(task_on(track), 1)
    batch.reset()
    for _ in range(60):
        step = go(batch, 0.0, 1.0)
        if step.done:
            break
    assert bool(step.truncated) and not bool(step.terminated)
    assert step.metrics["s"].item() == pytest.approx(10.0 - 2 * UNIT, abs=0.2)


# --- actions ---------------------------------------------------------------------------------


def test_actions_are_held_to_their_limits() -> None:
    settings = {"steer_limit": 0.5, "throttle_min": 0.1, "throttle_max": 0.6}
    for wild, kept in (((9.0, 9.0), (0.5, 0.6)), ((-9.0, -9.0), (-0.5, 0.1))):
        one, other = begun_at(0.0, **settings), begun_at(0.0, **settings)
        go(one, *wild, steps=5), go(other, *kept, steps=5)
        for name, value in one.world["car"].items():
            assert torch.equal(value, other.world["car"][name]), name


def test_steering_to_the_right_is_positive_and_so_is_cte_there() -> None:
    batch = begun_at(0.0)
    ctes = [go(batch, 0.5, 0.6).metrics["cte"].item() for _ in range(20)]
    assert ctes[-1] > 0.2 and ctes == sorted(ctes)
    assert batch.world["car"]["y"].item() < 0  # the road runs along +x, so right is down


def test_a_lap_of_a_round_road_is_counted_and_timed() -> None:
    radius = 3.0
    batch = BatchEnv(task_on(circle(radius), max_steps=2000), 1)
    batch.reset()
    times = []
    for _ in range(600):
        place, car = batch.world["place"], batch.world["car"]
        steer = -0.1 * radius / 3.0 + 2.0 * place["n"].item() + 1.5 * place["heading_error"].item()
        step = go(batch, steer - 0.15, 0.3)
        assert not step.done, f"lost at {place['s'].item():.1f} m, {car['vx'].item():.1f} m/s"
        times += [t for t in step.metrics["lap_time"].tolist() if t]
        if len(times) == 2:
            break
    length = float(batch.task.roads.length[0])  # type: ignore[attr-defined]
    assert step.metrics["laps"].item() == 2
    assert 2 * length <= step.metrics["progress"].item() < 2 * length + 0.3
    assert times[1] < times[0]  # the first began at rest
    assert times[1] == pytest.approx(length / step.metrics["speed"].item(), rel=0.1)


# --- beginnings ------------------------------------------------------------------------------


def begin(
    task: DonkeyTask, count: int, seed: int = 0, episode: int = 0
) -> dict[str, dict[str, Tensor]]:
    return task.begin(seed, torch.arange(count), torch.full((count,), episode))


@pytest.mark.parametrize("name", NAMES)
def test_every_track_can_be_driven_from_its_start(name: str) -> None:
    track = find_track(name)
    batch = BatchEnv(task_on(track), 4)
    batch.reset()
    place, car = batch.world["place"], batch.world["car"]
    starts = torch.tensor([start.s for start in track.starts])
    assert float((place["s"] - starts).abs().min(1).values.max()) < 1e-3
    assert float(place["n"].abs().max()) < 1e-3 and float(car["vx"].abs().max()) == 0
    assert float(place["heading_error"].abs().max()) < 1e-2
    step = go(batch, 0.0, 0.5, steps=15)
    assert bool(torch.isfinite(step.observation).all()) and not step.terminated.any()
    assert float(step.metrics["progress"].min()) > 0.05


def test_where_a_track_has_two_starts_both_are_used() -> None:
    task = task_on(find_track("roboracingleague_1"))
    assert len(begin(task, 64)["place"]["s"].round().unique()) == 2


def test_environment_i_drives_on_track_i_modulo_their_number() -> None:
    config = DonkeyConfig(sensor="telemetry", tracks=("generated_track", "warren", "waveshare"))
    assert begin(DonkeyTask(config), 7)["road"].flatten().tolist() == [0, 1, 2, 0, 1, 2, 0]


def test_random_starts_lie_all_along_the_road_and_on_it() -> None:
    track = find_track("generated_track")
    state = begin(task_on(track, start="random"), 2000)
    place, car = state["place"], state["car"]
    s = place["s"] / track.length
    assert float(s.min()) < 0.01 and float(s.max()) > 0.99
    assert bool(
        (place["n"] < place["width_left"]).all() & (-place["n"] < place["width_right"]).all()
    )
    assert float(place["heading_error"].abs().max()) < 0.2
    assert float(car["vx"].min()) >= 0 and 1.9 < float(car["vx"].max()) <= 2.0


def test_one_random_start_in_five_is_at_rest() -> None:
    speed = begin(task_on(find_track("generated_track"), start="random"), 2000)["car"]["vx"]
    assert float((speed == 0).float().mean()) == pytest.approx(0.2, abs=0.03)
    assert float(speed.min()) == 0 and 1.9 < float(speed.max()) <= 2.0


def test_random_starts_leave_room_on_an_open_road() -> None:
    state = begin(task_on(straight(length=40.0), start="random"), 500)
    assert float(state["place"]["s"].min()) >= 0 and float(state["place"]["s"].max()) <= 32.0


def test_an_episode_is_decided_by_seed_identity_and_number_alone() -> None:
    task = task_on(find_track("generated_track"), start="random")
    one, again = begin(task, 8, seed=3, episode=2), begin(task, 8, seed=3, episode=2)
    assert torch.equal(one["key"], again["key"])
    assert torch.equal(one["car"]["x"], again["car"]["x"])
    keys = [
        begin(task, 8, seed, episode)["key"]
        for seed, episode in ((3, 2), (4, 2), (3, 3), (2**40 + 3, 2))
    ]
    assert len(torch.cat(keys).unique()) == 32


def test_an_unknown_setting_names_the_nearest() -> None:
    with pytest.raises(ValueError, match="telemetry"):
        DonkeyConfig(sensor="telemetri")  # type: ignore[arg-type]


def test_the_whole_state_tells_room_and_course() -> None:
    """On a circle of 3 m, 1 m wide, 0.2 m to the left of its line."""
    track = replace(circle(), starts=(Start(s=1.0, n=0.2),))
    task = DonkeyTask(DonkeyConfig(sensor="state"), tracks=(track,))
    batch = BatchEnv(task, 1)
    seen = batch.reset()[0]
    assert seen.shape == task.observation_space.shape == (6 + 6 + 3 * len(COURSE),)
    sine, cosine, left, right, climb, grip = seen[6:12].tolist()
    assert (sine, cosine) == pytest.approx((0.0, 1.0), abs=1e-3)
    assert (left, right) == pytest.approx((0.3, 0.7), abs=1e-2)  # max_cte is 1 m
    assert (climb, grip) == (0.0, 1.0)
    width, grips, curvature = seen[12:].view(3, -1)
    assert grips.tolist() == [1.0] * len(COURSE)
    torch.testing.assert_close(width, torch.ones(len(COURSE)))
    torch.testing.assert_close(curvature, torch.full((len(COURSE),), 1 / 3), rtol=1e-2, atol=0)
