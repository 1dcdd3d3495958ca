"""`hotlap research` and `hotlap champion`, as they are typed."""

import contextlib
import errno
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from hotlap.cli import main
from hotlap.config.research import ResearchConfig
from hotlap.research.overnight import Log
from hotlap.store.ledger import Ledger, read_ledger

Captured = pytest.CaptureFixture[str]

TRAINER = f"{sys.executable} {Path(__file__).with_name('trainer.py')}"
SPACE = "[learning_rate]\nlow = 1e-5\nhigh = 1e-1\nlog = true\n"


def words(root: Path, trials: int = 3, *more: str) -> list[str]:
    """A study that takes no car, in `root`/night."""
    space = root / "space.toml"
    if not space.exists():
        space.write_text(SPACE)
    fixed = ["--space", str(space), "--trainer", TRAINER, "--study", "night", "--device", "cpu"]
    fixed += ["--workers", "2", "--test-runs", "1", "--root", str(root), "--trials", str(trials)]
    return ["research", "donkey", *fixed, *more]


def answer(capsys: Captured) -> dict[str, Any]:
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert isinstance(found, dict)
    return found


def records(root: Path, kind: str | None = None) -> list[dict[str, Any]]:
    return read_ledger(root / "night" / "ledger.jsonl").records(kind)


def test_a_night_leaves_a_ledger_a_log_a_champion_and_a_report(
    tmp_path: Path, capsys: Captured
) -> None:
    assert main(words(tmp_path, 12, "--json")) == 0
    found, folder = answer(capsys), tmp_path / "night"
    assert found["trials"] == 15  # twelve, and the best three on one untouched seed
    assert found["statuses"] == {"ok": 15}
    assert found["reason"] == "budget: 12 trials"
    assert found["champion"]["learning_rate"] == pytest.approx(1e-3, rel=2.0)
    assert found["optimism"] == pytest.approx(found["claimed"] - found["tested"])
    assert Path(found["model"]) == folder / "champion" / "model"
    assert {"ledger.jsonl", "log.txt", "report.md", "champion", "trials"} <= set(os.listdir(folder))
    assert f"optimism {found['optimism']:+.2f}" in (folder / "report.md").read_text()
    log = (folder / "log.txt").read_text()
    assert "title promoted" in log
    assert "on untouched seeds:" in log
    head = records(tmp_path)[0]
    assert head["training"]["evaluation_reward"] == "default"
    assert head["space"]["learning_rate"]["log"] is True
    trial = json.loads((folder / "trials" / "0001" / "trial.json").read_text())
    assert trial["settings"]["task"] == "donkey"

    assert main(["champion", "night", "--root", str(tmp_path), "--json"]) == 0
    shown = answer(capsys)
    assert shown["params"] == found["champion"]
    assert shown["claimed"] == found["claimed"]
    copy = tmp_path / "mine"
    take = ["champion", "--root", str(tmp_path), "--export", str(copy)]
    assert main(take) == 0
    assert (copy / "weights.txt").read_text() == (folder / "champion/model/weights.txt").read_text()
    assert "claimed" in capsys.readouterr().out
    assert main(take) == 2
    assert "exists; name a new folder" in capsys.readouterr().err


def test_repeating_the_command_goes_on_and_at_the_end_does_nothing(
    tmp_path: Path, capsys: Captured
) -> None:
    assert main(words(tmp_path, 2)) == 0
    before = (tmp_path / "night" / "ledger.jsonl").read_bytes()
    capsys.readouterr()
    assert main(words(tmp_path, 2)) == 0
    assert "stopped: budget: 2 trials" in capsys.readouterr().out
    assert (tmp_path / "night" / "ledger.jsonl").read_bytes() == before
    assert main(words(tmp_path, 4)) == 0
    assert "going on after 4 trials" in capsys.readouterr().out  # two, and two tests
    assert [r["role"] for r in records(tmp_path, "trial")].count("test") < len(
        records(tmp_path, "trial")
    ) - 3
    assert records(tmp_path, "stop")[-1]["reason"] == "budget: 4 trials"


