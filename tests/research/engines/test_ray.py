"""Trials on a real Ray cluster of two nodes, one of which is killed."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hotlap.research.engines import local, processes, ray_engine
from hotlap.research.engines.job import Engine, Job, Outcome, read_result
from hotlap.research.engines.local import LocalEngine
from hotlap.research.engines.ray_engine import RayEngine
from hotlap.store.ledger import read_ledger

ray = pytest.importorskip("ray")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

CODE = """
import os, sys, time
from pathlib import Path
from hotlap.research.engines.job import write_result
folder, seconds, score = Path(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
with open(folder / "runs.txt", "a") as file:
    file.write(f"{os.getpid()} ")
time.sleep(seconds)
with open(folder / "ends.txt", "a") as file:
    file.write(f"{os.getpid()} ")
write_result(folder, {"mean_reward": score})
"""


@pytest.fixture(autouse=True)
def _exit_codes() -> Iterator[None]:
    """Ray's start throws away exit codes for the whole process; the next tests need them."""
    yield
    processes.keep_exit_codes()


def job(root: Path, trial: int, seconds: float = 2.0, **settings: Any) -> Job:
    folder = root / f"{trial:04d}"
    score = str(trial / 7)
    return Job(
        trial, folder, (sys.executable, "-c", CODE, str(folder), str(seconds), score), **settings
    )


def finish(engine: Engine, jobs: dict[int, Job], within: float = 60) -> list[Outcome]:
    """Until every job is done; what was lost is submitted again."""
    deadline, outcomes = time.monotonic() + within, []
    while sum(outcome.status != "lost" for outcome in outcomes) < len(jobs):
        assert time.monotonic() < deadline, outcomes
        for outcome in engine.poll(1.0):
            outcomes.append(outcome)
            if outcome.status == "lost":
                engine.submit(jobs[outcome.trial])
    return outcomes


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    from ray.cluster_utils import Cluster

    os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "1"
    node = {"num_cpus": 1, "object_store_memory": 100_000_000, "include_dashboard": False}
    with ray_engine._private_files():
        cluster = Cluster(initialize_head=True, head_node_args=node)
    yield cluster
    cluster.shutdown()


def test_a_lost_node_costs_nothing_but_time(cluster: Any, tmp_path: Path) -> None:
    node = cluster.add_node(num_cpus=1, object_store_memory=100_000_000)
    jobs = {trial: job(tmp_path / "ray", trial) for trial in range(6)}
    with RayEngine(cluster.address, capacity=2) as engine:
        for each in jobs.values():
            engine.submit(each)
        (raylet,) = node.all_processes["raylet"]
        wait_for(lambda: any(runs_under(raylet.process.pid, each.folder) for each in jobs.values()))
        cluster.remove_node(node, allow_graceful=False)
        outcomes = finish(engine, jobs)
        assert engine.poll(0.5) == []
    lost = [outcome for outcome in outcomes if outcome.status == "lost"]
    assert lost and all("lost" in outcome.reason for outcome in lost)
    done = sorted(outcome.trial for outcome in outcomes if outcome.status == "done")
    assert done == list(range(6))

    with LocalEngine(2) as engine:
        here = {trial: job(tmp_path / "local", trial, seconds=0) for trial in jobs}
        for each in here.values():
            engine.submit(each)
        finish(engine, here)
    for trial in jobs:
        assert read_result(jobs[trial].folder) == read_result(here[trial].folder)
        assert len((jobs[trial].folder / "ends.txt").read_text().split()) == 1
        assert not (jobs[trial].folder / local.RECORD).exists()
        assert not list(jobs[trial].folder.glob(".shared-*"))
    started = sum(len((each.folder / "runs.txt").read_text().split()) for each in jobs.values())
    assert started == len(jobs) + len(lost)


TRAINER = """
import json, random, sys, time
from pathlib import Path
from hotlap.research.engines.job import write_result
folder = Path(sys.argv[1])
asked = json.loads((folder / "trial.json").read_text())
with open(folder / "runs.txt", "a") as file:
    file.write("1 ")
time.sleep(2)
off = asked["params"]["learning_rate"] - 0.05
write_result(folder, {"mean_reward": 1 - abs(off) + random.Random(asked["seed"]).gauss(0, 0.01)})
"""


def test_a_study_on_a_cluster_loses_a_node_and_nothing_else(cluster: Any, tmp_path: Path) -> None:
    """The command itself, from a folder that no node works in, with a relative root."""
    (tmp_path / "trainer.py").write_text(TRAINER)
    (tmp_path / "space.toml").write_text("[learning_rate]\nlow = 0.01\nhigh = 0.1\n")
    words = ["research", "donkey", "--space", "space.toml", "--study", "s", "--root", "r"]
    words += ["--trainer", f"{sys.executable} {tmp_path / 'trainer.py'}", "--device", "cpu"]
    words += ["--trials", "8", "--test-runs", "1", "--ordered", "--workers", "2", "--json"]
    node = cluster.add_node(num_cpus=1, object_store_memory=100_000_000)
    on_ray = ["--engine", "ray", "--address", cluster.address]
    with subprocess.Popen(
        [sys.executable, "-m", "hotlap", *words, *on_ray],
        cwd=tmp_path, stdout=subprocess.PIPE, text=True,
    ) as study:  # fmt: skip
        trials = tmp_path / "r" / "s" / "trials"
        (raylet,) = node.all_processes["raylet"]
        wait_for(lambda: any(runs_under(raylet.process.pid, each) for each in trials.glob("*")))
        cluster.remove_node(node, allow_graceful=False)
        out, _ = study.communicate(timeout=180)
    assert study.returncode == 0
    found = json.loads(out.splitlines()[-1])
    assert found["statuses"] == {"ok": found["trials"]} and found["trials"] > 8
    assert "it runs again" in out
    on_ray_records = read_ledger(tmp_path / "r" / "s" / "ledger.jsonl").records("trial")
    assert [r["trial"] for r in on_ray_records] == list(range(1, found["trials"] + 1))

    (tmp_path / "local").mkdir()
    subprocess.run(
        [sys.executable, "-m", "hotlap", *words, "--root", "local"],
        cwd=tmp_path, check=True, stdout=subprocess.DEVNULL, timeout=180,
    )  # fmt: skip
    at_home = read_ledger(tmp_path / "local" / "s" / "ledger.jsonl").records("trial")
    for ours, theirs in zip(at_home, on_ray_records, strict=True):
        for name in ("params", "seed", "role", "mean_reward"):
            assert ours[name] == theirs[name]


def test_limits_and_cancelling_reach_the_trial(cluster: Any, tmp_path: Path) -> None:
    with RayEngine(cluster.address, capacity=2) as engine:
        engine.submit(job(tmp_path, 0, seconds=60, time_limit=1.0))
        (outcome,) = engine.poll(30)
        assert outcome.status == "timeout" and "longer than 1 s" in outcome.reason

        engine.submit(job(tmp_path, 1, seconds=60))
        pid = started_in(tmp_path / "0001")
        engine.cancel(1)
        (outcome,) = engine.poll(30)
        assert outcome.status == "killed" and "cancelled" in outcome.reason
        assert gone(pid)

        engine.submit(job(tmp_path, 2, seconds=60))
        pid = started_in(tmp_path / "0002")
    assert gone(pid)


def test_a_killed_worker_is_lost_and_its_trial_with_it(cluster: Any, tmp_path: Path) -> None:
    with RayEngine(cluster.address, capacity=2) as engine:
        engine.submit(job(tmp_path, 0, seconds=3))
        pid = started_in(tmp_path / "0000")
        record = json.loads((tmp_path / "0000" / local.RECORD).read_text())
        os.kill(record["controller"][0], signal.SIGKILL)
        (outcome,) = engine.poll(30)
        assert outcome.status == "lost" and "WorkerCrashedError" in outcome.reason
        assert gone(pid)
        engine.submit(job(tmp_path, 0, seconds=0))
        outcomes = finish(engine, {0: job(tmp_path, 0)})
        assert [outcome.status for outcome in outcomes] == ["done"]
        assert engine.submit(job(tmp_path, 0)) == {}  # it is not run a third time
        assert [outcome.status for outcome in engine.poll(1)] == ["done"]
    assert len((tmp_path / "0000" / "ends.txt").read_text().split()) == 1


CONTROLLER = """
import sys
from pathlib import Path
from hotlap.research.engines.job import Job
from hotlap.research.engines.ray_engine import RayEngine
engine = RayEngine(sys.argv[1], capacity=1)
folder = Path(sys.argv[2])
engine.submit(Job(0, folder, (sys.executable, "-c", sys.argv[3], str(folder), "60", "0")))
engine.poll(60)
"""


@pytest.mark.parametrize("own", [False, True])
def test_nothing_survives_a_killed_controller(cluster: Any, tmp_path: Path, own: bool) -> None:
    address = "local" if own else cluster.address
    process = subprocess.Popen([sys.executable, "-c", CONTROLLER, address, str(tmp_path), CODE])
    pid = started_in(tmp_path)
    process.kill()
    process.wait()
    assert gone(pid, within=15)


def test_a_cluster_of_our_own(tmp_path: Path) -> None:
    with RayEngine("local", capacity=1, resources={"CPU": 0.5}) as engine:
        engine.submit(job(tmp_path, 0, seconds=0))
        (outcome,) = engine.poll(180)
        assert outcome.status == "done"
        assert subprocess.run(["false"]).returncode == 1  # which Ray's start had made 0
    assert not ray.is_initialized()


def runs_under(raylet: int, folder: Path) -> bool:
    """Whether a trial runs in this folder, by a worker of this node."""
    try:
        record = json.loads((folder / local.RECORD).read_text())
    except FileNotFoundError:
        return False
    worker = processes.look(record["controller"][0])
    return worker is not None and worker.parent == raylet and (folder / "runs.txt").exists()


def started_in(folder: Path) -> int:
    """The pid of a trial's command, once it runs."""
    path = folder / "runs.txt"
    wait_for(lambda: path.exists() and path.read_text())
    return int(path.read_text().split()[-1])


def gone(pid: int, within: float = 5) -> bool:
    return wait_for(lambda: (found := processes.look(pid)) is None or not found.running, within)


def wait_for(fact: Callable[[], object], within: float = 60) -> bool:
    deadline = time.monotonic() + within
    while not fact():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return True
