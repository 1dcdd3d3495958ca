"""A run's compiling, shared with helpers.

On a GPU a run compiles its pictures, its step and its learner one after the other, more than a
minute in all, although none depends on another. Helpers compile step and learner meanwhile, and
those stages of a picture that come later, each in a process of its own, into the compiler's cache
on disk, where the run finds them when it gets there. A helper that fails or comes too late takes
nothing away: what the run does not find, it compiles itself.
"""

import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from math import prod
from pathlib import Path
from typing import Self

import torch

import hotlap
from hotlap.config.carracing import CarRacingConfig
from hotlap.config.learners import PPOConfig
from hotlap.config.presets import from_table, to_table
from hotlap.config.runs import RunConfig
from hotlap.config.tasks import DonkeyConfig
from hotlap.research.experiment import prepare_learner, supervise
from hotlap.research.worlds import make_training_env
from hotlap.sim.threads import usable_cores
from hotlap.store.closing import Closing
from hotlap.tasks.batch import BatchEnv

CORES = 8
"""With fewer, helpers would be in the run's way."""
ROOM = 32e9
"""Bytes that must be free on the GPU: a helper takes as much there as the run itself."""
COPIES = 12
"""Pictures of a rollout for which there must be room beside that, per picture: run and helpers."""
LONGEST = 300
"""Seconds after which a helper gives up."""
_CHILD = """
import os, sys
from hotlap.research.engines.prctl import die_with_parent
die_with_parent()
if os.getppid() == int(sys.argv[2]):  # and has not ended before that
    from hotlap.research.ahead import help_out
    help_out(sys.argv[1])
"""


class Helpers(Closing):
    """Compile for a run, where that pays, until the end of the `with` block.

    Args:
        config: The run.
    """

    def __init__(self, config: RunConfig) -> None:
        self.config = config
        self.processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        """Begin; without those that cannot."""
        try:
            for part in parts_of(self.config):
                if not mark_of(part, self.config).exists():
                    with suppress(OSError):
                        self._start(part)
        except BaseException:
            self.close()
            raise
        return self

    def _start(self, part: str) -> None:
        quiet, words = subprocess.DEVNULL, json.dumps(to_table(self.config)).encode()
        command = [sys.executable, "-c", _CHILD, part, str(os.getpid())]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=quiet, stderr=quiet)
        self.processes.append(process)
        assert process.stdin is not None
        with process.stdin as told:
            told.write(words)

    def close(self) -> None:
        """Leave no process behind."""
        for process in self.processes:
            process.kill()
            process.wait()


def parts_of(config: RunConfig) -> tuple[str, ...]:
    """What helpers compile of a run."""
    if not pays(config):
        return ()
    staged = isinstance(config.settings, DonkeyConfig)
    return tuple(part for part in PARTS if staged or part not in STAGES)


def pays(config: RunConfig) -> bool:
    """Whether a run compiles enough for helpers, on a machine with room for them."""
    agent, settings = config.agent, config.settings
    if not (config.compiled and isinstance(agent, PPOConfig) and config.device.startswith("cuda")):
        return False
    pixels = 0
    if isinstance(settings, CarRacingConfig):
        pixels = prod(settings.shape)
    elif isinstance(settings, DonkeyConfig) and settings.sensor == "camera":
        pixels = prod(settings.camera.shape)
    if not pixels or usable_cores() < CORES:
        return False
    needed = ROOM + COPIES * agent.envs * agent.steps * pixels
    return torch.cuda.mem_get_info(config.device)[0] > needed


def mark_of(part: str, config: RunConfig) -> Path:
    """The file that says that the compiler's cache holds a part of such a run."""
    from torch._inductor.runtime.cache_dir_utils import cache_dir  # takes a second to import

    told = [to_table(value) for value in (config.settings, config.agent, config.interface)]
    card = torch.cuda.get_device_name(config.device) if torch.cuda.is_available() else ""
    digest = hashlib.sha256(json.dumps([part, torch.__version__, card, *told]).encode())
    for source in sorted(Path(hotlap.__file__).parent.rglob("*.py")):
        digest.update(source.read_bytes())
    return Path(cache_dir()) / "hotlap" / digest.hexdigest()


# --- in a helper ---------------------------------------------------------------------------------


def compile_play(config: RunConfig) -> None:
    """Compile a step of all environments, without looking at anything."""
    _make_supervised(config).compile_play()


def compile_beginnings(config: RunConfig) -> None:
    """Compile how their ended episodes begin anew."""
    _make_supervised(config).compile_beginnings()


def _make_supervised(config: RunConfig) -> BatchEnv:
    """A run's environments as its learner has them, without the learner."""
    env = make_training_env(config)
    supervise(config, env)
    return env.batch.batch


def compile_learner(config: RunConfig) -> None:
    """Compile what learns, by one rollout in worlds that are not compiled."""
    env = make_training_env(replace(config, compiled=False))
    learner = prepare_learner(config, env, _keep_quiet)
    learner.learn(learner.n_steps * learner.n_envs)


def compile_stages(config: RunConfig, stages: tuple[str, ...]) -> None:
    """Compile some stages of a picture, by looking once."""
    env = make_training_env(config)
    env.task.camera.compile_only(*stages)
    env.reset()


STAGES: dict[str, tuple[str, ...]] = {"places": ("place",), "paints": ("read", "paint", "spoil")}
"""Stages of a picture that a helper compiles; to the others, the run comes as soon as a helper."""
PARTS: dict[str, Callable[[RunConfig], None]] = {
    **{part: partial(compile_stages, stages=stages) for part, stages in STAGES.items()},
    "play": compile_play,
    "beginnings": compile_beginnings,
    "learner": compile_learner,
}


def _keep_quiet(text: str) -> None:
    """Say nothing: the run itself says it."""


def help_out(part: str) -> None:
    """Compile a part of the run that standard input tells."""
    signal.alarm(LONGEST)
    config = from_table(RunConfig, json.load(sys.stdin), "standard input")
    torch.set_num_threads(config.threads)
    PARTS[part](config)
    mark = mark_of(part, config)
    mark.parent.mkdir(parents=True, exist_ok=True)
    mark.touch()
