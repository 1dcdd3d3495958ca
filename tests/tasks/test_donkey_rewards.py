"""What each reward pays for: worked by hand, then driven."""

import runpy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from hotlap.config.randomisation import RandomisationConfig
from hotlap.config.tasks import DONKEY_REWARDS, DonkeyConfig
from hotlap.sim.tracks import NAMES, Start
from hotlap.sim.tracks.selection import expand
from hotlap.tasks import drivers
from hotlap.tasks.batch import BatchEnv
from hotlap.tasks.donkey import DonkeyTask
from hotlap.tasks.donkey_rewards import GATE, NEED_WINDOW, REWARDS, TERMS, Signals, reward_terms
from hotlap.tasks.registry import make_task

from ..sim.roads_drawn import straight

BENCHMARK = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "scripted_rewards.py"))
HONEST, FILLED = BENCHMARK["HONEST"], BENCHMARK["FILLED"]
drive, least_efficient = BENCHMARK["drive"], BENCHMARK["least_efficient"]


# --- by hand ---------------------------------------------------------------------------------


def signals(share: float = 1.0, on_road: bool = True, **values: Any) -> Signals:
    """A car 2 m/s fast along its nose, a quarter of the way to max_cte, that has driven 1 m."""
    usual = {"closeness": 0.75, "forward": 2.0, "speed": 2.5, "off_track": 0.0, "hit": 0.0,
             "outside": 0.0, "moved": 0.1, "steer_before": 0.1, "steer": 0.05}  # fmt: skip
    one, zero = torch.tensor([[1.0]]), torch.tensor([[0.0]])
    window = {"gained": share * one, "driven": one, "gained_before": zero, "driven_before": zero}
    return Signals(
        **{name: torch.tensor([[v]]) for name, v in (usual | values).items()},
        on_road=torch.tensor([[on_road]]),
        full_steer=0.25,
        dt=0.05,
        window=window,
    )


def paid(name: str, found: Signals) -> dict[str, float]:
    return {term: value.item() for term, value in reward_terms(name, found).items()}


@pytest.mark.parametrize(
    ("values", "terms"),
    [
        ({}, {"line_speed": 1.5, "ended": 0.0}),  # 0.75 * 2
        ({"forward": -1.0}, {"line_speed": -1.0, "ended": 0.0}),  # in full
        ({"off_track": 1.0}, {"line_speed": 0.0, "ended": -1.0}),
        ({"hit": 1.0}, {"line_speed": 0.0, "ended": -1.0}),
        ({"hit": 1.0, "off_track": 1.0}, {"line_speed": 0.0, "ended": -1.0}),  # once
    ],
)
def test_the_default_reward(values: dict[str, Any], terms: dict[str, float]) -> None:
    assert paid("default", signals(**values)) == terms


def test_v1_pays_speed_in_any_direction() -> None:
    assert paid("v1", signals(forward=-2.0)) == {"close_speed": 0.75 * 2.5}


def test_v2_adds_a_tenth_of_the_speed_to_what_is_driven_forwards() -> None:
    expected = {"line_speed": 1.5, "speed_bonus": 0.1 * 1.5 * 2.5, "ended": 0.0}
    assert paid("v2", signals()) == pytest.approx(expected)
    backwards = {"line_speed": -2.0, "speed_bonus": 0.0, "ended": 0.0}
    assert paid("v2", signals(forward=-2.0)) == backwards


def test_v3_takes_the_bonus_from_a_circle_and_leaves_the_rest() -> None:
    half = {"line_speed": 1.5, "efficient_bonus": 0.1 * 1.5 * 2.5 * 0.5, "ended": 0.0}
    assert paid("v3", signals(0.5)) == pytest.approx(half)
    assert paid("v3", signals(0.0)) == {"line_speed": 1.5, "efficient_bonus": 0.0, "ended": 0.0}


def test_v4_takes_everything_from_a_circle_but_pays_a_crawl_like_a_race() -> None:
    half = {"efficient": 0.375, "efficient_speed": 0.1 * 0.375 * 2.5, "ended": 0.0}
    assert paid("v4", signals(0.5)) == pytest.approx(half)
    assert sum(paid("v4", signals(0.0)).values()) == 0.0
    crawl, race = (sum(paid("v4", signals(speed=v)).values()) for v in (0.1, 2.5))
    assert crawl > 0.8 * race


