"""Helpers compile what a run will ask for, and nothing else; without them it trains the same."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from hotlap.config.presets import to_table
from hotlap.research import ahead
from hotlap.research.worlds import make_training_env
from tests.research.tiny import tiny_run

RUN = tiny_run(sensor="camera", knowing=True, compiled=True)


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of what was compiled and then called; nothing is compiled."""
    names: list[str] = []

    def compile_nothing(function: Callable[..., Any], **_: Any) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            names.append(function.__name__)
            return function(*given, **named)

        return call

    monkeypatch.setattr(torch, "compile", compile_nothing)
    return names


def test_a_step_is_compiled_without_a_look(called: list[str]) -> None:
    ahead.compile_play(RUN)
    assert called == ["_play"]


def test_beginnings_are_compiled_without_a_step(called: list[str]) -> None:
    ahead.compile_beginnings(RUN)
    assert not called  # a CPU begins only those that ended, in another way


def test_stages_of_a_picture_are_compiled_without_the_others(called: list[str]) -> None:
    ahead.PARTS["places"](RUN)
    assert set(called) == {"_place_planes"}
    called.clear()
    ahead.PARTS["paints"](RUN)
    assert not called  # a CPU reads without a compiler, and nothing stands beside this road


def test_every_stage_of_a_picture_has_its_plain_form() -> None:
    camera = make_training_env(RUN).task.camera
    assert {stage for part in ahead.STAGES.values() for stage in part} < set(camera._plain)
    assert all(callable(getattr(camera, f"_{stage}")) for stage in camera._plain)


def test_a_learner_is_compiled_without_the_worlds(called: list[str]) -> None:
    ahead.compile_learner(RUN)
    assert set(called) == {"read", "_step_whole"}  # policy, and the updates of policy and critic


def test_on_a_cpu_or_without_a_compiler_nobody_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "usable_cores", lambda: 64)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (64e9, 80e9))
    assert ahead.pays(replace(RUN, device="cuda"))
    assert not ahead.pays(replace(tiny_run(compiled=True), device="cuda"))  # no pictures
    assert not ahead.pays(RUN)
    assert not ahead.pays(replace(RUN, device="cuda", compiled=False))
    assert not ahead.pays(replace(tiny_run("dqn", "camera"), device="cuda", compiled=True))
    with ahead.Helpers(RUN) as helpers:
        assert not helpers.processes


@pytest.mark.parametrize(
    ("cores", "free", "steps"), [(2, 64e9, 8), (64, 8e9, 8), (64, 64e9, 10**6)]
)
def test_a_small_machine_is_left_to_the_run(
    monkeypatch: pytest.MonkeyPatch, cores: int, free: float, steps: int
) -> None:
    monkeypatch.setattr(ahead, "usable_cores", lambda: cores)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free, 80e9))
    run = tiny_run(sensor="camera", compiled=True, steps=steps, batch_size=2)
    assert not ahead.pays(replace(run, device="cuda"))


def test_helpers_end_with_the_run_and_are_not_asked_twice(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(ahead, "pays", lambda config: True)
    for part in ("play", "beginnings", "places", "paints"):
        mark = ahead.mark_of(part, RUN)
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.touch()
    with ahead.Helpers(RUN) as helpers:
        (process,) = helpers.processes
        assert process.args[-2] == "learner"
        assert process.poll() is None
    assert process.poll() is not None
    assert not ahead.mark_of("learner", RUN).exists()


def test_a_helper_that_cannot_begin_takes_nothing_away(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(ahead, "pays", lambda config: True)
    monkeypatch.setattr(ahead.sys, "executable", str(tmp_path / "nobody"))
    with ahead.Helpers(RUN) as helpers:
        assert not helpers.processes


def test_a_helper_whose_run_is_gone_does_nothing(tmp_path: Path) -> None:
    told = start_helper(tmp_path, parent=1)
    assert told.returncode == 0, told.stderr
    assert not (tmp_path / "hotlap").exists()


@pytest.mark.slow
def test_a_helper_leaves_its_mark_when_it_is_done(tmp_path: Path) -> None:
    told = start_helper(tmp_path, parent=os.getpid())
    assert told.returncode == 0, told.stderr
    assert len(list((tmp_path / "hotlap").iterdir())) == 1


def start_helper(cache: Path, parent: int) -> subprocess.CompletedProcess[str]:
    """Have a step made ready by a helper of its own, which compiles nothing."""
    return subprocess.run(
        [sys.executable, "-c", ahead._CHILD, "play", str(parent)],
        input=json.dumps(to_table(replace(RUN, compiled=False))), text=True, capture_output=True,
        timeout=300, check=False, env={**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(cache)},
    )  # fmt: skip
