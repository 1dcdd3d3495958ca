"""What telemetry says of a step, in the words of the donkey task: rewards, endings, metrics.

    B cars, one in each environment.

Telemetry tells where a car is beside its path, how fast it goes and what it hit. It does not tell
how far along the road the car is, nor how wide the road is there, so rewards that ask for either
cannot be paid over the wire.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from hotlap.config.tasks import DonkeyConfig
from hotlap.tasks.bridges.pictures import WrongSimulator
from hotlap.tasks.bridges.wire_car import Sight
from hotlap.tasks.donkey_rewards import REWARDS, Signals, reward_terms
from hotlap.wire.messages import Telemetry

TOLD = frozenset({"line_speed", "close_speed", "speed_bonus", "ended"})
"""Terms that telemetry is enough for."""
OPEN_ROADS = ("generated_road", "road")
"""Scenes and families whose roads have an end."""
NODES_LEFT = 2
"""Nodes before the last at which an open road has run out."""


def refuse_untold(config: DonkeyConfig) -> None:
    """Stop where telemetry is not enough for what a driver sees or earns."""
    if config.sensor != "camera":
        raise ValueError(
            f"only the camera can be driven by over the wire, this driver needs {config.sensor}; "
            "use one that was trained with --task donkey"
        )
    if not is_payable(config.reward):
        payable = [name for name in REWARDS if is_payable(name)]
        raise ValueError(
            f"telemetry is not enough for reward {config.reward!r}, which asks for the way along "
            f"the road; over the wire there are {', '.join(payable)} (--reward-shaping)"
        )
    if config.end == "road":
        raise ValueError(
            "telemetry does not tell where the road's edge is: over the wire an episode cannot end "
            'there; use a preset with end = "cte"'
        )


def is_payable(reward: str) -> bool:
    """Whether telemetry is enough for the reward of that name."""
    return TOLD.issuperset(REWARDS[reward])


def judge_sights(config: DonkeyConfig, sights: Sequence[Sight]) -> tuple[dict[str, Tensor], Tensor]:
    """Reward terms (B, 1), and whether each car left the road or hit something (B,)."""
    seen = [sight.telemetry for sight in sights]
    off = _column([abs(_cte(report)) / config.max_cte for report in seen])
    forward = _column([_ahead(report) for report in seen])
    nothing = torch.zeros_like(off)
    signals = Signals(
        closeness=(1 - off).clamp(min=0.0),
        forward=forward,
        speed=_column([report.speed for report in seen]),
        off_track=(off > 1).to(torch.float32),
        hit=_column([float(report.hit != "none") for report in seen]),
        on_road=nothing.bool(),
        outside=nothing,
        moved=nothing,
        steer_before=nothing,
        steer=nothing,
        full_steer=1.0,
        dt=1.0,
        window={},
    )
    over = (signals.off_track + signals.hit) > 0
    return reward_terms(config.reward, signals), over.squeeze(-1)


def has_end(scene: str) -> bool:
    """Whether a scene's road has an end."""
    return scene.partition(":")[0] in OPEN_ROADS


def has_run_out(scene: str, report: Telemetry) -> bool:
    """Whether a car has come to the end of its road."""
    if not has_end(scene) or report.active_node is None:
        return False
    return report.active_node >= (report.total_nodes or 0) - 1 - NODES_LEFT


def metrics_of(sights: Sequence[Sight]) -> dict[str, Tensor]:
    """What is worth knowing about a step, (B,) or (B, 3), in the axes of our own tasks."""
    seen = [sight.telemetry for sight in sights]
    numbers = {
        "cte": [_cte(report) for report in seen],
        "speed": [report.speed for report in seen],
        "forward_vel": [_ahead(report) for report in seen],
        "hit": [float(report.hit != "none") for report in seen],
        "lap_time": [sight.last_lap_time if sight.lapped else 0.0 for sight in sights],
        # Ours: x is Unity's x, y its z, z its y; in the body's frame ahead, left, up.
        "pos": [(r.pos_x or 0.0, r.pos_z or 0.0, r.pos_y or 0.0) for r in seen],
        "vel": [(r.vel_z or 0.0, -(r.vel_x or 0.0), r.vel_y or 0.0) for r in seen],
        "accel": [(r.accel_z, -r.accel_x, r.accel_y) for r in seen],
        "gyro": [(r.gyro_z, -r.gyro_x, -r.gyro_y) for r in seen],
    }
    found = {name: torch.tensor(values) for name, values in numbers.items()}
    return found | {"laps": torch.tensor([sight.laps for sight in sights])}


def _cte(report: Telemetry) -> float:
    if report.cte is None:
        raise WrongSimulator(
            "the simulator does not tell cte, without which there is no reward and no end; switch "
            "its extended telemetry on, or load a scene that has a path"
        )
    return report.cte


def _ahead(report: Telemetry) -> float:
    """Speed along the car's nose."""
    return report.speed if report.vel_z is None else report.vel_z


def _column(values: list[float]) -> Tensor:
    return torch.tensor(values, dtype=torch.float32).unsqueeze(-1)
