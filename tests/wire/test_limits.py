"""Clients that send or read too much, too little, or nonsense; another one must not notice."""

import json
import random
import socket
import struct
import time
from itertools import pairwise
from typing import Any

import pytest

from hotlap.wire.server.world import World

from .conftest import Serving
from .recorded import GYM_CLIENT, TOOLS
from .talking import Running, Steady, Talk, patient

HEAVY = {"img_w": 512, "img_h": 512, "img_enc": "PNG"}


def send_for(talk: Talk, data: bytes, seconds: float) -> int:
    """Send as fast as the other side takes it; how many bytes it took."""
    talk.socket.settimeout(0.1)
    end, sent = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        try:
            sent += talk.socket.send(data)
        except TimeoutError:
            continue
    return sent


def waiting_bytes(running: Running) -> int:
    """What the server keeps for the client that keeps it longest."""
    connections = list(running.server.connections.values())
    return max(connection._transport.get_write_buffer_size() for connection in connections)


# --- Too much ---


FLOODS = {
    "controls": b'{"msg_type": "control", "steering": "0.1", "throttle": "0", "brake": "0"}' * 100,
    "braces": b"{" * 65536,
    "huge": b'{"msg_type":"load_scene","scene_name":"' + b"x" * 1_000_000,
    "random": random.Random(0).randbytes(65536),
    "moves": b'{"msg_type":"set_position","pos_x":"49","pos_y":"0","pos_z":"48"}' * 100,
}


@pytest.mark.parametrize(
    "kind", ["controls", *(pytest.param(k, marks=pytest.mark.slow) for k in list(FLOODS)[1:])]
)
@patient
def test_a_flood_is_read_slowly_and_disturbs_nobody(kind: str, serving: Serving) -> None:
    running = serving(messages_per_second=500.0)
    with Steady(running.port) as steady, Talk(running.port, "generated_track") as flood:
        sent = send_for(flood, FLOODS[kind], 3)
        assert steady.undisturbed()
    # Per second 500 messages of at most 1024 bytes each; the first second's worth is free, and the
    # system's own buffers take some.
    assert sent < 4 * 500 * 1024 + 8_000_000


def test_after_a_huge_message_the_client_is_still_heard(serving: Serving) -> None:
    with Talk(serving(messages_per_second=1e6).port, "generated_track") as talk:
        talk.socket.sendall(b'{"msg_type":"load_scene","scene_name":"' + b"x" * 3_000_000 + b'"}')
        talk.say("get_protocol_version")
        assert talk.wait("protocol_version")["version"] == "2"
        talk.say("control", steering=0.25, throttle=0, brake=0)
        while talk.frame()["steering_angle"] != 0.25:
            pass


@pytest.mark.slow
@patient
def test_a_client_that_asks_for_too_much_gets_fewer_frames_itself(serving: Serving) -> None:
    running = serving()
    with Steady(running.port) as steady, Talk(running.port, "warehouse") as heavy:
        for kind in ("cam_config", "cam_config_b"):
            heavy.say(kind, **HEAVY)
        heavy.say("lidar_config", degPerSweepInc=1, degAngDown=25, numSweepsLevels=16)
        end, frames = time.monotonic() + 4, 0
        while time.monotonic() < end:
            heavy.frame()
            frames += 1
        assert steady.undisturbed()
        assert frames < 0.8 * 4 * steady.rate()


def test_more_clients_than_places_are_turned_away(serving: Serving) -> None:
    running = serving(clients=2)
    with Talk(running.port, "waveshare") as one, Talk(running.port) as two:
        two.wait("scene_selection_ready")
        with Talk(running.port) as three:
            assert three.is_closed()
        assert "all 2 places are taken (--clients)" in running.said("client 3 turned away")
        two.say("quit_app")
        assert two.is_closed()
        with Talk(running.port, "waveshare") as four:
            assert four.frame()["frame"] == 1
        while one.frame()["frame"] < 5:
            pass


# --- Too little ---


@patient
def test_a_slow_reader_loses_frames_and_then_the_connection(serving: Serving) -> None:
    running = serving(slow_seconds=1.5, speed=2.0)
    with Steady(running.port) as steady:
        with Talk(running.port, "generated_track", receive_bytes=4096) as slow:
            slow.say("cam_config", **HEAVY)
            most, end = 0, time.monotonic() + 60
            while not any("client 2 left" in line for line in running.lines):
                most = max(most, waiting_bytes(running))
                time.sleep(0.02)
                assert time.monotonic() < end
            assert most < 1_000_000
            assert slow.is_closed()
        assert steady.undisturbed()
    goodbye = running.said("client 2 left")
    assert "it has read nothing for 1.5 s" in goodbye
    assert " 0 left out" not in goodbye


@pytest.mark.slow
def test_a_reader_that_catches_up_gets_new_frames(serving: Serving) -> None:
    running = serving(speed=4.0)
    with Talk(running.port, "generated_track", receive_bytes=4096) as talk:
        first = talk.frame()
        deadline = time.monotonic() + 30
        while not any(c.tally.dropped > 20 for c in running.server.connections.values()):
            time.sleep(0.02)
            assert time.monotonic() < deadline
        numbers = [talk.frame()["frame"] for _ in range(200)]
        gaps = {b - a for a, b in pairwise(numbers)}
        assert numbers[0] > first["frame"]
        assert max(gaps) > 20
        assert min(gaps) == 1