def test_other_settings_in_the_same_study_are_refused(tmp_path: Path, capsys: Captured) -> None:
    assert main(words(tmp_path, 1)) == 0
    for more, word in (
        (["--seed", "7"], "seed: it has 0, asked for 7"),
        (["--track", "warren"], "another training"),
        (["--champion", "naive"], "champion: it has 'race'"),
        (["--trainer", "true"], "another trainer"),
    ):
        capsys.readouterr()
        assert main(words(tmp_path, 1, *more)) == 2
        assert word in capsys.readouterr().err
    (tmp_path / "space.toml").write_text(SPACE.replace("1e-5", "1e-6"))
    assert main(words(tmp_path, 1)) == 2
    assert "learning_rate: low: it has 1e-05, asked for 1e-06" in capsys.readouterr().err


def test_failed_runs_are_told_and_the_night_goes_on(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "night").mkdir()
    (tmp_path / "night" / "mood").write_text("fragile")
    assert main(words(tmp_path, 4, "--json")) == 0
    found = answer(capsys)
    assert found["statuses"]["failed"] >= 1
    assert found["champion"] is None
    assert found["model"] is None
    failed = [r for r in records(tmp_path, "trial") if r["run_status"] == "failed"]
    assert "the wheels came off" in failed[0]["reason"]
    report = (tmp_path / "night" / "report.md").read_text()
    assert "Nobody holds the title." in report
    assert f"- trial {failed[0]['trial']}, failed:" in report
    assert main(["champion", "night", "--root", str(tmp_path)]) == 2
    assert "has no champion yet: a title takes runs on three fresh" in capsys.readouterr().err


def test_earlier_results_are_taken_as_far_as_they_fit(tmp_path: Path, capsys: Captured) -> None:
    rates = [10 ** (-5 + k / 3) for k in range(12)]
    lines = [
        json.dumps({"params": {"learning_rate": rate}, "mean_reward": -abs(rate - 1e-3)})
        for rate in rates
    ]
    outside = json.dumps({"params": {"learning_rate": 5.0}, "mean_reward": 1e6})
    path = tmp_path / "plain.jsonl"
    path.write_text("\n".join([*lines, lines[0], outside, "not json", '{"params": {"lea']))
    assert main(words(tmp_path, 1, "--earlier", str(path))) == 0
    told = capsys.readouterr().out
    assert f"{path}: 12 earlier results" in told
    assert f"{path}: 1 line left out, learning_rate lies outside today's range" in told
    assert "there twice" in told
    assert "foreign" in told
    assert "torn" in told
    assert "fills the space" not in records(tmp_path, "proposal")[0]["why"]


def test_a_damaged_ledger_is_refused_and_repaired_when_asked(
    tmp_path: Path, capsys: Captured
) -> None:
    assert main(words(tmp_path, 3)) == 0
    path = tmp_path / "night" / "ledger.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    at = next(n for n, line in enumerate(lines) if b'"proposal", "trial": 2' in line)
    lines[at] = lines[at].replace(b"seed", b"sead", 1)
    path.write_bytes(b"".join(lines))
    capsys.readouterr()
    assert main(words(tmp_path, 4)) == 2
    assert f"line {at + 1}: its checksum does not hold" in capsys.readouterr().err
    assert main(words(tmp_path, 4, "--repair")) == 0
    assert f"dropped line {at + 1}" in capsys.readouterr().out
    trials = [r["trial"] for r in records(tmp_path, "trial")]
    assert len(trials) == len(set(trials))
    assert records(tmp_path, "stop")[-1]["reason"] == "budget: 4 trials"
    assert path.with_name("ledger.jsonl.damaged").exists()


def test_a_torn_ledger_heals_and_says_so(tmp_path: Path, capsys: Captured) -> None:
    assert main(words(tmp_path, 2)) == 0
    path = tmp_path / "night" / "ledger.jsonl"
    whole = path.read_bytes()
    at = whole.rindex(b'{"kind": "trial"')
    path.write_bytes(whole[: at + 30])
    capsys.readouterr()
    assert main(words(tmp_path, 2)) == 0
    assert "the last line is torn: 30 bytes" in capsys.readouterr().out
    assert len(read_ledger(path).records("trial")) == whole.count(b'{"kind": "trial"')


