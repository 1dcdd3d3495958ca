"""Results of a study to a git remote, every so many trials, while the study goes on.

A worker process commits a few files and pushes them; this file is also the program it runs, which
is why it imports the standard library only. The study never waits for it, and what came of it is a
record. Nobody is asked for a password: whoever wants to push gives git a key or a credential helper
beforehand.

The commits lie in a git directory of their own, `.results.git` in the study's folder, and go to a
branch named after the study. A repository around the folder is never touched. To look at them:
`git --git-dir .results.git log`.

The worker leads a process group with everything that git starts. It ends the whole group when its
time is up, and when its standard input closes, which happens even if the study is killed.
"""

import json
import os
import re
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

GIT_FOLDER = ".results.git"
GROWING = ("ledger.jsonl", "log.txt")
"""What is published even where it is large, up to `LARGEST`."""
SMALL = ("report.md", "report/*", "champion/manifest.json")
"""What is published below `LARGE`: paths in the study's folder, * for any name."""
LARGE, LARGEST = 1_000_000, 50_000_000
"""Bytes. Servers refuse files of 100 MB, and every version of a file is kept for ever."""
PATIENCE = 10.0
"""Seconds that a worker may be late to end itself before it is ended."""


class Publisher:
    """Commits and pushes a study's results in the background; failures are records."""

    def __init__(
        self, study_folder: Path, remote: str, every: int, time_limit: float = 60.0
    ) -> None:
        """Nothing is started yet.

        Args:
            study_folder: The folder of the study.
            remote: An address that git can push to, a folder, or the name of a remote of the
                repository that the study is started in.
            every: Trials from one push to the next.
            time_limit: Seconds after which a push is given up.
        """
        if not remote.strip() or remote.startswith("-"):
            raise ValueError(f"a git remote is an address or a name such as origin, got {remote!r}")
        if every < 1:
            raise ValueError(f"results are pushed every 1 or more trials, got {every}")
        self.branch = f"results-{_plain_name(study_folder.absolute().name)}"
        self._folder = study_folder.absolute()
        # Seen from the study's folder, a relative path would lead elsewhere.
        self._remote = str(Path(remote).absolute()) if Path(remote).exists() else remote
        self._here = os.getcwd()
        self._every = every
        self._time_limit = time_limit
        self._worker: _Worker | None = None
        self._ended: list[dict[str, Any]] = []
        self._finished: int | None = None
        self._published = 0

    def trial_finished(self, finished: int) -> None:
        """Say how many trials are finished by now; every so often this begins a push."""
        if self._finished is None:  # begun, or gone on with: what came before was pushed then
            self._published = finished - 1
        self._finished = finished
        self._go_on()

    def collect(self) -> list[dict[str, Any]]:
        """What became of the pushes that ended since the last call; never waits.

        Each has `ok`, `reason` (why it failed), `trials` (finished when it began), `branch`,
        `commit`, `remote` (without password), `left_out` (files too large) and `elapsed_sec`.
        """
        self._go_on()
        ended, self._ended = self._ended, []
        return ended

    def finish(self, finished: int) -> list[dict[str, Any]]:
        """Push once more, because the study ends, and wait for it: at most two time limits."""
        self._wait()
        self._begin(finished)
        self._wait()
        return self.collect()

    def close(self) -> None:
        """End what is under way, and wait for nothing."""
        if self._worker is not None:
            self._worker.kill()
            self._worker = None

    def _go_on(self) -> None:
        self._take_record()
        finished = self._finished or 0
        if self._worker is None and finished // self._every > self._published // self._every:
            self._begin(finished)

    def _begin(self, finished: int) -> None:
        self._published = finished
        job = {
            "folder": str(self._folder),
            "remote": self._remote,
            "here": self._here,
            "branch": self.branch,
            "trials": finished,
            "time_limit": self._time_limit,
        }
        try:
            self._worker = _Worker(job)
        except OSError as error:
            self._ended.append(_record(job, ok=False, reason=f"git could not be started: {error}"))

    def _wait(self) -> None:
        while self._worker is not None:
            time.sleep(0.02)
            self._take_record()

    def _take_record(self) -> None:
        if self._worker is not None and self._worker.has_ended():
            self._ended.append(self._worker.record())
            self._worker = None


