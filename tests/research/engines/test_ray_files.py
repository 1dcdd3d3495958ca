"""What goes to a node without our disk and comes back from it; no cluster needed."""

import sys
from pathlib import Path

import pytest

from hotlap.research.engines import ray_engine
from hotlap.research.engines.job import Job, Outcome, read_result, write_result
from hotlap.research.engines.ray_engine import RayEngine

CODE = """
import sys
from pathlib import Path
from hotlap.research.engines.job import write_result
folder = Path(sys.argv[1])
score = float((folder / "trial.json").read_text())
(folder / "run").mkdir()
(folder / "run" / "large").write_bytes(bytes(50_000))
(folder / "run" / "small").write_bytes(b"model")
print("driven")
write_result(folder, {"mean_reward": score})
"""
SETTINGS = ray_engine._Settings(grace=0.5, output_limit=100_000, files_limit=20_000)


@pytest.fixture
def job(tmp_path: Path) -> Job:
    """A trial whose folder is not there, as on a machine with a disk of its own."""
    folder = tmp_path / "node" / "0003"
    return Job(3, folder, (sys.executable, "-c", CODE, str(folder)))


def test_files_travel_where_the_disk_is_not_shared(job: Job, tmp_path: Path) -> None:
    returned = ray_engine._run(job, "token", {"trial.json": b"0.25"}, SETTINGS)
    assert not job.folder.exists()  # nothing piles up on the node
    here = tmp_path / "here"
    here.mkdir()
    outcome = ray_engine._received(returned, here)
    assert outcome.status == "done"
    assert "1 large files stayed" in outcome.reason
    assert read_result(here) == {"mean_reward": 0.25}
    assert (here / "output.txt").read_text() == "driven\n"
    assert (here / "run" / "small").read_bytes() == b"model"
    assert not (here / "run" / "large").exists()
    assert not (here / "process.json").exists()


def test_a_shared_folder_stays_as_it_is(job: Job) -> None:
    job.folder.mkdir(parents=True)
    (job.folder / "trial.json").write_text("0.5")
    (job.folder / ray_engine._mark("token")).touch()
    returned = ray_engine._run(job, "token", {"trial.json": b"0.25"}, SETTINGS)
    assert returned.files == {}
    assert read_result(job.folder) == {"mean_reward": 0.5}


def test_a_folder_that_was_there_before_is_not_removed(job: Job) -> None:
    job.folder.mkdir(parents=True)
    returned = ray_engine._run(job, "token", {"trial.json": b"0.25"}, SETTINGS)
    assert "result.json" in returned.files
    assert job.folder.exists()


def test_a_node_without_room_for_the_folder_is_no_fault_of_the_trial(job: Job) -> None:
    job.folder.parent.write_text("a file")
    returned = ray_engine._run(job, "token", {}, SETTINGS)
    assert returned.outcome.status == "lost"


def test_a_result_that_did_not_arrive_is_lost(tmp_path: Path) -> None:
    returned = ray_engine._Returned(Outcome(3, "done"), {})
    outcome = ray_engine._received(returned, tmp_path)
    assert outcome.status == "lost" and "did not arrive" in outcome.reason


def test_files_cannot_leave_the_folder(tmp_path: Path) -> None:
    for name in ("/etc/x", "../x", "a/../../x"):
        with pytest.raises(ValueError, match="must stay"):
            ray_engine._unpack({name: b""}, tmp_path)


def test_hidden_files_and_links_do_not_travel(tmp_path: Path) -> None:
    write_result(tmp_path, {})
    (tmp_path / ".part").touch()
    (tmp_path / "link").symlink_to("/etc/passwd")
    (tmp_path / "process.json").touch()
    files, left_out = ray_engine._pack(tmp_path, 1000)
    assert list(files) == ["result.json"] and left_out == []


def test_without_ray_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r"pip install 'hotlap\[ray\]'"):
        RayEngine()
