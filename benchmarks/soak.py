"""A night with everything that can go wrong: `hotlap research` led through faults and SIGKILLs.

    python benchmarks/soak.py --trials 1000 --kills 50
    python benchmarks/soak.py --trials 60 --fill 3        # Linux, where namespaces are allowed
    python benchmarks/soak.py --trials 1000 --workers 1 --alone      # what the loop itself takes

The same study is run twice, by the real command, with the same faulty trials (`soak_trial.py`):
once left alone, once with its controller killed again and again, at its start, while it proposes
and while it writes, and started again by the same command. Then

- both ledgers are whole, with one record for each trial that was decided on;
- the two are equal, record by record, in everything but times;
- what a reader once saw in the ledger stays there;
- no trial ran again after its result was there;
- no process is left: none that descends from us, none with the study's mark in its environment.

With `--fill` the controller is left alone, but its disk, a small one of its own in memory, is
filled to the last byte so many times, for a few seconds each.

Figures are seconds for each trial, by tenths of the study that was left alone: of the controller's
processor, and of the clock beside what the trial itself took (`between`, which says it of the loop
where one worker does it all; `--alone` leaves the second study out).
Ends with 1 where something does not hold.
"""

import argparse
import contextlib
import itertools
import json
import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hotlap.research.engines import processes
from hotlap.store.ledger import parse_line

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from soak_trial import fault_of  # noqa: E402

MARK = "HOTLAP_SOAK"
TIME_LIMIT, MEMORY_LIMIT = 4.0, 0.3
"""Of a trial: seconds, enough for an honest one on a machine that is busy; and gigabytes."""
DISK = "400m"
"""Of a disk to be filled; 200 MB must be free for a run to begin."""
STUCK = 120.0
"""Seconds without a record after which the controller counts as hung."""
ALLOWED = 0.5
"""Seconds that the controller may take for a trial."""
TIMES = ("timestamp", "elapsed_sec")
LEFT_OUT = ("note", "push")
"""Kinds of records that hang on time."""
MOMENTS = ("start", "any", "write", "trial", "proposal")
"""When a controller is killed: soon after its start; whenever; while the ledger grows; right after
a result or a proposal was written, when what follows from it is not yet."""


