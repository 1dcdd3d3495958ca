import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from hotlap.research import publishing
from hotlap.research.publishing import Publisher, without_secrets
from hotlap.store.ledger import Ledger

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="takes git")


@pytest.fixture(autouse=True)
def _nobodys_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Git without the settings of whoever runs the tests."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")


@pytest.fixture
def remote(tmp_path: Path) -> Path:
    git(tmp_path, "init", "--bare", "--quiet", "remote.git")
    return tmp_path / "remote.git"


@pytest.fixture
def study(tmp_path: Path) -> Path:
    folder = tmp_path / "runs" / "night"
    with Ledger.create(folder / "ledger.jsonl", {"seed": 0}) as ledger:
        ledger.append("trial", trial=1, mean_reward=0.5)
    return folder


@pytest.fixture
def sleeping_ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An ssh that never answers; the file in which it says who it is."""
    who = tmp_path / "ssh.pid"
    monkeypatch.setenv("GIT_SSH_COMMAND", script(tmp_path / "ssh", f"echo $$ > {who}; sleep 600"))
    return who


def git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    command = ["git", *identity, *words]
    return subprocess.run(
        command, cwd=folder, check=True, stdout=subprocess.PIPE, text=True
    ).stdout.strip()


def script(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def refusing(remote: Path, words: str = "this lab is closed") -> None:
    script(remote / "hooks" / "pre-receive", f"echo '{words}' >&2; exit 1")


def outcome(publisher: Publisher, seconds: float = 30.0) -> dict[str, Any]:
    """The next record, without `finish`, which waits by itself."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := publisher.collect():
            (record,) = found
            return record
        time.sleep(0.02)
    raise TimeoutError("no record")