class _Worker:
    """The process that commits and pushes once, seen from the study."""

    def __init__(self, job: dict[str, Any]) -> None:
        self._job = job
        self._begin = time.monotonic()
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            start_new_session=True,  # a group that can be ended as a whole, without a terminal
        )
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # it is gone already, which its record will say
            # One line, and it stays open: when it closes, the worker ends.
            self._process.stdin.write(json.dumps(job).encode() + b"\n")

    def has_ended(self) -> bool:
        """Whether there is a record; ends a worker that did not end itself."""
        if time.monotonic() - self._begin > self._job["time_limit"] + PATIENCE:
            self._end()
            return True
        return self._process.poll() is not None

    def record(self) -> dict[str, Any]:
        """What became of it, once it has ended."""
        seconds = round(time.monotonic() - self._begin, 3)
        assert self._process.stdout is not None
        # Nothing can be read without waiting from a process that cannot even be killed.
        said = b"" if self._process.returncode is None else self._process.stdout.read()
        self._close()
        try:
            found = json.loads(said.partition(b"\n")[0])
        except ValueError:
            why = f"the worker ended without a word (exit {self._process.returncode})"
            found = _record(self._job, ok=False, reason=why)
        return {**found, "elapsed_sec": seconds}

    def kill(self) -> None:
        """End it with everything it started, and forget about it."""
        self._end()
        self._close()

    def _end(self) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(1.0)

    def _close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


def without_secrets(text: str) -> str:
    """A text in which addresses have lost user names, passwords and tokens."""
    text = re.sub(r"(\w://)\S*@", r"\1***@", text)
    return re.sub(r"(?i)([?&]\w*(?:token|key|secret|password)\w*=)[^&\s'\"]+", r"\1***", text)


def _plain_name(name: str) -> str:
    """A name that git takes for a branch."""
    plain = re.sub(r"[^A-Za-z0-9._-]+|\.\.+|\.(lock)?$", "-", name)
    return plain.strip(".-")[:64] or "study"


def _record(job: dict[str, Any], ok: bool, reason: str, **more: Any) -> dict[str, Any]:
    return {
        "ok": ok,
        "reason": without_secrets(reason),
        "trials": job["trials"],
        "branch": job["branch"],
        "remote": without_secrets(job["remote"]),
        "commit": None,
        "left_out": [],
        "elapsed_sec": None,
        **more,
    }


# --- The worker's side ---


class _GitFailed(Exception):
    """Git said no."""


class _Git:
    """Git on the study's own git directory, in such a way that it asks nobody anything."""

    def __init__(self, job: dict[str, Any]) -> None:
        self._folder = Path(job["folder"])
        self._here = job["here"]
        self._outside = _environment()
        self._inside = self._outside | {
            "GIT_DIR": str(self._folder / GIT_FOLDER),
            "GIT_WORK_TREE": str(self._folder),
        }
        self._options = [
            *("-c", "commit.gpgSign=false", "-c", "push.gpgSign=false"),  # may want a password
            *("-c", "gc.auto=0", "-c", "maintenance.auto=false"),  # would outlive the worker
            *("-c", "core.fsync=committed", "-c", "core.autocrlf=false"),
            *("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false"),
        ]

    def __call__(self, *words: str, may_fail: bool = False) -> str:
        """What git answers to a command."""
        return self._run([*self._options, *words], self._folder, self._inside, may_fail)

    def address(self, remote: str) -> str:
        """Where a remote is: the name of one in the repository around stands for its address."""
        if not re.fullmatch(r"[\w.-]+", remote):
            return remote
        words = ["remote", "get-url", "--push", remote]
        return self._run(words, self._here, self._outside, may_fail=True).strip() or remote

    def set_up(self, branch: str) -> None:
        """Make the git directory, or finish it, and clear away what a killed git left."""
        for lock in (self._folder / GIT_FOLDER).rglob("*.lock"):
            lock.unlink(missing_ok=True)
        # What git would run on somebody's word: a study's folder may come from elsewhere.
        for name in ("config", "config.worktree", "info/attributes"):
            (self._folder / GIT_FOLDER / name).unlink(missing_ok=True)
        self("init", "--quiet", "--template=")
        self("symbolic-ref", "HEAD", f"refs/heads/{branch}")
        for key, value in (("user.name", "hotlap"), ("user.email", "hotlap@localhost")):
            if not self("config", "--get", key, may_fail=True).strip():
                self._options += ["-c", f"{key}={value}"]
        if "GIT_SSH" not in self._inside:
            words = ["config", "--get", "core.sshCommand"]
            configured = self._run(words, self._here, self._outside, may_fail=True).strip()
            ssh = self._inside.get("GIT_SSH_COMMAND") or configured or "ssh"
            self._inside["GIT_SSH_COMMAND"] = f"{ssh} -o BatchMode=yes"

    def _run(
        self, words: Sequence[str], folder: str | Path, environment: dict[str, str], may_fail: bool
    ) -> str:
        answer = subprocess.run(
            ["git", *words],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if may_fail else subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
        )
        if answer.returncode and not may_fail:
            raise _GitFailed(answer.stdout)
        return "" if answer.returncode else answer.stdout


