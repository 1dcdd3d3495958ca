"""Who may teach whom, and that a taught run goes on as if it had never stopped."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from hotlap.config.presets import to_table
from hotlap.config.randomisation import RandomisationConfig
from hotlap.config.runs import RunConfig
from hotlap.research.experiment import Run, prepare
from hotlap.research.models import open_model, save_model
from hotlap.research.progress import Progress
from hotlap.store.run_folder import RunFolder

from .tiny import ROAD, tiny_run

torch.set_num_threads(1)
RANGES = RandomisationConfig(friction=(0.5, 0.9), delay=(0, 2), noise=(0.0, 8.0), share=0.5)


def teacher(folder: Path, **changed: Any) -> str:
    """A model that was never trained, as a teacher; returns its name."""
    config = tiny_run(**({"sensor": "state"} | changed))
    made = prepare(config, print)
    save_model(folder, config, made.learner, made.env.observation_space, None)
    return str(folder)


def pupil(name: str, **changed: Any) -> RunConfig:
    settings = replace(ROAD, sensor="camera", randomise=RANGES)
    return tiny_run(sensor="camera", teacher=name, **({"settings": settings} | changed))


def test_a_teacher_sees_the_pupils_own_worlds(tmp_path: Path) -> None:
    name = teacher(tmp_path / "teacher")
    learner = prepare(pupil(name), print).learner
    learner.learn_segment(0, 0, 32)
    advice, actions = learner.rollout_buffer.advice, learner.rollout_buffer.actions
    assert advice.shape == actions.shape and float(advice.std()) > 0


@pytest.mark.parametrize(
    ("taught", "own", "complaint"),
    [
        ({"sensor": "camera"}, {}, "sees pictures"),
        ({"stack": 2}, {}, "several moments"),
        ({"settings": replace(ROAD, sensor="state", steer_limit=0.5)}, {}, "steering -0.5 to 0.5"),
        ({"agent": "dqn"}, {}, "continuous actions"),
        ({"settings": replace(ROAD, sensor="state", vehicle="f1tenth")}, {}, "its own car only"),
    ],
)
def test_who_cannot_teach_is_refused(
    taught: dict[str, Any], own: dict[str, Any], complaint: str, tmp_path: Path
) -> None:
    name = teacher(tmp_path / "teacher", **taught)
    with pytest.raises(ValueError, match=complaint):
        prepare(pupil(name, **own), print)


def test_a_taught_run_goes_on_to_the_same_weights_and_its_model_needs_no_teacher(
    tmp_path: Path,
) -> None:
    name = teacher(tmp_path / "teacher")
    config = pupil(name)
    ends = []
    for path, stops in ((tmp_path / "calm", ()), (tmp_path / "torn", (1, 2))):
        RunFolder.create(path, to_table(config)).close()
        for _ in stops:
            with RunFolder.open(path) as folder:
                Run(config, folder, Progress("", config.timesteps, live=False))._train_segment()
        with RunFolder.open(path) as folder:
            run = Run(config, folder, Progress("", config.timesteps, live=False))
            assert run.segment == len(stops)
            run.train()
            ends.append(run.learner.policy.state_dict())
    assert all(torch.equal(ends[0][name], ends[1][name]) for name in ends[0])
    shutil.rmtree(tmp_path / "teacher")
    assert open_model(str(tmp_path / "torn")).run == config
