"""A run's compiling, shared with helpers.

On a GPU a run compiles its pictures, its step and its learner one after the other, more than a
minute in all, although none depends on another. Helpers compile step and learner meanwhile, each in
a process of its own, into the compiler's cache on disk, where the run finds them when it gets
there. A helper that fails or comes too late takes nothing away: what the run does not find, it
compiles itself.
"""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from hotlap.config.learners import PPOConfig
from hotlap.config.presets import from_table, to_table
from hotlap.config.runs import RunConfig
from hotlap.research.engines.prctl import die_with_parent
from hotlap.research.experiment import prepare, prepare_learner
from hotlap.research.worlds import make_training_env
from hotlap.store.closing import Closing

CORES = 6
"""With fewer, helpers would be in the run's way."""
ROOM = 32e9
"""Bytes that must be free on the GPU: a helper takes as much there as the run itself."""


class Helpers(Closing):
    """Compile for a run, where that pays, until the end of the `with` block.

    Args:
        config: The run.
    """

    def __init__(self, config: RunConfig) -> None:
        parts = PARTS if pays(config) else ()
        missing = [part for part in parts if not mark_of(part, config).exists()]
        self.processes = [_start(part, config) for part in missing]

    def close(self) -> None:
        """Leave no process behind."""
        for process in self.processes:
            process.kill()
            process.wait()


def pays(config: RunConfig) -> bool:
    """Whether a run compiles enough for helpers, on a machine with room for them."""
    if not (config.compiled and isinstance(config.agent, PPOConfig)):
        return False
    if not config.device.startswith("cuda") or (os.cpu_count() or 1) < CORES:
        return False
    return torch.cuda.mem_get_info(config.device)[0] > ROOM


def _start(part: str, config: RunConfig) -> subprocess.Popen[bytes]:
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(
        [sys.executable, "-m", __name__, part], stdin=subprocess.PIPE, stdout=quiet, stderr=quiet
    )
    assert process.stdin is not None
    with process.stdin as words:
        words.write(json.dumps(to_table(config)).encode())
    return process


def mark_of(part: str, config: RunConfig) -> Path:
    """The file that says that the compiler's cache holds a part of such a run."""
    from torch._inductor.runtime.cache_dir_utils import cache_dir  # takes a second to import

    told = [to_table(value) for value in (config.settings, config.agent, config.interface)]
    words = json.dumps([part, torch.__version__, config.device, *told])
    return Path(cache_dir()) / "hotlap" / hashlib.sha256(words.encode()).hexdigest()


# --- in a helper ---------------------------------------------------------------------------------


def compile_step(config: RunConfig) -> None:
    """Compile a step of all environments, without looking at anything."""
    prepare(config, _keep_quiet).env.batch.batch.compile_step()


def compile_learner(config: RunConfig) -> None:
    """Compile what learns, by one rollout in worlds that are not compiled."""
    env = make_training_env(replace(config, compiled=False))
    learner = prepare_learner(config, env, _keep_quiet)
    learner.learn(learner.n_steps * learner.n_envs)


PARTS: dict[str, Callable[[RunConfig], None]] = {"step": compile_step, "learner": compile_learner}


def _keep_quiet(text: str) -> None:
    """Say nothing: the run itself says it."""


def main() -> None:
    """Compile the part that the first argument names, of the run that standard input tells."""
    die_with_parent()
    part, config = sys.argv[1], from_table(RunConfig, json.load(sys.stdin), "standard input")
    PARTS[part](config)
    mark = mark_of(part, config)
    mark.parent.mkdir(parents=True, exist_ok=True)
    mark.touch()


if __name__ == "__main__":
    main()