def test_v5_is_v1_in_tenths_with_a_price_on_the_end() -> None:
    assert paid("v5", signals()) == pytest.approx({"close_speed": 0.1875, "ended": 0.0})
    assert paid("v5", signals(closeness=0.0, off_track=1.0))["ended"] == -1.0


@pytest.mark.parametrize(("share", "open_"), [(0.0, False), (0.149, False), (0.151, True)])
def test_v6_is_v5_behind_a_gate(share: float, open_: bool) -> None:
    five, six = paid("v5", signals(share)), paid("v6", signals(share))
    assert six["gated_speed"] == (five["close_speed"] if open_ else 0.0)
    assert six["ended"] == five["ended"]


@pytest.mark.parametrize(
    ("found", "terms"),
    [
        (signals(), {"progress": 2.0}),  # 0.1 m in 0.05 s
        (signals(outside=0.25), {"progress": 2.0, "over_edge": -1.0}),  # a wheel, in proportion
        (signals(outside=1.0, on_road=False), {"over_edge": -4.0, "off_road": -2.0}),
        (signals(moved=-0.1, on_road=False), {"progress": -2.0, "off_road": -2.0}),
        (signals(off_track=1.0), {"progress": 2.0, "ended": -50.0}),
    ],
)
def test_racing_pays_metres_of_road_per_second(found: Signals, terms: dict[str, float]) -> None:
    nothing = dict.fromkeys(REWARDS["racing"], 0.0)
    steering = {"steering_change": -0.1 * 0.05 / 0.25}
    assert paid("racing", found) == pytest.approx(nothing | steering | terms)


@pytest.mark.parametrize("side", [1, -1])
@pytest.mark.parametrize("share", [-0.5, 0.0, 0.25, 0.5, 1.0, 2.0])
def test_how_much_of_a_car_is_beyond_the_edge(side: int, share: float) -> None:
    """A car at rest, with a share of its width over the edge: less is inside, more far out."""
    width = DonkeyConfig().car.width
    n = side * (0.5 + (share - 0.5) * width)  # the edge is 0.5 m from the line
    track = replace(straight(), starts=(Start(s=20.0, n=n),))
    config = DonkeyConfig(sensor="telemetry", reward="racing")
    env = BatchEnv(DonkeyTask(config, tracks=(track,)), 1)
    env.reset()
    step = env.step(torch.zeros(1, 2))
    assert step.terms["over_edge"].item() == pytest.approx(-4 * min(max(share, 0), 1), abs=1e-4)
    assert step.metrics["over_edge"].item() == pytest.approx(share * width, abs=1e-5)


def test_the_names_offered_are_the_rewards_there_are() -> None:
    assert tuple(REWARDS) == DONKEY_REWARDS
    assert {term for reward in REWARDS.values() for term in reward} == set(TERMS) >= NEED_WINDOW


def test_an_unknown_reward_is_answered_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="default, poised, racing, sure, v1, v2, v3, v4, v5, v6"):
        DonkeyConfig(reward="v7")


# --- driven ----------------------------------------------------------------------------------


def test_the_default_reward_is_what_it_was_to_the_bit() -> None:
    task = make_task("donkey-telemetry", start="random", throttle_min=-1.0, max_cte=4.0)
    env = BatchEnv(task, 64)
    env.reset()
    generator = torch.Generator().manual_seed(0)
    ended = 0
    for _ in range(150):
        step = env.step(torch.rand(64, 2, generator=generator) * 2 - 1)
        told = step.metrics
        closeness = (1 - told["n"].abs() / 0.5).clamp(min=0.0)
        forward = told["forward_vel"]
        over = step.terminated.to(torch.float32)
        speed = torch.where(forward > 0, closeness * forward, forward) * (1 - over)
        assert torch.equal(step.reward, speed + -1.0 * over)
        ended += int(over.sum())
    assert ended > 10 and set(env.world) == {
        "key", "road", "car", "params", "place", "laps", "time", "throttle"
    }  # fmt: skip