def _environment() -> dict[str, str]:
    """The user's environment without what points git elsewhere, and with nobody to be asked."""
    elsewhere = r"GIT_(DIR|WORK_TREE|INDEX_FILE|OBJECT_DIRECTORY|ALTERNATE_\w+|COMMON_DIR|PREFIX"
    elsewhere += r"|NAMESPACE|QUARANTINE_PATH|TRACE\w*|CURL_VERBOSE)"
    kept = {k: v for k, v in os.environ.items() if not re.fullmatch(elsewhere, k)}
    return kept | {
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "true",  # a program that answers nothing
        "SSH_ASKPASS": "true",
        "SSH_ASKPASS_REQUIRE": "never",
        "GCM_INTERACTIVE": "never",
        "GIT_EDITOR": "true",
        "LC_ALL": "C",
    }


def _publish(job: dict[str, Any]) -> dict[str, Any]:
    """Commit and push; a record of how it went."""
    done: dict[str, Any] = {}
    try:
        folder = Path(job["folder"])
        files, done["left_out"] = _choose(folder)
        git = _Git(job)
        git.set_up(job["branch"])
        remote = git.address(job["remote"])
        done["remote"] = without_secrets(remote)
        if files:
            git("--literal-pathspecs", "add", "--force", "--", *files)
        if git("diff", "--cached", "--name-only"):
            message = f"{folder.name}: {job['trials']} trials"
            git("commit", "--quiet", "--no-verify", "--message", message)
        done["commit"] = git("rev-parse", "HEAD").strip()
        git("push", "--porcelain", "--", remote, f"HEAD:refs/heads/{job['branch']}")
    except FileNotFoundError as error:
        missing = "git is not installed" if error.filename == "git" else str(error)
        return _record(job, ok=False, reason=missing, **done)
    except _GitFailed as failed:
        return _record(job, ok=False, reason=_reason(str(failed), job["branch"]), **done)
    except Exception as error:
        return _record(job, ok=False, reason=f"{type(error).__name__}: {error}", **done)
    return _record(job, ok=True, reason="", **done)


def _choose(folder: Path) -> tuple[list[str], list[str]]:
    """The files to publish and those that are too large, by their paths in the folder."""
    chosen: list[str] = []
    too_large: list[str] = []
    for patterns, limit in ((GROWING, LARGEST), (SMALL, LARGE)):
        for path in sorted(path for pattern in patterns for path in folder.glob(pattern)):
            inside = path.resolve().is_relative_to(folder.resolve())
            if path.is_symlink() or not path.is_file() or not inside or path.name.startswith("."):
                continue
            name = path.relative_to(folder).as_posix()
            (chosen if path.stat().st_size < limit else too_large).append(name)
    return chosen, too_large


def _reason(said: str, branch: str) -> str:
    """What git said, in one line."""
    lines = [line.strip() for line in said.splitlines()]
    lines = [line for line in lines if line and not line.startswith(("hint:", "To ", "Done"))]
    short = re.sub(r"\s+", " ", "; ".join(lines[-8:]))[-400:]
    if "[rejected]" in said:
        return (
            f"the remote's branch {branch} has commits that this study does not know, perhaps of "
            f"another one of the same name; remove that branch or rename the study ({short})"
        )
    return short or "git failed and did not say why"


class _Speaker:
    """Says one record, whoever comes first: the work or the watch."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._lock = threading.Lock()

    def say(self, record: dict[str, Any]) -> None:
        with self._lock:
            self._out.write(json.dumps(record) + "\n")
            self._out.flush()


def _watch(job: dict[str, Any], speaker: _Speaker) -> None:
    """End this process and all that it started, once its time is up or nobody listens any more."""
    ready, _, _ = select.select([0], [], [], job["time_limit"])
    if not ready:
        why = f"git did not end within {job['time_limit']:g} s and was stopped"
        speaker.say(_record(job, ok=False, reason=why))
    os.killpg(0, signal.SIGKILL)


def _work() -> None:
    """The worker: a job comes in on one line, a record goes out on one."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, it would turn git's failures into 0
    job = json.loads(sys.stdin.buffer.readline())
    speaker = _Speaker(sys.stdout)
    threading.Thread(target=_watch, args=(job, speaker), daemon=True).start()
    speaker.say(_publish(job))


if __name__ == "__main__":
    _work()
