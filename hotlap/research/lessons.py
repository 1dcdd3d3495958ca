"""A teacher that is trained first, by a recipe, in a process of its own.

It learns while the run that it will teach makes its worlds and compiles: on a GPU that takes about
as long.
"""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Self, cast

import torch

from hotlap.config.learners import PPOConfig
from hotlap.config.presets import load_recipe
from hotlap.config.runs import RunConfig
from hotlap.config.training import TrainConfig
from hotlap.learning.ppo import PPO
from hotlap.research.experiment import Prepared
from hotlap.research.teachers import find_teacher, refuse_unfit
from hotlap.research.worlds import known_tasks
from hotlap.store.closing import Closing
from hotlap.store.run_folder import RunFolder

PATIENCE = 10.0
"""Seconds that a teacher's process has to stop when it is not wanted any more."""
_CHILD = """
import sys
from hotlap.research.engines.prctl import die_with_parent
die_with_parent()
from hotlap.cli import main
sys.exit(main(sys.argv[1:]))
"""
SHOWN = 5
"""Lines of a teacher's output that are shown when it failed."""


class Lesson(Closing):
    """A teacher's training, from its beginning to the end of the `with` block.

    Args:
        recipe: A shipped recipe by name, or a file.
        run: The run that it will teach.
        folder: Where the teacher's run is written; what it prints is beside it.
        say: Where the user is told.

    Raises:
        ValueError: Such a teacher could not teach that run, or is there already.
    """

    def __init__(
        self, recipe: str, run: RunConfig, folder: Path, say: Callable[[str], None]
    ) -> None:
        self.recipe, self.run, self.folder, self.say = recipe, run, folder, say
        self.log = folder.with_name(f"{folder.name}.log")
        asked = load_recipe(TrainConfig, recipe)
        if asked.teacher_recipe is not None:
            raise ValueError(f"{recipe}: a teacher is taught by nobody; leave teacher_recipe out")
        settled = asked.settle(run.device, has_compiler=False, known_tasks=known_tasks())
        refuse_unfit(settled, run, recipe)
        if RunFolder(folder).used():
            raise ValueError(
                f"{folder} already holds a run; if it is the teacher, go on with it by `hotlap "
                f"train --resume {folder}`, then give it to this run by --ppo.teacher {folder}; or "
                "choose another --save-dir"
            )
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        """Begin."""
        run = self.run
        command = [
            sys.executable, "-c", _CHILD, "train", "--recipe", self.recipe,
            "--save-dir", str(self.folder), "--seed", str(run.seed), "--device", run.device,
            "--threads", str(run.threads),
        ]  # fmt: skip
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with open(self.log, "wb") as out:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT
            )
        self.say(f"teacher: {self.recipe}, trained meanwhile in {self.folder} (see {self.log})")
        return self

    def close(self) -> None:
        """Leave no process behind."""
        if self._process is None or self._process.poll() is not None:
            return
        self._process.terminate()
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def hear(self, prepared: Prepared) -> RunConfig:
        """The run with its teacher, which sits in the learner from now on.

        What takes long to make ready is made ready while the teacher learns.
        """
        assert self._process is not None
        if not self._process.poll():  # one that failed at once is not waited for
            _compile(self.run, prepared)
        if self._process.wait():
            told = self.log.read_text(errors="replace").splitlines()[-SHOWN:]
            raise RuntimeError("the teacher's training failed:\n" + "\n".join(told))
        self.say("teacher: trained")
        agent = replace(cast(PPOConfig, self.run.agent), teacher=str(self.folder))
        taught = replace(self.run, agent=agent)
        cast(PPO, prepared.learner).teacher = find_teacher(taught, agent, prepared.env.task)
        return taught


def _compile(run: RunConfig, prepared: Prepared) -> None:
    """Have the simulator compiled, by a step that the training's own beginning undoes."""
    if not run.compiled:
        return
    batch = prepared.env.batch
    batch.reset()
    batch.step(torch.zeros(batch.num_envs, *batch.action_space.shape, device=batch.task.device))