def gone(pid: int, seconds: float = 10.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        time.sleep(0.02)
    return False


def said(path: Path, seconds: float = 30.0) -> int:
    end = time.monotonic() + seconds
    while not path.exists() or not path.read_text().strip():
        assert time.monotonic() < end, f"nothing in {path}"
        time.sleep(0.02)
    return int(path.read_text())


# --- What is published ---


def test_results_are_pushed_every_so_many_trials(study: Path, remote: Path) -> None:
    publisher = Publisher(study, str(remote), every=2)
    publisher.trial_finished(1)
    assert publisher.collect() == []
    publisher.trial_finished(2)
    record = outcome(publisher)
    assert (record["ok"], record["reason"], record["trials"]) == (True, "", 2)
    assert (record["branch"], record["left_out"]) == ("results-night", [])
    assert record["commit"] == git(remote, "rev-parse", "results-night")
    assert 0 < record["elapsed_sec"] < 30
    with Ledger.open(study / "ledger.jsonl") as ledger:
        ledger.append("push", **record)  # a record is one that the ledger takes
    publisher.trial_finished(3)
    assert publisher.collect() == []
    publisher.trial_finished(4)
    assert outcome(publisher)["ok"]
    assert git(remote, "log", "--format=%an: %s", "results-night").splitlines() == [
        "hotlap: night: 4 trials",
        "hotlap: night: 2 trials",
    ]
    shown = git(remote, "show", "results-night:ledger.jsonl")
    assert shown == (study / "ledger.jsonl").read_text().strip()


def test_a_study_that_goes_on_keeps_the_rhythm_and_the_branch(study: Path, remote: Path) -> None:
    for first in (7, 17):
        publisher = Publisher(study, str(remote), every=10)
        for finished in range(first, first + 3):
            publisher.trial_finished(finished)
            assert publisher.collect() == []
        publisher.trial_finished(first + 3)
        assert outcome(publisher)["ok"]
        (study / "log.txt").write_text(f"{first}\n")
    assert git(remote, "log", "--format=%s", "results-night").splitlines() == [
        "night: 20 trials",
        "night: 10 trials",
    ]


def test_only_what_is_meant_to_be_published_is(study: Path, remote: Path, tmp_path: Path) -> None:
    (study / "champion").mkdir()
    (study / "report").mkdir()
    (study / "log.txt").write_bytes(b"x" * 1_200_000)
    (study / "report.md").write_text("# Night\n")
    (study / "report" / "table.json").write_text("{}")
    (study / "report" / "film.mp4").write_bytes(bytes(1_000_000))
    (study / "report" / ".hidden").write_text("")
    (study / "champion" / "manifest.json").write_text("{}")
    (study / "champion" / "weights.safetensors").write_bytes(b"x")
    (study / ".env").write_text("TOKEN=secret")
    (study / ".gitignore").write_text("*\n")
    (tmp_path / "secret").write_text("secret")
    (study / "report" / "link").symlink_to(tmp_path / "secret")
    (record,) = Publisher(study, str(remote), every=1).finish(1)
    assert (record["ok"], record["left_out"]) == (True, ["report/film.mp4"])
    assert git(remote, "ls-tree", "-r", "--name-only", "results-night").splitlines() == [
        "champion/manifest.json",
        "ledger.jsonl",
        "log.txt",
        "report.md",
        "report/table.json",
    ]


def test_the_repository_around_a_study_is_left_alone(
    study: Path, remote: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "runs"
    git(home, "init", "--quiet")
    git(home, "remote", "add", "lab", str(remote))
    (home / "code.py").write_text("1\n")
    git(home, "add", "code.py")
    git(home, "commit", "--quiet", "-m", "mine")
    (home / "code.py").write_text("2\n")
    git(home, "add", "code.py")
    monkeypatch.setenv("GIT_DIR", str(home / ".git"))  # as where a hook starts the study
    monkeypatch.setenv("GIT_INDEX_FILE", str(home / ".git" / "index"))
    monkeypatch.chdir(home)
    files = [home / ".git" / name for name in ("index", "config", "HEAD", "logs/HEAD")]
    before = [file.read_bytes() for file in files]
    (record,) = Publisher(study, "lab", every=1).finish(1)  # its remote may be named
    assert (record["ok"], record["remote"]) == (True, str(remote))
    assert [file.read_bytes() for file in files] == before


def test_a_remote_with_other_branches_keeps_them(study: Path, remote: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "--quiet", str(remote), "clone")
    git(tmp_path / "clone", "commit", "--quiet", "--allow-empty", "-m", "other")
    git(tmp_path / "clone", "push", "--quiet", "origin", "HEAD:main")
    main = git(remote, "rev-parse", "main")
    (record,) = Publisher(study, str(remote), every=1).finish(1)
    assert record["ok"]
    assert git(remote, "rev-parse", "main") == main


@pytest.mark.parametrize(
    ("name", "branch"),
    [
        ("night", "results-night"),
        ("a b/..c", "results-c"),
        ("ü~^:?*[", "results-study"),
        ("x.lock", "results-x"),
        ("a..b", "results-a-b"),
        ("-x-.", "results-x"),
    ],
)
def test_the_branch_is_named_after_the_study(name: str, branch: str, tmp_path: Path) -> None:
    publisher = Publisher(tmp_path / name, "origin", every=1)
    assert publisher.branch == branch
    git(tmp_path, "check-ref-format", "--branch", publisher.branch)


# --- What goes wrong is a record ---


def test_a_remote_that_refuses_is_a_record_and_the_next_push_brings_all(
    study: Path, remote: Path
) -> None:
    refusing(remote)
    publisher = Publisher(study, str(remote), every=1)
    publisher.trial_finished(1)
    record = outcome(publisher)
    assert not record["ok"]
    assert "this lab is closed" in record["reason"]
    assert "pre-receive hook declined" in record["reason"]
    (remote / "hooks" / "pre-receive").unlink()
    publisher.trial_finished(2)  # nothing new is there to commit
    assert outcome(publisher)["ok"]
    assert git(remote, "log", "--format=%s", "results-night") == "night: 1 trials"


def test_a_branch_that_others_moved_is_a_record(study: Path, remote: Path, tmp_path: Path) -> None:
    publisher = Publisher(study, str(remote), every=1)
    assert publisher.finish(1)[0]["ok"]
    git(tmp_path, "clone", "--quiet", "--branch", "results-night", str(remote), "clone")
    git(tmp_path / "clone", "commit", "--quiet", "--allow-empty", "-m", "other")
    git(tmp_path / "clone", "push", "--quiet")
    other = git(remote, "rev-parse", "results-night")
    (study / "log.txt").write_text("more\n")
    (record,) = publisher.finish(2)
    assert not record["ok"]
    assert "has commits that this study does not know" in record["reason"]
    assert "rename the study" in record["reason"]
    assert git(remote, "rev-parse", "results-night") == other


def test_a_remote_that_hangs_is_stopped_with_all_it_started_and_nobody_waits(
    study: Path, sleeping_ssh: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publisher = Publisher(study, "ssh://lab.example/results.git", every=1, time_limit=2.5)
    begin = time.monotonic()
    for finished in (1, 2, 3):  # the second and third wait for the first to end
        publisher.trial_finished(finished)
        assert publisher.collect() == []
    assert time.monotonic() - begin < 2.0
    monkeypatch.setenv("GIT_SSH_COMMAND", "false")  # for the next
    ssh = said(sleeping_ssh)
    record = outcome(publisher)
    assert (record["ok"], record["trials"]) == (False, 1)
    assert record["reason"] == "git did not end within 2.5 s and was stopped"
    assert 2 < record["elapsed_sec"] < 20
    assert gone(ssh)
    assert outcome(publisher)["trials"] == 3


def test_closing_stops_a_push_at_once(study: Path, sleeping_ssh: Path) -> None:
    publisher = Publisher(study, "lab.example:results.git", every=1)
    publisher.trial_finished(1)
    ssh = said(sleeping_ssh)
    publisher.close()
    publisher.close()
    assert gone(ssh)


CONTROLLER = """
import pathlib, sys, time
from hotlap.research import publishing
from hotlap.research.publishing import Publisher
publisher = Publisher(pathlib.Path(sys.argv[1]), "ssh://lab.example/x.git", every=1)
publisher.trial_finished(1)
time.sleep(600)
"""


def test_no_push_outlives_a_killed_study(study: Path, sleeping_ssh: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", CONTROLLER, str(study)]) as controller:
        ssh = said(sleeping_ssh)
        controller.send_signal(signal.SIGKILL)
    assert gone(ssh)


def test_without_git_there_is_a_record(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    (record,) = Publisher(study, "/nowhere", every=1).finish(1)
    assert (record["ok"], record["reason"]) == (False, "git is not installed")


def test_a_remote_or_folder_that_is_not_there_is_a_record(study: Path, tmp_path: Path) -> None:
    (record,) = Publisher(study, str(tmp_path / "nothing.git"), every=1).finish(1)
    assert not record["ok"]
    assert "nothing.git' does not appear to be a git repository" in record["reason"]
    (record,) = Publisher(tmp_path / "gone", str(tmp_path), every=1).finish(1)
    assert not record["ok"]
    assert "gone" in record["reason"]


def test_a_password_is_neither_asked_for_nor_told(study: Path, tmp_path: Path) -> None:
    # Port 9 answers to nobody; the words come from git's own error.
    address = "https://me:p%40ss@127.0.0.1:9/x.git?private_token=abc"
    (record,) = Publisher(study, address, every=1).finish(1)
    assert not record["ok"]
    assert record["remote"] == "https://***@127.0.0.1:9/x.git?private_token=***"
    for path in [path for path in study.rglob("*") if path.is_file()]:
        assert b"p%40ss" not in path.read_bytes()
    assert "p%40ss" not in str(record) and "abc" not in str(record)
    assert without_secrets("a://u:p@s/s@h b@c") == "a://***@h b@c"


def test_locks_that_a_killed_git_left_do_not_stop_the_next(study: Path, remote: Path) -> None:
    publisher = Publisher(study, str(remote), every=1)
    assert publisher.finish(1)[0]["ok"]
    for name in ("index.lock", "HEAD.lock", "refs/heads/results-night.lock"):
        (study / ".results.git" / name).write_text("")
    (study / "log.txt").write_text("more\n")
    assert publisher.finish(2)[0]["ok"]


def test_a_study_folder_from_elsewhere_runs_nothing(study: Path, remote: Path) -> None:
    outcome_of_first = Publisher(study, str(remote), 1).finish(1)
    assert outcome_of_first[-1]["ok"]
    planted, ran = study / ".results.git", study / "ran"
    (planted / "hooks").mkdir(exist_ok=True)
    for hook in ("pre-push", "post-commit", "reference-transaction"):
        script(planted / "hooks" / hook, f"touch {ran}")
    evil = script(study / "evil", f"touch {ran}")
    for key in ("core.fsmonitor", "core.sshCommand", "filter.x.clean", "credential.helper"):
        git(study, "--git-dir", str(planted), "config", key, evil)
    (planted / "info").mkdir(exist_ok=True)
    (planted / "info" / "attributes").write_text("* filter=x\n")
    (study / "log.txt").write_text("more\n")
    assert Publisher(study, str(remote), 1).finish(2)[-1]["ok"]
    assert not ran.exists()


def test_a_worker_that_ends_without_a_word_is_a_record(
    study: Path, remote: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", script(tmp_path / "python", "exit 3"))
    (record,) = Publisher(study, str(remote), every=1).finish(1)
    assert not record["ok"]
    assert record["reason"] == "the worker ended without a word (exit 3)"
    monkeypatch.setattr(sys, "executable", str(tmp_path / "nothing"))
    (record,) = Publisher(study, str(remote), every=1).finish(1)
    assert "could not be started" in record["reason"]


def test_a_worker_that_does_not_end_itself_is_ended(
    study: Path, remote: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    who = tmp_path / "pid"
    monkeypatch.setattr(sys, "executable", script(tmp_path / "python", f"echo $$ > {who}; sleep 9"))
    monkeypatch.setattr(publishing, "PATIENCE", 0.2)
    (record,) = Publisher(study, str(remote), every=1, time_limit=0.3).finish(1)
    assert record["reason"] == "the worker ended without a word (exit -9)"
    assert gone(said(who))


@pytest.mark.parametrize(("remote", "every"), [("", 1), ("--exec=x", 1), ("origin", 0)])
def test_what_makes_no_sense_is_refused_at_once(remote: str, every: int, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"remote|every"):
        Publisher(tmp_path, remote, every)
