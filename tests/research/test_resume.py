"""A run that is killed and goes on ends with the weights of one that never stopped, bit for bit."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

TRACKS = ["--track", "generated_track", "warehouse", "mini_monaco"]
COMMON = ["--seed", "3", "--eval-episodes", "2", "--threads", "1"]
SMALL_REPLAY = {"envs": 4, "replay-size": 600, "warm-up": 100, "batch-size": 32}
LEARNERS = {
    "ppo": ["donkey-telemetry", "--timesteps", "2048", "--segment-steps", "512",
            "--ppo.envs", "8", "--ppo.steps", "32", "--ppo.batch-size", "64",
            "--ppo.normalise-observations", "--ppo.normalise-rewards", "--ppo.schedule", "linear"],
    "ppo with plr": ["donkey-telemetry", "--timesteps", "4096", "--segment-steps", "512",
                     "--ppo.envs", "8", "--ppo.steps", "32", "--ppo.batch-size", "64",
                     *TRACKS, "--schedule", "plr"],
    "dqn in a curriculum": ["donkey-telemetry", "--timesteps", "2400", "--segment-steps", "400",
                            *TRACKS, "--schedule", "curriculum", "--curriculum.success", "0.01",
                            "--curriculum.pace", "0", "--curriculum.episodes", "1"],
    "sac": ["donkey-telemetry", "--timesteps", "1600", "--segment-steps", "400",
            "--sac.normalise-observations"],
    "tqc": ["donkey-telemetry", "--timesteps", "1600", "--segment-steps", "400"],
    "dqn on CartPole-v1": ["CartPole-v1", "--timesteps", "1600", "--segment-steps", "400"],
    "dqn that outgrows its replay": ["donkey-telemetry", "--timesteps", "1600",
                                     "--segment-steps", "400", "--dqn.stack", "2"],
    "sac on pictures": ["donkey", "--timesteps", "800", "--segment-steps", "200",
                        "--sac.stack", "2", "--sac.shift", "2"],
    "ppo on changed pictures": ["donkey", "--timesteps", "2048", "--segment-steps", "512",
                                "--ppo.envs", "8", "--ppo.steps", "32", "--ppo.batch-size", "64",
                                "--ppo.augment.shift", "2", "--ppo.augment.flip", "0.5",
                                "--ppo.augment.blur", "1", "--randomise", "light", "--ppo.knowing",
                                "--ppo.describing", "0.5", "--ppo.ramp", "0", "0.6",
                                "--ppo.finish", "careful", "--ppo.finish-between", "0.2", "0.8",
                                "--ppo.average-over", "3", "--ppo.stack-every", "2"],
}  # fmt: skip


def words(name: str, folder: Path) -> list[str]:
    agent = name.split()[0]
    given = ["train", *LEARNERS[name], *COMMON, "--agent", agent, "--save-dir", str(folder)]
    if agent != "ppo":
        size = {"replay-size": 160} if "outgrows" in name else {}
        for setting, value in (SMALL_REPLAY | size).items():
            given += [f"--{agent}.{setting}", str(value)]
    return given


def start(given: list[str], log: Path) -> subprocess.Popen[bytes]:
    environment = os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    with log.open("ab") as out:
        return subprocess.Popen(
            [sys.executable, "-m", "hotlap", *given], stdout=out, stderr=out, env=environment
        )


def whole(given: list[str], log: Path) -> None:
    assert start(given, log).wait(300) == 0, log.read_text()


@pytest.mark.slow
@pytest.mark.parametrize("name", LEARNERS)
def test_a_killed_run_ends_like_one_that_never_stopped(name: str, tmp_path: Path) -> None:
    calm, torn, log = tmp_path / "calm", tmp_path / "torn", tmp_path / "log.txt"
    began = time.monotonic()
    whole(words(name, calm), log)
    usual = time.monotonic() - began
    draw = random.Random(name)
    killed, times = 0, 2 if name in ("ppo", "sac") else 1
    given = words(name, torn)
    for _ in range(6):
        if killed == times:
            break
        run, began = start(given, log), time.monotonic()
        try:
            # After the start-up, which takes most of so short a run.
            assert run.wait(usual * draw.uniform(0.55, 0.95)) == 0, log.read_text()
        except subprocess.TimeoutExpired:
            run.send_signal(signal.SIGKILL)
            run.wait()
            if (torn / "config.json").exists():
                killed += 1
            else:  # before that there is nothing to go on from: the machine is busier than it was
                usual *= 1.5
        else:
            if killed:
                break
            usual = time.monotonic() - began  # the machine had been busy: now it is known better
            shutil.rmtree(torn)
            given = words(name, torn)
        if (torn / "config.json").exists():
            given = ["train", "--resume", str(torn)]
    whole(given, log)
    assert killed > 0, "no run could be killed between its beginning and its end"
    names = ["model/weights.safetensors", "best/state.safetensors"]
    newest = max(path.name for path in (calm / "checkpoints").iterdir())
    names.append(f"checkpoints/{newest}/state.safetensors")
    for file in names:
        assert (calm / file).read_bytes() == (torn / file).read_bytes(), file
    tables = [(f / "evaluations.jsonl").read_text().splitlines() for f in (calm, torn)]
    rows = [[json.loads(line) for line in table] for table in tables]
    assert rows[0] == rows[1]
