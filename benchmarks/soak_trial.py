"""A trial for `soak.py`: a tiny trainer with checkpoints, to which everything happens that can.

    python benchmarks/soak_trial.py FOLDER

It trains in segments, each of which hangs on all before it, and keeps a checkpoint after each; the
score hangs on the last one. So a trial that is taken up from a wrong or damaged checkpoint, or that
does a segment twice, is found out by its score. Its number decides what goes wrong with it.

FOLDER/story.txt has a line for each time it begins, takes up a checkpoint, and is done.
"""

import errno
import hashlib
import json
import math
import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

from hotlap.research.engines.job import promise_stacks, read_result, write_result
from hotlap.store.atomic import make_folder, write_file

SEGMENTS, STRIKES_IN = 4, 2
FAULTS = {
    (50, 3): "orphans",
    (50, 7): "crash",
    (100, 11): "killed",
    (50, 19): "nan",
    (50, 29): "simulator gone",
    (50, 37): "disk full",
    (50, 41): "corrupt checkpoint",
    (100, 47): "memory hog",
    (100, 61): "hang",
    (100, 71): "torn result",
    (100, 73): "exit code",
}
"""Trial number, modulo and rest, and what goes wrong with it."""
FAILING = ("crash", "killed", "nan", "simulator gone", "memory hog", "hang", "torn result")
"""What leaves a trial without a score; the others give the score they would have given anyway."""


def fault_of(trial: int) -> str | None:
    return next((fault for (by, rest), fault in FAULTS.items() if trial % by == rest), None)


def main(folder: Path) -> None:
    promise_stacks(folder)
    if read_result(folder) is not None:
        return
    table = json.loads((folder / "trial.json").read_text())
    checkpoints = folder / "run" / "checkpoints"
    make_folder(checkpoints)
    tell(folder, "began")
    done, state = last_checkpoint(checkpoints)
    if done:
        tell(folder, f"took up segment {done}")
    task = json.dumps([table["params"], table["seed"]], sort_keys=True)
    for segment in range(done, SEGMENTS):
        if segment == STRIKES_IN:  # again, if it is taken up here
            strike(fault_of(table["trial"]), table["attempt"], folder)
        time.sleep(0.005)
        state = hashlib.sha256(f"{state} {segment} {task}".encode()).hexdigest()
        write_file(checkpoints / f"{segment + 1}.json", render(segment + 1, state))
    finish(folder, table, state)


def finish(folder: Path, table: dict[str, Any], state: str) -> None:
    score = height(table["params"]) + noise(state)
    fault = fault_of(table["trial"])
    make_folder(folder / "run" / "model")
    write_file(folder / "run" / "model" / "weights.txt", state.encode())
    if fault == "torn result":
        (folder / "result.json").write_text('{"format": 1, "result": {"mean_re')
        return
    result = {"mean_reward": math.nan if fault == "nan" else score, "std_reward": 0.5}
    write_result(folder, result | {"timesteps": SEGMENTS, "model": "run/model"})
    tell(folder, "done")
    if fault == "exit code":
        sys.exit(3)


def height(params: dict[str, Any]) -> float:
    """A hill with a best place."""
    rate = math.log10(params["learning_rate"]) + 3
    gamma = (params["ppo.gamma"] - 0.98) / 0.02
    bins = (params["n_steer"] - 9) / 6
    return 10 - 4 * rate**2 - gamma**2 - bins**2 - (params["reward_shaping"] == "v1")


def noise(state: str) -> float:
    """Near enough to normal, with standard deviation 0.3: twelve even numbers, summed."""
    return 0.3 * (sum(int(state[4 * i : 4 * i + 4], 16) / 65536 for i in range(12)) - 6)


def strike(fault: str | None, attempt: int, folder: Path) -> None:
    if fault == "crash":
        raise RuntimeError("the trainer has a mistake")
    if fault == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if fault == "simulator gone":
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            port = closed.getsockname()[1]
        socket.create_connection(("127.0.0.1", port)).close()
    if fault == "disk full" and attempt == 1:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if fault == "corrupt checkpoint" and attempt == 1:
        for path in (folder / "run" / "checkpoints").iterdir():
            path.write_bytes(path.read_bytes().replace(b'"state": "', b'"state": "0'))
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # and it is begun again
    if fault == "memory hog":
        taken = b"x" * 450_000_000
        time.sleep(60)
        del taken
    while fault == "hang":
        time.sleep(60)
    if fault == "orphans":
        leave_orphans()


def leave_orphans() -> None:
    """Processes in a session of their own, whose parent is gone."""
    if os.fork() == 0:
        os.setsid()
        for handle in range(3):
            os.close(handle)
        if os.fork() == 0:
            os.execvp("sleep", ["sleep", "600"])
        os._exit(0)
    os.wait()


def render(segment: int, state: str) -> bytes:
    sum_of = hashlib.sha256(f"{segment} {state}".encode()).hexdigest()
    return json.dumps({"segment": segment, "state": state, "sha256": sum_of}).encode()


def last_checkpoint(folder: Path) -> tuple[int, str]:
    """The newest one that is whole; none is segment 0."""
    for segment in range(SEGMENTS, 0, -1):
        try:
            data = (folder / f"{segment}.json").read_bytes()
            state = json.loads(data)["state"]
        except (FileNotFoundError, ValueError, KeyError):
            continue
        if data == render(segment, state):
            return segment, state
    return 0, ""


def tell(folder: Path, word: str) -> None:
    with open(folder / "story.txt", "a") as file:
        file.write(word + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