def test_a_second_controller_is_refused_and_told_who_leads(
    tmp_path: Path, capsys: Captured
) -> None:
    with Ledger.create(tmp_path / "night" / "ledger.jsonl", {"space": {}}):
        assert main(words(tmp_path)) == 1
    error = capsys.readouterr().err
    assert f"is being written by process {os.getpid()} on" in error
    assert "name another study" in error


def test_a_remote_that_refuses_is_a_record(tmp_path: Path, capsys: Captured) -> None:
    nowhere = str(tmp_path / "no" / "such" / "remote.git")
    assert main(words(tmp_path, 2, "--remote", nowhere, "--push-every", "1")) == 0
    pushes = records(tmp_path, "push")
    assert pushes
    assert not any(push["ok"] for push in pushes)
    assert pushes[-1]["reason"]
    assert "push failed: " in capsys.readouterr().out
    assert main(words(tmp_path, 3, "--remote", nowhere)) == 0  # the last push is the only one
    assert "push failed: " in capsys.readouterr().out


def test_the_last_push_takes_the_report_along(tmp_path: Path) -> None:
    remote = tmp_path / "remote.git"
    subprocess.run(["git", "init", "--quiet", "--bare", str(remote)], check=True)
    assert main(words(tmp_path, 2, "--remote", str(remote))) == 0
    assert records(tmp_path, "push")[-1]["ok"]
    files = subprocess.run(
        ["git", "-C", str(remote), "ls-tree", "-r", "--name-only", "results-night"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert {"ledger.jsonl", "log.txt", "report.md", "report/history.png"} <= set(
        files.stdout.split()
    )


def test_a_log_that_cannot_be_written_stops_nothing(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "night" / "log.txt").mkdir(parents=True)
    assert main(words(tmp_path, 1)) == 0
    assert "log.txt cannot be written" in capsys.readouterr().out


def test_a_disk_that_stays_full_ends_the_night_with_a_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setattr("hotlap.research.night.FREE", 10**18)
    monkeypatch.setattr("hotlap.research.night.PATIENCE", 0.0)
    assert main(words(tmp_path, 2)) == 1
    assert "MB free for a run" in capsys.readouterr().err
    monkeypatch.undo()
    assert main(words(tmp_path, 2)) == 0
    assert "trial 1: taken up again" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("more", "word"),
    [
        (["--agent", "ppo"], "unknown parameter 'agent'"),
        (["--min-timesteps", "5"], "leaves the timesteps alone"),
        (["--space", "donky"], "did you mean 'donkey'"),
        (["--space", "donkey", "--agent", "sac"], "unknown agent 'sac'"),
        (["--space", "donkey", "--max-timesteps", "500"], "timesteps would go from 20000 to 500"),
        (["--space", "nowhere.toml"], "no file of ranges can be read"),
        (["--earlier", "nowhere.jsonl"], "no earlier results at nowhere.jsonl"),
        (["--study", "../up"], "a study's name has small letters"),
        (["--remote=--force"], "a git remote is an address"),
        (["--remote="], "a git remote is an address"),
        (["--trainer", "python 'x"], "No closing quotation"),
        (["--trainer", " "], "trainer must be a command"),
        (["--trainer", "no-such-program"], "there is no program 'no-such-program'"),
        (["--device", "banana"], "device must be auto, cpu, cuda"),
        (["--device", "cuda:97"], "this machine has"),
        (["--gpu-share", "1e-9"], "gpu_share must be 0 or"),
        (["--target", "nan"], "target must be a number"),
        (["--workers", "-1"], "workers must be 0"),
    ],
)
def test_wrong_words_are_answered_before_anything_is_written(
    more: list[str], word: str, tmp_path: Path, capsys: Captured
) -> None:
    assert main(words(tmp_path, 1, *more)) == 2
    assert word in capsys.readouterr().err
    assert not (tmp_path / "night").exists()


@pytest.mark.parametrize(
    ("more", "word"),
    [
        (["--track", "waren"], "did you mean 'warren'"),
        (["--unseen", "warehose"], "did you mean 'warehouse'"),
        (["--unseen", "circuit:3-2"], "a range holds 1 to 3000 tracks"),
        (["--track", "unseen"], "tracks from number 90000 up are for judging only"),
        (["--preset", "donkey/defalt"], "did you mean"),
    ],
)
def test_what_would_fail_only_in_the_night_is_refused_in_the_evening(
    more: list[str], word: str, tmp_path: Path, capsys: Captured
) -> None:
    assert main(["research", "donkey", "--trials", "2", "--root", str(tmp_path), *more]) == 2
    assert word in capsys.readouterr().err
    assert not (tmp_path / "research-donkey").exists()


def test_a_space_without_free_parameters_is_refused(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "space.toml").write_text("[learning_rate]\nlow = 0.001\nhigh = 0.001\n")
    assert main(words(tmp_path)) == 2
    assert "a search space needs at least one free parameter" in capsys.readouterr().err


def test_a_task_without_a_space_is_told_what_to_name(tmp_path: Path, capsys: Captured) -> None:
    assert main(["research", "CartPole-v1", "--root", str(tmp_path)]) == 2
    assert "name a TOML file by --space, or one of donkey" in capsys.readouterr().err


@pytest.mark.slow
def test_a_killed_night_is_gone_on_with(tmp_path: Path) -> None:
    given = [sys.executable, "-m", "hotlap", *words(tmp_path, 10, "--ordered")]
    (tmp_path / "night").mkdir()
    (tmp_path / "night" / "mood").write_text("slow")
    night = subprocess.Popen(given, stdout=subprocess.DEVNULL)
    end = time.monotonic() + 60
    while len(list((tmp_path / "night").glob("trials/*/process.json"))) < 2:
        assert time.monotonic() < end
        time.sleep(0.1)
    night.send_signal(signal.SIGKILL)
    night.wait()
    (tmp_path / "night" / "mood").unlink()
    done = subprocess.run(given, stdout=subprocess.PIPE, text=True, check=True)
    assert "trial 1: taken up again" in done.stdout
    calm = tmp_path / "calm"
    calm.mkdir()
    assert main(words(calm, 10, "--ordered")) == 0
    times = ("timestamp", "elapsed_sec")
    torn, whole = (
        [{k: v for k, v in r.items() if k not in times} for r in records(root)]
        for root in (tmp_path, calm)
    )
    assert torn == whole


@pytest.mark.slow
def test_a_small_study_of_the_road(tmp_path: Path, capsys: Captured) -> None:
    given = ["research", "donkey-telemetry", "--agent", "ppo", "--trials", "3", "--workers", "2"]
    given += ["--min-timesteps", "1000", "--max-timesteps", "2000", "--eval-episodes", "1"]
    given += ["--race.runs", "1", "--test-runs", "1", "--unseen", "warehouse", "--no-video"]
    given += ["--root", str(tmp_path), "--device", "cpu", "--json"]
    assert main(given) == 0
    found, folder = answer(capsys), tmp_path / "research-donkey-telemetry"
    assert found["statuses"].keys() == {"ok"}
    assert {"ledger.jsonl", "log.txt", "report.md"} <= set(os.listdir(folder))
    report = (folder / "report.md").read_text()
    if found["champion"] is None:
        assert "Nobody holds the title." in report
        assert main(["champion", "--root", str(tmp_path)]) == 2
        assert "has no champion yet" in capsys.readouterr().err
    else:
        assert found["gap"] is not None
        assert "The champion at the wheel" in report
        show = ["champion", "--root", str(tmp_path), "--track", "warren", "--episodes", "1"]
        assert main([*show, "--json"]) == 0
        assert answer(capsys)["evaluation"]["tracks"].keys() == {"warren"}


class FullScreen(io.StringIO):
    """Standard output that goes to a full disk."""

    def write(self, text: str) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_log_that_nobody_can_take_ends_no_night(tmp_path: Path) -> None:
    with contextlib.redirect_stdout(FullScreen()):
        Log(tmp_path / "no" / "such" / "folder.txt")("trial 1: ok")
        Log(tmp_path / "log.txt")("trial 2: ok")
    assert (tmp_path / "log.txt").read_text().endswith("trial 2: ok\n")  # the file has it


def test_where_nothing_scores_the_night_ends_early_and_can_go_on(
    tmp_path: Path, capsys: Captured
) -> None:
    mood = tmp_path / "night" / "mood"
    mood.parent.mkdir()
    mood.write_text("broken")
    assert main(words(tmp_path, 0, "--hours", "1")) == 1
    found = capsys.readouterr()
    assert "nothing has scored: it exited with code 1: the wheels came off" in found.err
    assert "stopped: failing: 1" in found.out  # ten, and perhaps one that was under way
    failed = len(records(tmp_path, "trial"))
    assert 10 <= failed <= 12
    assert "the wheels came off" in (tmp_path / "night" / "report.md").read_text()
    mood.unlink()
    assert main(words(tmp_path, failed + 3, "--hours", "1")) == 0
    assert f"going on after {failed} trials" in capsys.readouterr().out
    assert {r["run_status"] for r in records(tmp_path, "trial")[failed:]} == {"ok"}


def test_a_study_that_ran_out_of_time_without_a_score_goes_on(
    tmp_path: Path, capsys: Captured
) -> None:
    mood = tmp_path / "night" / "mood"
    mood.parent.mkdir()
    mood.write_text("broken")
    assert main(words(tmp_path, 4)) == 1
    mood.unlink()
    assert main(words(tmp_path, 8)) == 0
    assert records(tmp_path, "stop")[-1]["reason"] == "budget: 8 trials"


def test_hours_alone_set_the_end(tmp_path: Path) -> None:
    assert ResearchConfig().most_trials == 100
    assert ResearchConfig(hours=8).most_trials == 0
    assert ResearchConfig(target=5.0).most_trials == 0
    assert ResearchConfig(hours=8, trials=30).most_trials == 30


def test_the_report_tells_the_last_test_of_todays_champion(
    tmp_path: Path, capsys: Captured
) -> None:
    for trials in (10, 24):
        assert main(words(tmp_path, trials, "--json")) == 0
        found = answer(capsys)
    for certificate in records(tmp_path, "certificate"):
        assert len(certificate["finalists"]) <= 3
    page = (tmp_path / "night" / "report.md").read_text()
    assert f"Claimed {found['claimed']:.2f}; on one seed" in page
    assert f"it scored {found['tested']:.2f}: optimism" in page


def test_a_damaged_champion_is_written_anew(tmp_path: Path, capsys: Captured) -> None:
    assert main(words(tmp_path, 10)) == 0
    path = tmp_path / "night" / "champion" / "manifest.json"
    whole = json.loads(path.read_text())
    path.write_text('{"trial": 3, "ti')
    capsys.readouterr()
    assert main(["champion", "night", "--root", str(tmp_path)]) == 2
    assert "manifest.json is damaged" in capsys.readouterr().err
    assert main(words(tmp_path, 10)) == 0
    assert json.loads(path.read_text()) == whole


@pytest.mark.parametrize(("mood", "kept"), [("linked", True), ("fifo", False)])
def test_a_model_that_cannot_be_copied_ends_no_night(
    tmp_path: Path, capsys: Captured, mood: str, kept: bool
) -> None:
    (tmp_path / "night").mkdir()
    (tmp_path / "night" / "mood").write_text(mood)
    assert main(words(tmp_path, 4, "--champion", "naive", "--json")) == 0
    assert answer(capsys)["champion"] is not None
    assert (tmp_path / "night" / "champion" / "model").exists() is kept
    notes = [note["text"] for note in records(tmp_path, "note")]
    assert any("the champion could not be kept" in text for text in notes) is not kept


def test_a_terminal_of_few_letters_ends_no_night(tmp_path: Path) -> None:
    child = subprocess.run(
        [sys.executable, "-m", "hotlap", *words(tmp_path, 2)],
        env=os.environ | {"PYTHONIOENCODING": "ascii"}, capture_output=True, timeout=120,
    )  # fmt: skip
    assert child.returncode == 0, child.stderr
    assert b" ? 1.00" in child.stdout


def test_secrets_stay_out_of_the_evidence(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "night").mkdir()
    (tmp_path / "night" / "mood").write_text("broken")
    remote = "https://me:s3cret@localhost:1/x.git"
    assert main(words(tmp_path, 1, "--remote", remote)) == 1
    capsys.readouterr()
    (evidence,) = (tmp_path / "failures").iterdir()
    assert "s3cret" not in evidence.read_text()
    assert "***@localhost" in evidence.read_text()