def test_who_says_nothing_and_stands_is_disconnected(serving: Serving) -> None:
    running = serving(idle_seconds=1.0)
    with (
        Talk(running.port) as menu,
        Talk(running.port, "waveshare") as standing,
        Talk(running.port, "generated_track") as moving,
    ):
        moving.say("control", steering=0, throttle=0.3, brake=0)
        assert menu.is_closed(5)
        assert standing.is_closed(5)
        end = time.monotonic() + 1.5
        while time.monotonic() < end:
            assert moving.frame()["speed"] >= 0
    assert "it has said nothing for 1 s and its car stands" in running.said("client 1 left")


def test_a_connection_in_the_menu_is_kept_alive(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hotlap.wire.server.connection.KEEP_ALIVE", 0.3)
    with Talk(serving().port) as talk:
        talk.wait("scene_selection_ready")
        talk.socket.settimeout(8)
        assert talk.socket.recv(100) == b"{}\n"


@patient
def test_who_half_closes_is_closed(serving: Serving) -> None:
    running = serving()
    with Steady(running.port) as steady, Talk(running.port, "waveshare") as half:
        half.frame()
        half.socket.shutdown(socket.SHUT_WR)
        assert half.is_closed()
        time.sleep(0.5)
        assert steady.undisturbed()
    assert "it closed the connection" in running.said("client 2 left")


@patient
def test_clients_that_break_off_leave_their_places(serving: Serving) -> None:
    running = serving(clients=3)
    with Steady(running.port) as steady:
        for turn in range(20):
            talk = Talk(running.port, "generated_track" if turn % 2 else None)
            # Zero seconds of lingering: the connection is reset instead of closed.
            talk.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            talk.socket.close()
            running.said(f"client {turn + 2} left")
        assert steady.undisturbed()


def test_a_scene_that_cannot_be_built_ends_that_connection_alone(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = serving()
    running.may_fail = True
    with Talk(running.port, "waveshare") as other, Talk(running.port) as talk:

        def break_down(name: str) -> None:
            raise MemoryError(name)

        monkeypatch.setattr("hotlap.wire.server.library.find_scene", break_down)
        talk.say("load_scene", scene_name="warren")
        assert talk.is_closed()
        while other.frame()["frame"] < 5:
            pass
    assert "the server failed on it" in running.said("client 2 left")


@patient
def test_one_whose_order_fails_is_the_only_one_to_go(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = serving()
    running.may_fail = True
    obey = World._obey

    def break_on_brake(world: World, seat: int, command: Any, answer: Any) -> None:
        if getattr(command, "brake", 0.0) == 0.5:
            raise RuntimeError("out of brakes")
        obey(world, seat, command, answer)

    monkeypatch.setattr(World, "_obey", break_on_brake)
    with Steady(running.port) as steady, Talk(running.port, "generated_track") as unlucky:
        unlucky.say("control", steering=0, throttle=0, brake=0.5)
        assert unlucky.is_closed()
        time.sleep(0.5)
        assert steady.undisturbed()
    assert "RuntimeError: out of brakes" in running.said("Traceback")
    assert "the server failed on it" in running.said("client 2 left")


# --- Nonsense ---


def nonsense(draw: random.Random) -> bytes:
    """A message: random bytes, a broken real one, or a whole one with impossible numbers."""
    kind = draw.randrange(5)
    if kind == 0:
        return draw.randbytes(draw.randrange(60))
    message = bytearray(draw.choice([*GYM_CLIENT, *TOOLS[:-1]]))
    if kind in (1, 2):
        for _ in range(draw.randrange(1, 4)):
            message[draw.randrange(len(message))] = draw.randrange(256)
        return bytes(message[: draw.randrange(len(message))] if kind == 2 else message)
    values = json.loads(message)
    for name in values:
        if name not in ("msg_type", "scene_name") and draw.random() < 0.3:
            values[name] = draw.choice(
                ["0", "-1", "1e9", "1e300", "nan", "", None, True, [], {}, 0.5, -360, "512", "x"]
            )
    return json.dumps(values).encode()


@pytest.mark.slow
def test_a_hundred_thousand_messages_of_nonsense_cost_nobody_the_connection(
    serving: Serving,
) -> None:
    running = serving(messages_per_second=1e6)
    draw = random.Random(0)
    batches = [b"".join(nonsense(draw) for _ in range(50)) for _ in range(2000)]
    with Steady(running.port) as steady:
        talk = Talk(running.port, "generated_track")
        for batch in batches:
            try:
                talk.socket.settimeout(20)
                talk.socket.sendall(batch)
                talk.socket.setblocking(False)
                while talk.socket.recv(1 << 20):
                    pass
            except BlockingIOError:
                continue
            except ConnectionError:
                pass
            talk.socket.close()
            talk = Talk(running.port, "generated_track")  # a mutant may have said quit_app
        talk.socket.close()
        # Without a bound on messages the flood may cost a slow reader frames, never their order.
        frames = len(steady.frames)
        steady.wait_for(frames + 20)
        seen = list(steady.frames)  # it goes on meanwhile
        assert seen == sorted(set(seen))
    running.stop()
    assert "the server failed" not in "".join(running.lines)
