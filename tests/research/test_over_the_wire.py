"""The verbs over the wire: train, evaluate, and what they say where a simulator is lost."""

import json
import socket
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hotlap.cli import main
from hotlap.config.bridges import SCENES, BridgeConfig
from hotlap.config.training import TrainConfig
from hotlap.research.models import save_model
from hotlap.research.worlds import known_tasks
from hotlap.store.run_folder import RunFolder

from ..wire.conftest import Serving, serving
from .tiny import ROAD, tiny_run

__all__ = ["serving"]

PRESET = """
tracks = ["waveshare"]
max_steps = 20
throttle_max = 0.25
[camera]
width = 44
height = 36
colour = false
"""
SHORT = ["--timesteps", "64", "--segment-steps", "32", "--eval-episodes", "3", "--ppo.steps", "16",
         "--ppo.batch-size", "16", "--ppo.epochs", "1", "--ppo.net", "8"]  # fmt: skip
QUICK = ["--bridge.timeout", "1", "--bridge.patience", "0.3"]


def settle(**settings: Any) -> Any:
    return TrainConfig(**settings).settle("cpu", False, known_tasks())


def hotlap(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    """Exit code and answer of a verb."""
    code = main([*words, "--json"])
    return code, json.loads(capsys.readouterr().out.splitlines()[-1])


@pytest.fixture
def preset(tmp_path: Path) -> str:
    path = tmp_path / "preset.toml"
    path.write_text(PRESET)
    return str(path)


@pytest.fixture
def model(tmp_path: Path) -> str:
    """An untrained model of the task with its camera."""
    return save_untrained(tmp_path / "model", "camera")


def save_untrained(folder: Path, sensor: str, **changed: Any) -> str:
    from hotlap.learning.factory import make_learner
    from hotlap.research.worlds import make_training_env

    run = tiny_run(sensor=sensor, **changed)
    env = make_training_env(run)
    learner = make_learner(run.agent, env, "cpu", 0, 32)
    save_model(folder, run, learner, env.observation_space, None)
    return str(folder)


@pytest.mark.slow
def test_a_driver_is_trained_and_judged_over_the_wire(
    serving: Serving, capsys: pytest.CaptureFixture[str], tmp_path: Path, preset: str
) -> None:
    port = str(serving().port)
    where = ["--host", "127.0.0.1", "--port", port]
    folder = str(tmp_path / "run")
    code, told = hotlap(
        capsys, "train", "donkey", *where, port, "--preset", preset, "--save-dir", folder, *SHORT
    )
    assert (code, told["timesteps"], len(told["rewards"])) == (0, 64, 3)
    kept = RunFolder(Path(folder)).config
    assert kept["bridge"]["addresses"] == [f"127.0.0.1:{port}"] * 2
    assert kept["agent"]["envs"] == 2

    start = ["--start", "line"]
    code, there = hotlap(capsys, "evaluate", folder, *where, "--episodes", "2", *start)
    assert code == 0, there
    assert (there["count"], there["episodes"][0]["laps"]) == (2, 0)
    assert there["steps_per_s"] > 5
    assert 0 < there["latency_p50_ms"] <= there["latency_p95_ms"] < 1000
    # The same policy from the same start, in this process.
    code, here = hotlap(capsys, "evaluate", folder, "--episodes", "1", *start)
    assert code == 0
    assert there["mean_return"] == pytest.approx(here["mean_return"], rel=0.02)


def test_a_lost_simulator_ends_a_training_and_is_written_down(
    serving: Serving, capsys: pytest.CaptureFixture[str], tmp_path: Path, preset: str
) -> None:
    running = serving()
    folder = tmp_path / "run"
    gone: list[float] = []

    def lose() -> None:
        deadline = time.monotonic() + 30
        while not (folder / "config.json").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(0.5)
        running.stop()
        gone.append(time.monotonic())

    thread = threading.Thread(target=lose)
    thread.start()
    words = ["--preset", preset, "--save-dir", str(folder), "--root", str(tmp_path), *QUICK]
    code, told = hotlap(
        capsys, "train", "donkey", "--port", str(running.port), *words, "--timesteps", "100000"
    )
    thread.join()
    assert time.monotonic() - gone[0] < 5
    assert code == 1
    assert "SimulatorGone" in told["error"]
    assert "SimulatorGone" in RunFolder(folder).rows("failures")[-1]["text"]


def test_nobody_there_is_said_before_a_folder_is_made(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, preset: str, model: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
    words = ["--port", port, "--root", str(tmp_path), *QUICK]
    folder = tmp_path / "run"
    for verb in (["train", "--preset", preset, "--save-dir", str(folder)], ["evaluate", model]):
        code, told = hotlap(capsys, *verb, *words)
        assert (code, f"hotlap serve --port {port}" in told["error"]) == (1, True), told
    assert not folder.exists()


def test_words_that_are_wrong(
    serving: Serving, capsys: pytest.CaptureFixture[str], tmp_path: Path, preset: str, model: str
) -> None:
    port = str(serving().port)
    numbers = save_untrained(tmp_path / "numbers", "telemetry")
    by_road = tmp_path / "by_road.toml"
    by_road.write_text('end = "road"')
    there = ["--port", port]
    for words, message in (
        (["train", "donkey", "--track", "warehose"], "did you mean 'warehouse'"),
        (["train", "donkey-lidar"], "only the camera"),
        (["train", "tag"], "only donkey"),
        (["train", "CartPole-v1"], "--port is for hotlap's own tasks"),
        (["train", "donkey", "--reward-shaping", "v6"], "telemetry is not enough"),
        (["train", "donkey", "--preset", str(by_road), *SHORT], "cannot end there; use a preset"),
        (["train", "donkey", "--envs", "3"], "an address is one environment"),
        (["train", "--env", "donkey-warren-track-v0", "--track", "warehouse"], "leave --track out"),
        (["evaluate", model, "--track", "warehose"], "did you mean 'warehouse'"),
        (["evaluate", model, "--track", "circiut:5"], "roads such as circuit:17"),
        (["evaluate", numbers], "this driver needs telemetry"),
        (["evaluate", "scripted:pure_pursuit"], "name a model"),
        (["evaluate", model, "--video", "a.mp4"], "leave it out, or --host"),
    ):
        code, told = hotlap(capsys, *words, *there, "--root", str(tmp_path))
        assert (code, message in told["error"]) == (2, True), (words, told)


def test_a_driver_of_what_telemetry_does_not_tell_is_judged_by_what_it_does(
    serving: Serving, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    settings = replace(ROAD, sensor="camera", reward="racing", end="road", max_steps=4)
    racer = save_untrained(tmp_path / "racer", "camera", settings=settings)
    words = ["--port", str(serving().port), "--track", "waveshare", "--episodes", "1"]
    assert main(["evaluate", racer, *words, "--start", "line", "--json"]) == 0
    told = capsys.readouterr().out
    assert "telemetry is not enough for reward racing: returns are of default" in told
    (episode,) = json.loads(told.splitlines()[-1])["episodes"]
    assert episode["track"] == "waveshare"
    assert 4 < episode["length"] <= 112  # time for a slow lap


@pytest.mark.parametrize(("name", "scene"), SCENES.items())
def test_gym_donkeycars_names_are_the_task_on_their_track(name: str, scene: str) -> None:
    run = settle(env=name)
    assert (run.task, run.settings.tracks, run.bridge) == ("donkey", (scene,), None)
    assert settle(task=name) == run
    wired = settle(env=name, port=(9091, 9093))
    assert wired.bridge == BridgeConfig(("127.0.0.1:9091", "127.0.0.1:9093"))
    assert (wired.agent.envs, wired.settings.tracks) == (2, (scene,))


def test_an_unknown_name_is_met_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    code, told = hotlap(capsys, "train", "--env", "donkey-minimonaco-v0")
    assert code == 2
    assert "did you mean 'donkey-minimonaco-track-v0'" in told["error"]
