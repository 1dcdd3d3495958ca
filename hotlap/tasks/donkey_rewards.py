"""Rewards of the donkey task, by name.

    closeness   1 on the line, 0 at max_cte and beyond
    forward     speed along the car's nose, m/s
    efficiency  road won over distance driven in the last 30 to 60 steps: see `efficiency`

Each is a dict of named terms with weights, so that what a policy earned can be read term by term.
The versions follow the public record of a research project on the Unity simulator: each cures what
the one before it was caught paying for. Its rule against laps of under five seconds has no place
here, where a lap is only counted once it is driven.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from hotlap.tasks.efficiency import efficiency

GATE = 0.15
"""Efficiency below which v6 pays nothing.

Scripted honest drivers stay above 0.7 from the line and 0.5 from random starts.
"""
FIRM, WILDEST = 0.9, 3.0
"""Share of the best slip from which tyres slide, and most that is counted beyond it.

The scripted racing line is beyond 0.9 in one step of a thousand, trained drivers in one of a
hundred, and a car that spins in all of the last ten.
"""


@dataclass(frozen=True)
class Signals:
    """What rewards are made of, all (B, N)."""

    closeness: Tensor
    forward: Tensor
    speed: Tensor
    """Magnitude of the velocity, m/s."""
    off_track: Tensor
    """1 where the car has just left the road for good, else 0."""
    hit: Tensor
    """1 where the car has just hit a wall, else 0."""
    on_road: Tensor
    """Whether some part of the car's width is on the road, bool."""
    outside: Tensor
    """Share of the car's width that is beyond an edge of the road."""
    moved: Tensor
    """Signed distance along the road in this step, metres."""
    steer_before: Tensor
    """Wheel angle before this step, rad."""
    steer: Tensor
    """Wheel angle after it, rad."""
    full_steer: float
    """Wheel angle of a full command, rad."""
    dt: float
    """Length of the step, seconds."""
    window: dict[str, Tensor]
    """What efficiency is reckoned from; empty where the reward does not ask for it."""
    slip: Tensor | None = None
    """Slip of the rear tyres over that at which they hold best; None where nobody asks."""
    strange: Tensor | None = None
    """1 where the episode's world is randomised, else 0; None where nobody knows of any."""


def _ended(signals: Signals) -> Tensor:
    """1 where the episode ends in this step, else 0."""
    return torch.maximum(signals.off_track, signals.hit)


def _speed_bonus(signals: Signals) -> Tensor:
    """What `line_speed` pays for going forwards, times speed."""
    paid = signals.closeness * signals.forward.clamp(min=0.0) * (1 - _ended(signals))
    return paid * signals.speed


def _efficient(signals: Signals) -> Tensor:
    """Closeness times efficiency, nothing at the end."""
    share = efficiency(signals.window).clamp(max=1.0)
    return signals.closeness * share * (1 - _ended(signals))


def _progress(signals: Signals) -> Tensor:
    """Progress per second; beside the road only what is lost counts, or loops over its edge pay."""
    gained = torch.where(signals.on_road, signals.moved, signals.moved.clamp(max=0.0))
    return gained / signals.dt


def _sliding(signals: Signals) -> Tensor:
    """How far the rear tyres are beyond what a good driver ever asks of them.

    A spin begins half a second before it is one: the tail goes out further than the tyres hold
    best, and then nothing brings it back.
    """
    if signals.slip is None:
        return torch.zeros_like(signals.speed)
    return (signals.slip - FIRM).clamp(0.0, WILDEST)


def _ended_strange(signals: Signals) -> Tensor:
    """1 where an episode ends in a randomised world, else 0."""
    ended = _ended(signals)
    return torch.zeros_like(ended) if signals.strange is None else ended * signals.strange


Term = Callable[[Signals], Tensor]

TERMS: dict[str, Term] = {
    # DonkeyCar's own: forward speed scaled by closeness, backward speed in full; not paid at the
    # end.
    "line_speed": lambda s: (
        torch.where(s.forward > 0, s.closeness * s.forward, s.forward) * (1 - _ended(s))
    ),
    "close_speed": lambda s: s.closeness * s.speed,
    "speed_bonus": _speed_bonus,
    "efficient_bonus": lambda s: _speed_bonus(s) * efficiency(s.window).clamp(max=1.0),
    "efficient": _efficient,
    "efficient_speed": lambda s: _efficient(s) * s.speed,
    "gated_speed": lambda s: torch.where(efficiency(s.window) < GATE, 0.0, s.closeness * s.speed),
    "progress": _progress,
    "over_edge": lambda s: s.outside,
    "off_road": lambda s: (~s.on_road).to(torch.float32),
    "sliding": _sliding,
    "steering_change": lambda s: (s.steer - s.steer_before).abs() / s.full_steer,
    "ended": _ended,
    "ended_strange": _ended_strange,
}
NEED_WINDOW = frozenset({"efficient_bonus", "efficient", "efficient_speed", "gated_speed"})
"""Terms for which a task has to keep a window."""

