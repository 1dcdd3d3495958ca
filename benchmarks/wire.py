"""`hotlap serve` under many clients, by the clock.

    python benchmarks/wire.py soak --clients 20 --steady 5 --seconds 300
    python benchmarks/wire.py load --clients 1 20 --seconds 20
    python benchmarks/wire.py latency --seconds 20

Each begins a server of its own on a free port of this machine, and every client is a process that
drives with our own client of the protocol. Each prints one JSON line at its end.

`soak`: all but the steady ones are killed at random, half of them after they have stopped reading
for a while, and others come in their place; told is whether anybody else lost a connection, the
longest that a steady one waited for a frame, and the server's memory. `load`: what the server takes
of a core. `latency`: from a command to the frame that answers it, in real time and in lockstep.
"""

import argparse
import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SCENES = ("generated_track", "warren", "waveshare", "mini_monaco", "mountain_track")
PAUSE = 0.6
"""Seconds between two kills."""
STOPPED = 5.0
"""Seconds that a client which is to be killed may read nothing before."""
SETTLED = 30.0
"""Seconds after which the server's memory counts: every scene has been loaded by then."""
STARTING = 20.0
"""Seconds that clients may take to start, all of them together."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    deeds = parser.add_subparsers(dest="deed", required=True)
    for name, seconds in (("soak", 300.0), ("load", 20.0), ("latency", 20.0), ("client", 20.0)):
        deed = deeds.add_parser(name)
        deed.add_argument("--seconds", type=float, default=seconds)
        if name in ("soak", "load"):
            deed.add_argument("--clients", type=int, nargs="+", default=[20])
        if name == "soak":
            deed.add_argument("--steady", type=int, default=5, help="clients never killed")
            deed.add_argument("--seed", type=int, default=0)
        if name == "client":
            deed.add_argument("--port", type=int, required=True)
            deed.add_argument("--scene", default=SCENES[0])
            deed.add_argument("--lockstep", action="store_true")
    asked = parser.parse_args()
    deeds_by_name = {"soak": soak, "load": load, "latency": latency, "client": drive}
    print(json.dumps(deeds_by_name[asked.deed](asked)), flush=True)


# --- what is measured ----------------------------------------------------------------------------


def soak(asked: argparse.Namespace) -> dict[str, Any]:
    """Some drive on, others are killed at random."""
    draw, killed, lost = random.Random(asked.seed), 0, []
    with serving() as server:
        steady = [begin(server.port, i, asked.seconds + STARTING) for i in range(asked.steady)]
        numbers = range(asked.steady, asked.clients[0])
        mortal = [begin(server.port, i, 2 * asked.seconds) for i in numbers]
        stopped: dict[subprocess.Popen[str], float] = {}
        memory, began, looked = [], time.monotonic(), 0.0
        while (now := time.monotonic() - began) < asked.seconds:
            time.sleep(PAUSE)
            awake = [client for client in mortal if client not in stopped]
            if draw.random() < 0.5 and awake:
                client = draw.choice(awake)
                client.send_signal(signal.SIGSTOP)
                stopped[client] = now + STOPPED
                awake.remove(client)
            doomed = [client for client, due in stopped.items() if due <= now]
            if draw.random() < 0.5 and awake:
                doomed.append(draw.choice(awake))
            for client in doomed:
                if client.poll() is not None:
                    lost.append(told(client).get("lost", "ended"))
                client.kill()
                client.wait()
                stopped.pop(client, None)
                mortal[mortal.index(client)] = begin(server.port, killed, 2 * asked.seconds)
                killed += 1
            if now - looked > 1 and now > min(SETTLED, asked.seconds / 2):
                memory.append(server.memory())
                looked = now
        for client in (client for client in mortal if client not in stopped):
            if client.poll() is not None:
                lost.append(told(client).get("lost", "ended"))
        for client in mortal:
            client.kill()
            client.wait()
        rows = [told(client) for client in steady]
        lost += [row["lost"] for row in rows if row["lost"]]
        return {
            "clients": asked.clients[0], "steady": asked.steady, "seconds": asked.seconds,
            "killed": killed, "lost": lost,
            "steps_per_s": [round(row["steps_per_s"], 2) for row in rows],
            "longest_wait_s": [round(row["longest"], 3) for row in rows],
            "memory_mb": [round(of(memory), 1) for of in (min, max)],
            "memory_first_last_mb": [round(memory[0], 1), round(memory[-1], 1)],
            "core": round(server.processor() / (time.monotonic() - server.began), 3),
        }  # fmt: skip


def load(asked: argparse.Namespace) -> dict[str, Any]:
    """The server's share of a core, for each number of clients."""
    shares = {}
    for count in asked.clients:
        with serving(clients=count) as server:
            clients = [begin(server.port, i, asked.seconds + STARTING) for i in range(count)]
            time.sleep(STARTING * 0.75)
            before, began = server.processor(), time.monotonic()
            time.sleep(asked.seconds)
            share = (server.processor() - before) / (time.monotonic() - began)
            rows = [told(client) for client in clients]
            shares[str(count)] = {
                "core": round(share, 3),
                "steps_per_s": round(sum(row["steps_per_s"] for row in rows) / count, 2),
                "lost": [row["lost"] for row in rows if row["lost"]],
            }
    return shares


