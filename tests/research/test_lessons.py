"""A teacher trained by a recipe before the run that it teaches."""

import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
import torch

from hotlap.cli import main
from hotlap.research.lessons import Lesson
from hotlap.store.run_folder import RunFolder

from .tiny import ROAD as TINY
from .tiny import tiny_run

torch.set_num_threads(1)
ROAD = """
tracks = ["circuit:0"]
max_steps = 20
throttle_min = -1.0
[camera]
width = 40
height = 30
"""
TEACHER = """
task = "donkey-state"
preset = "{folder}/road.toml"
timesteps = {steps}
eval_episodes = 1
[ppo]
envs = 4
steps = 8
batch_size = 32
stack = 1
net = [8]
"""
PUPIL = "--ppo.envs 4 --ppo.steps 8 --ppo.batch-size 32 --ppo.net 8 --eval-episodes 1"


def write(folder: Path, text: str = TEACHER, steps: int = 64) -> Path:
    """A recipe, and the preset that it and its pupil share."""
    (folder / "road.toml").write_text(ROAD)
    recipe = folder / "teacher.toml"
    recipe.write_text(text.format(folder=folder, steps=steps))
    return recipe


def learn(folder: Path, recipe: Path, more: str = "") -> int:
    words = f"train donkey --preset {folder}/road.toml {PUPIL} --timesteps 64 --seed 3 --json"
    where = f"--save-dir {folder}/pupil --teacher-recipe {recipe}"
    return main([*words.split(), *where.split(), *more.split()])


def test_a_run_trains_its_teacher_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert learn(tmp_path, write(tmp_path)) == 0
    taught, teacher = RunFolder(tmp_path / "pupil"), RunFolder(tmp_path / "pupil-teacher")
    assert taught.config["agent"]["teacher"] == str(teacher.path)
    assert teacher.config["seed"] == taught.config["seed"] == 3
    assert "model:" in (tmp_path / "pupil-teacher.log").read_text()
    assert "teacher: trained" in capsys.readouterr().out
    # Once trained, it is a teacher like any other: the run goes on with it.
    assert main(["train", "--resume", str(taught.path)]) == 0


def test_a_named_teacher_goes_before_the_recipe(tmp_path: Path) -> None:
    recipe = write(tmp_path)
    assert main(["train", "--recipe", str(recipe), "--save-dir", str(tmp_path / "wise")]) == 0
    assert learn(tmp_path, tmp_path / "none.toml", f"--ppo.teacher {tmp_path}/wise") == 0
    assert not (tmp_path / "pupil-teacher").exists()


@pytest.mark.parametrize(
    ("right", "wrong", "code", "complaint"),
    [
        ("task =", "tusk =", 2, "unknown setting of TrainConfig 'tusk'"),
        ("road.toml", "lane.toml", 2, "lane.toml"),
        ("[ppo]", 'evaluation_track = ["nowhere"]\n[ppo]', 1, "unknown track 'nowhere'"),
    ],
)
def test_a_teacher_that_fails_says_why(
    right: str,
    wrong: str,
    code: int,
    complaint: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    recipe = write(tmp_path, TEACHER.replace(right, wrong))
    assert learn(tmp_path, recipe, f"--root {tmp_path}/root") == code
    assert complaint in capsys.readouterr().err
    assert not (tmp_path / "pupil").exists()


def test_no_teacher_is_trained_for_a_folder_that_is_taken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = write(tmp_path)
    (tmp_path / "pupil").mkdir()
    (tmp_path / "pupil" / "config.json").write_text("{}")
    assert learn(tmp_path, recipe) == 2
    assert "already holds a run" in capsys.readouterr().err
    assert not (tmp_path / "pupil-teacher.log").exists()


def test_a_teacher_that_was_stopped_is_not_begun_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe, taken = write(tmp_path), tmp_path / "pupil-teacher"
    taken.mkdir()
    (taken / "config.json").write_text("{}")
    assert learn(tmp_path, recipe) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert f"--resume {taken}" in said and f"--ppo.teacher {taken}" in said


@pytest.mark.parametrize(
    ("right", "wrong", "more", "complaint"),
    [
        ("task =", 'teacher_recipe = "self.toml"\ntask =', "", "taught by nobody"),
        ("donkey-state", "donkey", "", "sees pictures"),
        ("stack = 1", "stack = 2", "", "several moments"),
        ("task", "task", "--actions discrete", "continuous actions"),
    ],
)
def test_who_cannot_teach_is_not_trained(
    right: str,
    wrong: str,
    more: str,
    complaint: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    recipe = write(tmp_path, TEACHER.replace(right, wrong))
    assert learn(tmp_path, recipe, more) == 2
    assert complaint in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "pupil-teacher.log").exists()


def test_only_ppo_is_taught(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert learn(tmp_path, write(tmp_path), "--agent sac") == 2
    assert "only ppo is taught, not sac" in capsys.readouterr().err


def test_a_teacher_dies_with_a_run_that_is_killed(tmp_path: Path) -> None:
    recipe = write(tmp_path, steps=100_000_000)
    words = f"train donkey --preset {tmp_path}/road.toml {PUPIL} --timesteps 64"
    where = f"--save-dir {tmp_path}/pupil --teacher-recipe {recipe}"
    command = [sys.executable, "-m", "hotlap", *words.split(), *where.split()]
    run = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 120
        while not (tmp_path / "pupil-teacher" / "config.json").exists():
            assert time.monotonic() < deadline
            time.sleep(0.1)
        mine = psutil.Process(run.pid).children(recursive=True)
        assert mine
    finally:
        run.terminate()
        run.wait()
    assert not psutil.wait_procs(mine, timeout=20)[1]


def test_nobody_is_left_behind(tmp_path: Path) -> None:
    """A run that fails while its teacher learns takes it along."""
    recipe = write(tmp_path, steps=100_000_000)
    run = tiny_run(settings=replace(TINY, sensor="camera", throttle_min=-1.0, throttle_max=1.0))
    others = psutil.Process().children(recursive=True)  # another test's
    with pytest.raises(KeyError), Lesson(str(recipe), run, tmp_path / "t", lambda text: None):
        mine = [one for one in psutil.Process().children(recursive=True) if one not in others]
        assert mine
        raise KeyError
    assert not psutil.wait_procs(mine, timeout=20)[1]