REWARDS: dict[str, dict[str, float]] = {
    # What the DonkeyCar client pays: (1 - |cte| / max_cte) * forward speed, and -1 for the step
    # that ends the episode, off the road or at a wall (its -2 for a hit is never reached: a hit
    # ends it).
    "default": {"line_speed": 1.0, "ended": -1.0},
    # speed * (1 - |cte| / max_cte) and nothing else: the first shaping. Speed has no direction, so
    # rocking to and fro at the boundary paid, and leaving the road cost nothing.
    "v1": {"close_speed": 1.0},
    # DonkeyCar's own, which takes back what is driven backwards, with a bonus for speed. Circling
    # at the start line goes forwards all the time, and was paid with the bonus.
    "v2": {"line_speed": 1.0, "speed_bonus": 0.1, "ended": -1.0},
    # The bonus is multiplied by efficiency. Circling lost the bonus and kept the rest, which was
    # reason enough to go on.
    "v3": {"line_speed": 1.0, "efficient_bonus": 0.1, "ended": -1.0},
    # Everything is multiplied by efficiency, so circling earns nothing. But crawling earns nearly
    # as much as racing, and a car that stalls on a hill loses all factors at once and with them
    # any hint that throttle would help.
    "v4": {"efficient": 1.0, "efficient_speed": 0.1, "ended": -1.0},
    # Speed and closeness again, in tenths, with a price on the end: hills are climbed. Without
    # efficiency circling is paid in full once more, and so is reversing.
    "v5": {"close_speed": 0.1, "ended": -1.0},
    # v5 behind a gate: nothing while efficiency is below GATE. A gate, not a factor: a slow climb
    # is paid as in v5, and circling, reversing and rocking earn nothing. What is left: a car that
    # weaves is paid for its detours.
    "v6": {"gated_speed": 0.1, "ended": -1.0},
    # Lap time and safety: metres of road per second, whatever the line, so that a detour is worth
    # nothing and corners may be cut as far as the road goes. A step beside the road costs more
    # than a quick step earns, one with a wheel over the edge in proportion. An end forgoes what
    # would have followed, and costs about a second at speed beside: at 20 a policy that knew
    # everything risked one lap in twenty, at 200 one with a camera learned to stand still.
    "racing": {
        "progress": 1.0,
        "over_edge": -4.0,
        "off_road": -2.0,
        "steering_change": -0.1,
        "ended": -50.0,
    },
    # What is over the edge costs more than twice as much, because that is met every lap and an end
    # seldom; an end costs two seconds. The more a policy learns under it, the faster it gets and no
    # safer: it risks one lap in a hundred.
    "sure": {
        "progress": 1.0,
        "over_edge": -10.0,
        "off_road": -2.0,
        "steering_change": -0.1,
        "ended": -120.0,
    },
    # Where looks, tyres and delays are as ever, a driver has to be fast; where they are not, it has
    # to come home: an end costs nearly three times as much there. Best after sure.
    "wary": {
        "progress": 1.0,
        "over_edge": -10.0,
        "off_road": -2.0,
        "steering_change": -0.1,
        "ended": -250.0,
        "ended_strange": -450.0,
    },
    # sure, where sliding costs as well. Most cars that are lost spin out of a bend; the end tells
    # that once in thousands of steps, and the rear tyres in each of the ten before it, and
    # every time that it nearly happens.
    "poised": {
        "progress": 1.0,
        "over_edge": -10.0,
        "off_road": -2.0,
        "sliding": -10.0,
        "steering_change": -0.1,
        "ended": -120.0,
    },
    # The same for careful.
    "composed": {
        "progress": 1.0,
        "over_edge": -10.0,
        "off_road": -2.0,
        "sliding": -10.0,
        "steering_change": -0.1,
        "ended": -400.0,
    },
    # sure, where an end costs six seconds and more. A learner with a camera would stand still under
    # it, if standing did not end its episode too. Best after sure, which is learned faster.
    "careful": {
        "progress": 1.0,
        "over_edge": -10.0,
        "off_road": -2.0,
        "steering_change": -0.1,
        "ended": -400.0,
    },
}


def needs_window(name: str) -> bool:
    """Whether the reward called `name` looks at efficiency."""
    return not NEED_WINDOW.isdisjoint(REWARDS[name])


def needs_strange(name: str) -> bool:
    """Whether the reward called `name` asks whether a world is randomised."""
    return "ended_strange" in REWARDS[name]


def needs_slip(name: str) -> bool:
    """Whether the reward called `name` asks how the tyres slip."""
    return "sliding" in REWARDS[name]


@dataclass(frozen=True)
class Turning:
    """A reward that another one turns into while a policy learns."""

    name: str
    share: Tensor
    """How far it has, () from 0 to 1; written over in place."""


def reward_terms(name: str, signals: Signals, turning: Turning | None = None) -> dict[str, Tensor]:
    """Weighted terms of the reward called `name`, each (B, N), on its way to another if told so."""
    weights: dict[str, float | Tensor] = dict(REWARDS[name])
    if turning is not None:
        last = REWARDS[turning.name]
        for term in weights | last:
            before = REWARDS[name].get(term, 0.0)
            weights[term] = before + turning.share * (last.get(term, 0.0) - before)
    return {term: weight * TERMS[term](signals) for term, weight in weights.items()}