def latency(asked: argparse.Namespace) -> dict[str, Any]:
    """How long the answer to a command takes."""
    with serving() as server:
        return {
            "real_time": told(begin(server.port, 0, asked.seconds)),
            "lockstep": told(begin(server.port, 0, asked.seconds, "--lockstep")),
        }


# --- a server, its clients -----------------------------------------------------------------------


class Server:
    """A server in a process of its own."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        line = process.stdout.readline()  # listening on 127.0.0.1:PORT, ...
        self.port = int(line.split(":")[1].split(",")[0])
        self.began, self._proc = time.monotonic(), Path(f"/proc/{process.pid}")

    def memory(self) -> float:
        """Resident, MB."""
        lines = (self._proc / "status").read_text().splitlines()
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))

    def processor(self) -> float:
        """Seconds of a processor that it has taken."""
        fields = (self._proc / "stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / 100


@contextmanager
def serving(clients: int = 32) -> Iterator[Server]:
    command = [sys.executable, "-m", "hotlap", "serve", "--port", "0", "--clients", str(clients)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Server(process)
        finally:
            process.kill()


def begin(port: int, number: int, seconds: float, *words: str) -> subprocess.Popen[str]:
    """A client in a process of its own."""
    scene = SCENES[number % len(SCENES)]
    command = [sys.executable, __file__, "client", "--port", str(port), "--scene", scene]
    command += ["--seconds", str(seconds), *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def told(client: subprocess.Popen[str]) -> dict[str, Any]:
    """What a client said at its end."""
    out, _ = client.communicate()
    return dict(json.loads(out.splitlines()[-1])) if out.strip() else {"lost": "it said nothing"}


def drive(asked: argparse.Namespace) -> dict[str, Any]:
    """Drive for a while, slowly along the path; begin anew where that fails."""
    from hotlap.wire.client import DonkeyClient, SimulatorGone

    waits: list[float] = []
    lost, began = None, time.monotonic()
    end = began + asked.seconds
    try:
        with DonkeyClient(port=asked.port, timeout=STARTING) as client:
            seen = client.load(asked.scene)
            client.lockstep(asked.lockstep)
            began = time.monotonic()
            while time.monotonic() < end:
                if seen.hit != "none" or abs(seen.cte or 0.0) > 16:
                    seen = client.reset()
                asked_at = time.monotonic()
                client.control(-0.15 * (seen.cte or 0.0), 0.15)
                seen = client.telemetry(timeout=STARTING)
                waits.append(time.monotonic() - asked_at)
    except SimulatorGone as gone:
        lost = str(gone)
    waits.sort()
    return {
        "lost": lost,
        "steps": len(waits),
        "steps_per_s": len(waits) / (time.monotonic() - began),
        "median": waits[len(waits) // 2] if waits else None,
        "p95": waits[int(0.95 * len(waits))] if waits else None,
        "longest": waits[-1] if waits else float("inf"),
    }


if __name__ == "__main__":
    main()