@dataclass
class Controller:
    """The command, and a reader of its ledger."""

    folder: Path
    command: list[str]
    mark: str
    seen: bytes = b""
    """The ledger's whole lines, as far as they were read."""
    trials: int = 0
    stamps: list[tuple[float, float]] = field(default_factory=list)
    """For each trial record: when it was seen, and the controller's processor seconds then."""
    process: subprocess.Popen[bytes] | None = None
    starts: int = 0

    @property
    def ledger(self) -> Path:
        return self.folder / "study" / "soak" / "ledger.jsonl"

    def start(self) -> None:
        self.starts += 1
        with open(self.folder / "output.txt", "ab") as output:
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=os.environ | {MARK: self.mark, "OMP_NUM_THREADS": "1"},
                start_new_session=True,
            )

    def read(self) -> list[bytes]:
        """The lines that were added since the last time."""
        try:
            with open(self.ledger, "rb") as file:
                file.seek(len(self.seen))
                data = file.read()
        except FileNotFoundError:
            return []
        data = data[: data.rfind(b"\n") + 1]
        self.seen += data
        lines = data.splitlines()
        for line in lines:
            if line.startswith(b'{"kind": "trial"'):
                self.trials += 1
                self.stamps.append((time.monotonic(), self.cpu()))
        return lines

    def cpu(self) -> float:
        """Processor seconds of the controller alone."""
        assert self.process is not None
        with contextlib.suppress(OSError), open(f"/proc/{self.process.pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
            return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        return 0.0

    def wait_for(self, fact: Callable[[list[bytes]], bool], every: float = 0.005) -> bool:
        """Until something is true of the lines just read; False if the controller ended before."""
        assert self.process is not None
        quiet = time.monotonic()
        while True:
            ended = self.process.poll() is not None
            lines = self.read()
            if lines:
                quiet = time.monotonic()
            if ended:
                return False
            if fact(lines):
                return True
            if time.monotonic() - quiet > STUCK:
                raise RuntimeError(f"no record for {STUCK:g} s; see {self.folder / 'output.txt'}")
            time.sleep(every)

    def wait_for_trial(self, number: int) -> bool:
        """Until so many trials are recorded."""
        return self.wait_for(lambda lines: self.trials >= number)

    def wait_for_size(self) -> bool:
        """Until the ledger has just grown, or is growing."""
        before = self.size()
        return self.wait_for(lambda lines: self.size() != before, every=0.0002)

    def size(self) -> int:
        return self.ledger.stat().st_size if self.ledger.exists() else 0

    def kill(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def finish(self) -> int:
        """To its end; the exit code."""
        assert self.process is not None
        self.wait_for(lambda lines: False)
        return self.process.wait()


def make_command(root: Path, options: argparse.Namespace) -> list[str]:
    trainer = f"{sys.executable} {HERE / 'soak_trial.py'}"
    words = f"""
        -m hotlap research soak --study soak --ordered --device cpu --idle-limit 0 --json
        --workers {options.workers} --trials {options.trials} --test-runs {options.test_runs}
        --time-limit {TIME_LIMIT} --memory-limit {MEMORY_LIMIT} --stop.no-converge
        --seed {options.seed}
    """
    paths = ["--root", str(root), "--space", str(HERE / "soak_space.toml"), "--trainer", trainer]
    return [sys.executable, *words.split(), *paths]


def run_whole(controller: Controller) -> int:
    controller.start()
    return controller.finish()


def run_killed(
    controller: Controller, options: argparse.Namespace, problems: list[str]
) -> tuple[Counter[str], int]:
    """Kill it so many times; the moments, and the exit code of the last one."""
    rng = random.Random(options.seed)
    last = options.trials + 3 * options.test_runs - 2  # in the last test, once at least
    at = sorted([last, *(rng.randrange(last) for _ in range(options.kills - 1))])
    moments: Counter[str] = Counter()
    controller.start()
    for number, threshold in enumerate(at):
        moment = MOMENTS[number % len(MOMENTS)]
        if not reach(controller, moment, threshold, rng):
            break
        controller.kill()
        moments[moment] += 1
        tokens = marked(controller.mark)
        if number % 2:  # every other time the next one comes while the last one's trials end
            check_gone(tokens, f"kill {number + 1} ({moment})", problems)
            controller.start()
        else:
            controller.start()
            check_gone(tokens, f"kill {number + 1} ({moment})", problems)
    code = controller.finish()
    return moments, code


def run_filled(controller: Controller, options: argparse.Namespace) -> tuple[Counter[str], int]:
    """Fill its disk so many times; the exit code."""
    controller.start()
    moments: Counter[str] = Counter()
    for number in range(options.fill):
        threshold = (number + 1) * options.trials // (options.fill + 1)
        if not reach(controller, "proposal", threshold, random.Random(number)):
            break
        filler = controller.folder / "filler"
        fill(filler)
        moments["full"] += 1
        time.sleep(4.0)
        filler.unlink()
    return moments, controller.finish()


def fill(path: Path) -> None:
    with open(path, "wb", buffering=0) as file:
        os.posix_fallocate(file.fileno(), 0, shutil.disk_usage(path.parent).free * 99 // 100)
        file.seek(0, os.SEEK_END)
        for size in (10**6, 4096, 1):
            with contextlib.suppress(OSError):
                while file.write(b"x" * size):
                    pass


def reach(controller: Controller, moment: str, threshold: int, rng: random.Random) -> bool:
    """Wait for the moment; False where the study has ended before."""
    if moment == "start":
        end = time.monotonic() + rng.uniform(0.0, 4.0)
        return controller.wait_for(lambda lines: time.monotonic() > end)
    if not controller.wait_for_trial(threshold):
        return False
    if moment == "any":
        end = time.monotonic() + rng.uniform(0.0, 1.0)
        return controller.wait_for(lambda lines: time.monotonic() > end, every=0.001)
    if moment == "write":
        return controller.wait_for_size()
    begin = f'{{"kind": "{moment}"'.encode()
    if not controller.wait_for(lambda lines: bool(lines) and lines[-1].startswith(begin), 0.0002):
        return False
    time.sleep(rng.choice((0.0, 0.002, 0.02, 0.1)))
    return True


def marked(mark: str) -> set[processes.Identity]:
    """Everything that the study started and that runs."""
    word = f"{MARK}={mark}".encode()
    found = set()
    for process in processes.table().values():
        with contextlib.suppress(OSError), open(f"/proc/{process.pid}/environ", "rb") as file:
            if word in file.read().split(b"\0") and process.running:
                found.add(process.identity)
    return found


def check_gone(them: set[processes.Identity], when: str, problems: list[str]) -> None:
    """A killed controller's trials end by themselves, soon."""
    end = time.monotonic() + 10
    while left := [pid for pid, started in them if processes.is_alive((pid, started))]:
        if time.monotonic() > end:
            problems.append(f"after {when}, processes {left} go on")
            return
        time.sleep(0.02)


def read_records(path: Path, problems: list[str]) -> list[dict[str, Any]]:
    """Every line of a ledger, checked."""
    data = path.read_bytes()
    if not data.endswith(b"\n"):
        problems.append(f"{path} ends in a torn line")
    records = []
    for number, line in enumerate(data.splitlines(), start=1):
        try:
            records.append(parse_line(line))
        except ValueError as error:
            problems.append(f"{path}, line {number}: {error}")
    return records


def check_study(controller: Controller, problems: list[str]) -> list[dict[str, Any]]:
    """What must hold of each study by itself."""
    name = controller.folder.name
    if not controller.ledger.read_bytes().startswith(controller.seen):
        problems.append(f"{name}: records that a reader saw are gone or changed")
    records = read_records(controller.ledger, problems)
    for kind in ("proposal", "trial"):
        counts = Counter(record["trial"] for record in records if record["kind"] == kind)
        twice = [trial for trial, count in counts.items() if count > 1]
        if twice:
            problems.append(f"{name}: trials {twice} have more than one {kind} record")
    planned = {record["trial"] for record in records if record["kind"] == "proposal"}
    ended = {record["trial"] for record in records if record["kind"] == "trial"}
    if planned != ended:
        problems.append(f"{name}: decided on but not finished: {sorted(planned ^ ended)}")
    for folder in sorted((controller.ledger.parent / "trials").iterdir()):
        story = (folder / "story.txt").read_text().splitlines()
        if "done" in story[:-1]:
            problems.append(f"{name}: trial {folder.name} went on after it was done: {story}")
    if left := marked(controller.mark):
        problems.append(f"{name}: processes {sorted(left)} are left")
    return records


def comparable(record: dict[str, Any], folder: Path) -> dict[str, Any]:
    """A record without what hangs on time and place."""
    record = {name: value for name, value in record.items() if name not in TIMES}
    if isinstance(record.get("reason"), str):
        text = record["reason"].replace(str(folder), "FOLDER")
        record["reason"] = re.sub(r"0x[0-9a-f]+", "0x", text)
    return record


def compare(
    whole: list[dict[str, Any]], tried: list[dict[str, Any]], folders: tuple[Path, Path]
) -> list[str]:
    """Where two studies differ, at most five places."""
    left, right = (
        [comparable(r, folder) for r in records if r["kind"] not in LEFT_OUT]
        for records, folder in zip((whole, tried), folders, strict=True)
    )
    found = [] if len(left) == len(right) else [f"{len(left)} records against {len(right)}"]
    for number, (a, b) in enumerate(zip(left, right, strict=False), start=1):
        names = [name for name in {**a, **b} if a.get(name) != b.get(name)]
        found += [f"record {number} ({a['kind']}), {n}: {a.get(n)} / {b.get(n)}" for n in names]
    return found[:5]


def champion_of(controller: Controller) -> tuple[dict[str, Any], bytes] | None:
    folder = controller.ledger.parent / "champion"
    if not folder.exists():
        return None
    manifest = json.loads((folder / "manifest.json").read_text())
    del manifest["timestamp"]
    return manifest, (folder / "model" / "weights.txt").read_bytes()


def tenths(controller: Controller, workers: int) -> list[dict[str, float]]:
    """Seconds per trial along the study: of the clock, of its own work, and between two trials."""
    stamps = controller.stamps
    lines = [line for line in controller.seen.splitlines() if line.startswith(b'{"kind": "trial"')]
    elapsed = [parse_line(line)["elapsed_sec"] for line in lines]
    size = max(1, len(stamps) // 10)
    rows = []
    for begin in range(0, len(stamps) - size, size):
        part = stamps[begin : begin + size + 1]
        between = [after[0] - before[0] for before, after in itertools.pairwise(part)]
        processor = (part[-1][1] - part[0][1]) / size
        row = {"trials": begin + size, "wall": statistics.median(between), "processor": processor}
        spent = sum(elapsed[begin + 1 : begin + size + 1])
        row["between"] = (workers * (part[-1][0] - part[0][0]) - spent) / size
        rows.append({name: round(value, 4) for name, value in row.items()})
    return rows


def soak(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    problems: list[str] = []
    ours = {process.pid for process in processes.descendants(os.getpid(), processes.table())}
    whole, tried = (
        Controller(
            folder / name, make_command(folder / name / "study", options), f"{folder} {name}"
        )
        for name in ("whole", "tried")
    )
    for controller in (whole, tried):
        controller.folder.mkdir(parents=True)
    began = time.monotonic()
    codes = [run_whole(whole)]
    middle = time.monotonic()
    if options.alone:
        rows = tenths(whole, options.workers)
        if max(row["between"] for row in rows) > ALLOWED and options.workers == 1:
            problems.append(f"more than {ALLOWED} s pass between two trials")
        check_study(whole, problems)
        seconds = round(middle - began, 1)
        return {"seconds_whole": seconds, "per_trial": rows, "problems": problems}
    if options.fill:
        moments, code = run_filled(tried, options)
    else:
        moments, code = run_killed(tried, options, problems)
    end = time.monotonic()
    codes.append(code)
    if any(codes):
        problems.append(f"the command ended with {codes}; see output.txt in {folder}")
    studies = (check_study(whole, problems), check_study(tried, problems))
    problems += compare(*studies, (whole.ledger.parent, tried.ledger.parent))
    if champion_of(whole) != champion_of(tried):
        problems.append("the champions differ")
    known = processes.table()
    left = {p.pid for p in processes.descendants(os.getpid(), known) if p.running} - ours
    if left:
        problems.append(f"processes {sorted(left)} descend from us still")
    if moments.total() < (options.fill or options.kills):
        problems.append(f"the study ended too soon, after {moments}")
    rows = tenths(whole, options.workers)
    slowest = max(row["processor"] for row in rows)
    if slowest > ALLOWED:
        problems.append(f"the controller takes {slowest:.2f} s for a trial, more than {ALLOWED}")
    trials = [record for record in studies[1] if record["kind"] == "trial"]
    stories = [path.read_text() for path in (tried.ledger.parent / "trials").glob("*/story.txt")]
    torn = tried.ledger.with_name("ledger.jsonl.torn")
    return {
        "trials": len(trials),
        "statuses": dict(Counter(record["run_status"] for record in trials)),
        "faults": dict(Counter(filter(None, (fault_of(r["trial"]) for r in trials)))),
        "kills": moments.total() - moments["full"],
        "moments": dict(moments),
        "starts": tried.starts,
        "records": dict(Counter(record["kind"] for record in studies[1])),
        "torn": len(torn.read_bytes().splitlines()) if torn.exists() else 0,
        "begun_again": sum(story.count("began") > 1 for story in stories),
        "taken_up": sum(story.count("took up") for story in stories),
        "seconds_whole": round(middle - began, 1),
        "seconds_tried": round(end - middle, 1),
        "per_trial": rows,
        "problems": problems,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--test-runs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, help="a new one, which is kept; none: a temporary")
    parser.add_argument("--json", action="store_true", help="answer with one line of JSON")
    parser.add_argument("--fill", type=int, default=0, help="fill its disk so often, and kill none")
    parser.add_argument("--alone", action="store_true", help="only the study that is left alone")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # whatever our parent thinks of its children
    if options.fill and not options.inside:
        again = [sys.executable, *sys.argv, "--inside"]
        os.execvp("unshare", ["unshare", "--map-root-user", "--mount", *again])
    folder = options.folder or Path(tempfile.mkdtemp(prefix="hotlap-soak-"))
    if options.fill:
        folder.mkdir(parents=True, exist_ok=True)
        mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "soak", str(folder)]
        subprocess.run(mount, check=True)
    answer = soak(folder.absolute(), options)
    if options.folder is None and not options.fill and not answer["problems"]:
        shutil.rmtree(folder)
    if options.json:
        print(json.dumps(answer))
    else:
        for name, value in answer.items():
            for line in value if isinstance(value, list) else [value]:
                print(f"{name:16}{line}")
    sys.exit(1 if answer["problems"] else 0)


if __name__ == "__main__":
    main()
