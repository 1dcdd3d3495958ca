"""Where the time of a turn goes, driving and learning, kernel by kernel.

    python benchmarks/turn_profile.py FILE --recipe any-track --save-dir runs/profiled

Trains with the words of `hotlap train`, writes a table to FILE after a few turns of a PPO and stops
there. A turn is a rollout and what is learned from it; the first ones compile, and do not count.
"""

import os
import sys
import time
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

from hotlap.cli import main
from hotlap.learning.ppo import PPO

WARM = 13
"""Turns before the profile."""
TURNS = 3
"""Turns in it; as many before it are timed without."""
SHOWN = 150
"""Kernels in the table."""


class Watch:
    """Times a learner's turns, and profiles the last of them.

    Args:
        file: Where the table goes.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self.driving: list[float] = []
        self.learning: list[float] = []
        self._profile: profile | None = None
        self._drive, self._learn = PPO.collect_rollouts, PPO.train

    def collect_rollouts(self, learner: PPO, *words: object, **named: object) -> bool:
        """In place of a learner's own."""
        if len(self.driving) == WARM:
            kind = ProfilerActivity.CUDA if torch.cuda.is_available() else ProfilerActivity.CPU
            self._profile = profile(activities=[kind])
            self._profile.__enter__()
        if len(self.driving) == WARM + TURNS:
            self._stop()
        began = _now()
        done = self._drive(learner, *words, **named)
        self.driving.append(_now() - began)
        return done

    def train(self, learner: PPO) -> None:
        """In place of a learner's own."""
        began = _now()
        self._learn(learner)
        self.learning.append(_now() - began)

    def _stop(self) -> None:
        assert self._profile is not None
        self._profile.__exit__(None, None, None)
        on_gpu = torch.cuda.is_available()
        told = [
            ((e.self_device_time_total if on_gpu else e.self_cpu_time_total) / 1e3, e.count, e.key)
            for e in self._profile.key_averages()
        ]
        rows = sorted(((ms / TURNS, count / TURNS, key) for ms, count, key in told), reverse=True)
        lines = [
            f"driving {_mean(self.driving):.1f} ms, learning {_mean(self.learning):.1f} ms a turn",
            f"kernels {sum(ms for ms, _, _ in rows):.1f} ms a turn",
            *(f"{ms:9.3f} ms {count:8.1f}x  {key[:200]}" for ms, count, key in rows[:SHOWN]),
        ]
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_text("\n".join(lines) + "\n")
        print("\n".join(lines[:20]), flush=True)
        os._exit(0)  # the training is not wanted


def _now() -> float:
    """Seconds, when all that was asked of a GPU is done."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.monotonic()


def _mean(seconds: list[float]) -> float:
    """Milliseconds of the turns just before the profile."""
    return 1e3 * sum(seconds[WARM - TURNS : WARM]) / TURNS


if __name__ == "__main__":
    watch = Watch(Path(sys.argv[1]))
    PPO.collect_rollouts = lambda *words, **named: watch.collect_rollouts(*words, **named)
    PPO.train = lambda learner: watch.train(learner)
    sys.exit(main(["train", *sys.argv[2:]]))
