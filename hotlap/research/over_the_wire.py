"""Judging a model in simulators over the wire."""

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
from torch import Tensor

from hotlap.config.bridges import BridgeConfig
from hotlap.config.interface import InterfaceConfig
from hotlap.config.judging import EvaluateConfig
from hotlap.config.presets import to_table
from hotlap.config.runs import EvaluationConfig
from hotlap.config.tasks import DonkeyConfig
from hotlap.evaluation.eval_table import print_result
from hotlap.evaluation.generalisation import steps_for_a_lap
from hotlap.evaluation.judge import judge
from hotlap.research.contestants import zipped
from hotlap.research.models import Model
from hotlap.sim.tracks.catalogue import find_track
from hotlap.sim.tracks.selection import chosen_tracks
from hotlap.tasks.bridges.verdicts import is_payable
from hotlap.tasks.bridges.wire_batch import WireBatch, WireTask
from hotlap.tasks.interface import Interface


def evaluate_over_the_wire(
    model: Model, config: EvaluateConfig, asked: EvaluationConfig, bridge: BridgeConfig
) -> dict[str, Any]:
    """Drive whole episodes; say how they went, and how long answers took."""
    for name in ("sets", "plot", "video", "randomise"):
        if getattr(config, name):
            raise ValueError(f"--{name} is for judging in this process; leave it out, or --host")
    settings, interface = _driven_with(model, config)
    settings = replace(_on_tracks(settings, config.track), start=asked.start)
    task = WireTask(settings, bridge)

    def make(num_envs: int, who: Tensor, seed: int) -> Interface:
        return Interface(WireBatch(task, num_envs, seed, who), interface)

    driver = model.driver(asked.deterministic)
    began = time.monotonic()
    try:
        result = judge(driver, make, task.scenes, asked, at_once=len(task.cars))
    finally:
        task.close()
    seconds = time.monotonic() - began
    steps = sum(episode.length for episode in result.episodes)
    where = ", ".join(bridge.addresses)
    print_result(result, f"{config.model} over the wire at {where}")
    wire = {"steps_per_s": round(steps / seconds, 1), **_latency(task)}
    print(
        f"wire      {wire['steps_per_s']:g} steps/s in all; an answer took "
        f"{wire['latency_p50_ms']:g} ms (95 %: {wire['latency_p95_ms']:g} ms)",
        flush=True,
    )
    answer = {"model": config.model, "bridge": to_table(bridge), **wire}
    return answer | result.to_table()


def _driven_with(model: Model, config: EvaluateConfig) -> tuple[DonkeyConfig, InterfaceConfig]:
    """How a model sees and acts."""
    run = model.run
    if run is None:
        settings = zipped(model, "cpu", True, config.task or "donkey", config.preset).settings
        frames = (model.seen.shape or (0,))[-1] // settings.camera.shape[-1]
        return settings, InterfaceConfig(stack=frames)
    if not isinstance(run.settings, DonkeyConfig):
        raise ValueError(f"{config.model} was not trained on a road; it cannot drive over the wire")
    reward = run.evaluation.reward or run.settings.reward
    if not is_payable(reward):
        print(f"telemetry is not enough for reward {reward}: returns are of default", flush=True)
        reward = "default"
    # Telemetry does not tell where the road's edge is either.
    return replace(run.settings, reward=reward, end="cte"), run.interface


def _on_tracks(settings: DonkeyConfig, words: Sequence[str]) -> DonkeyConfig:
    """The settings on other tracks, with time for a slow lap of the longest, if any were asked."""
    if not words:
        return settings
    names = chosen_tracks(words)
    dt, usual = settings.car.control_dt, settings.max_steps
    steps = [usual]
    for name in names:
        with suppress(KeyError):  # a scene that only the simulator knows, or a word it will refuse
            steps.append(steps_for_a_lap(find_track(name), dt, usual))
    return replace(settings, tracks=names, max_steps=max(steps))


def _latency(task: WireTask) -> dict[str, float]:
    """Milliseconds from a command to the picture that answers it."""
    half, most = (1e3 * np.quantile(np.array(task.waits), q) for q in (0.5, 0.95))
    return {"latency_p50_ms": round(float(half), 2), "latency_p95_ms": round(float(most), 2)}