def rolling(reward: str) -> Tensor:
    """Rewards of steps 100 to 200 on straight roads: forwards, still, backwards, rocking (100, 4).

    The car that rocks to and fro does so near the boundary.
    """
    tracks = tuple(
        replace(straight(length=200.0), starts=(Start(s=100.0, n=n),)) for n in (0, 0, 0, 0.85)
    )
    config = DonkeyConfig(sensor="telemetry", reward=reward, throttle_min=-1.0)
    env = BatchEnv(DonkeyTask(config, tracks=tracks), 4)
    env.reset()
    rewards = []
    for index in range(200):
        rocking = 0.5 if (index // 10) % 4 in (0, 3) else -0.5
        throttle = torch.tensor([0.2, 0.0, -0.2, rocking])
        step = env.step(torch.stack([torch.zeros(4), throttle], -1))
        assert not step.done.any()
        rewards.append(step.reward)
    return torch.stack(rewards)[100:]


@pytest.mark.parametrize(
    ("reward", "forwards", "still", "backwards", "rocking"),
    [
        ("default", 1, 0, -1, -1),
        ("v1", 1, 0, 1, 1),
        ("v2", 1, 0, -1, -1),
        ("v3", 1, 0, -1, -1),
        ("v4", 1, 0, 0, 0),
        ("v5", 1, 0, 1, 1),
        ("v6", 1, 0, 0, 0),
        ("racing", 1, 0, -1, -1),
        ("sure", 1, 0, -1, -1),
        ("poised", 1, 0, -1, -1),
        ("wary", 1, 0, -1, -1),
        ("careful", 1, 0, -1, -1),
        ("composed", 1, 0, -1, -1),
    ],
)
def test_what_is_paid_ignored_and_taken(
    reward: str, forwards: int, still: int, backwards: int, rocking: int
) -> None:
    """1 paid, 0 ignored, -1 taken."""
    rewards = rolling(reward)
    wanted = torch.tensor([forwards, still, backwards, rocking])
    assert torch.equal(rewards.sum(0).sign(), wanted.to(torch.float32))
    assert not rewards[:, wanted == 0].any()


@pytest.mark.parametrize("reward", DONKEY_REWARDS)
@pytest.mark.parametrize("wall_gap", [None, 0.25])
def test_what_a_crash_costs(reward: str, wall_gap: float | None) -> None:
    track = replace(straight(), wall_gap=wall_gap, starts=(Start(s=20.0),))
    config = DonkeyConfig(sensor="telemetry", reward=reward)
    env = BatchEnv(DonkeyTask(config, tracks=(track,)), 1)
    env.reset()
    for _ in range(100):
        step = env.step(torch.tensor([[1.0, 0.5]]))
        if step.terminated:
            break
    prices = {"v1": 0.0, "racing": -50.0, "sure": -120.0, "wary": -250.0, "careful": -400.0,
              "poised": -120.0, "composed": -400.0}  # fmt: skip
    price = prices.get(reward, -1.0)
    assert step.terms.get("ended", torch.zeros(1)).item() == price
    if price:
        assert step.reward.item() < 0
    else:
        assert step.reward.item() >= 0  # v1 even pays the speed of the impact


@pytest.mark.parametrize(
    ("ranges", "price"),
    [
        (RandomisationConfig(), {0.0}),
        (RandomisationConfig(friction=(0.8, 1.2)), {-450.0}),
        (RandomisationConfig(friction=(0.8, 1.2), share=0.5), {0.0, -450.0}),
    ],
)
def test_a_wary_driver_pays_more_in_a_randomised_world(
    ranges: RandomisationConfig, price: set[float]
) -> None:
    track = replace(straight(), starts=(Start(s=20.0),))
    config = DonkeyConfig(sensor="telemetry", reward="wary", randomise=ranges)
    env = BatchEnv(DonkeyTask(config, tracks=(track,)), 16)
    env.reset()
    paid: dict[int, float] = {}
    for _ in range(100):
        step = env.step(torch.tensor([[1.0, 0.5]] * 16))
        for who in step.terminated.nonzero().flatten().tolist():
            usual = bool(env.ended_world["params"]["mu"][who] == config.car.mu)
            extra = float(step.terms["ended_strange"][who])
            assert (extra == 0) == usual
            paid[who] = extra
    assert set(paid.values()) == price


@pytest.mark.parametrize(
    ("slip", "price"), [(0.5, 0.0), (0.9, 0.0), (1.0, -1.0), (1.4, -5.0), (9.0, -30.0)]
)
def test_what_sliding_costs(slip: float, price: float) -> None:
    assert paid("poised", signals(slip=slip))["sliding"] == pytest.approx(price)


def test_without_tyres_nothing_slides() -> None:
    assert paid("poised", signals())["sliding"] == 0.0
    config = DonkeyConfig(sensor="telemetry", reward="poised", vehicle="turtlebot")
    env = BatchEnv(DonkeyTask(config, tracks=(straight(),)), 1)
    env.reset()
    assert env.step(torch.tensor([[1.0, 1.0]])).terms["sliding"].item() == 0.0


def test_the_racing_line_hardly_slides() -> None:
    config = DonkeyConfig(sensor="telemetry", reward="poised", end="road", throttle_min=-1.0)
    env = BatchEnv(DonkeyTask(replace(config, tracks=("generated_track",))), 1)
    env.reset()
    drive = drivers.make_driver("racing_line", env.task)
    honest = [env.step(drive(env.world).squeeze(1)).terms for _ in range(160)]
    earned, charged = (
        sum(float(terms[name]) for terms in honest) for name in ("progress", "sliding")
    )
    assert -0.02 * earned < charged <= 0  # measured: a hundredth


def test_a_tail_that_is_out_costs_though_the_car_is_on_the_road() -> None:
    config = DonkeyConfig(sensor="telemetry", reward="poised", end="road")
    env = BatchEnv(DonkeyTask(config, tracks=(straight(),)), 2)
    env.reset()
    car = env.world["car"]
    car["vx"].fill_(3.0)
    car["vy"].copy_(torch.tensor([[0.3], [1.2]]))  # tyres hold best at 0.2 of the speed
    step = env.step(torch.tensor([[0.0, 0.3]] * 2))
    assert not step.done.any() and step.terms["over_edge"].tolist() == [0.0, 0.0]
    held, slid = step.terms["sliding"].tolist()
    assert held == 0.0 and slid < -1.0


@pytest.mark.parametrize(("max_cte", "share"), [(8.0, 0.75), (16.0, 1.0)])
def test_v5_pays_a_circler_like_an_honest_driver(max_cte: float, share: float) -> None:
    """And the better, the further out an episode ends; measured: 0.79 and 1.02 of it."""
    circling = drive("v5", "circler", 300, max_cte=max_cte)[FILLED:]
    honest = drive("v5", "centre_line", 300, max_cte=max_cte)[FILLED:]
    assert float(circling.min()) > 0
    assert float(circling.mean()) > share * float(honest.mean())


@pytest.mark.parametrize(
    ("reward", "pays"),
    [("default", 1), ("v1", 1), ("v2", 1), ("v3", 1), ("v4", 0), ("v5", 1), ("v6", 0),
     ("racing", -1)],
)  # fmt: skip
def test_who_pays_the_circler(reward: str, pays: int) -> None:
    tracks = ("generated_track", "waveshare", "mountain_track", "circuit_launch", "circuit:1")
    rewards = drive(reward, "circler", 200, tracks=tracks)[FILLED:]
    if pays:
        assert rewards.sum(0).sign().tolist() == [pays] * len(tracks)
    else:
        assert float(rewards.abs().max()) < 1e-3  # where the line bends, a turn wins a hair of road
    if reward == "v6":
        assert not rewards.any()  # and the gate leaves nothing of that


def test_v6_pays_slow_circles_nothing_either(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn takes 217 steps, far longer than the window: net progress would pay half of it."""
    monkeypatch.setattr(drivers, "CIRCLE_GRIP", 0.05)
    assert not drive("v6", "circler", 450)[225:].any()


@pytest.mark.parametrize("driver", HONEST)
def test_the_gate_stays_open_on_two_tracks(driver: str) -> None:
    tracks = ("generated_track", "waveshare")
    assert min(least_efficient(driver, tracks, "line").values()) > 5 * GATE


@pytest.mark.slow
@pytest.mark.parametrize("driver", HONEST)
@pytest.mark.parametrize("start", ["line", "random"])
def test_the_gate_never_closes_on_an_honest_lap(driver: str, start: str) -> None:
    families = ("road:0-9", "circuit:0-9", "hills:0-9", "eight:0-3", "circuit:0-3@0.9")
    tracks = (*NAMES, *expand(families))
    lowest = least_efficient(driver, tracks, start)
    assert set(lowest) == set(tracks)  # nobody crashes
    assert min(lowest.values()) > 4 * GATE, min(lowest.items(), key=lambda item: item[1])
