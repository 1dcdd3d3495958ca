"""The client: what it does with a server, and how it takes leave of one that is gone."""

import base64
import io
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import numpy as np
import pytest
from PIL import Image

from hotlap.wire.client import DonkeyClient, SimulatorGone, decode_picture
from hotlap.wire.codec import CommandDecoder, encode_report
from hotlap.wire.messages import (
    CamConfig,
    CarLoaded,
    Command,
    Control,
    ExitScene,
    GetSceneNames,
    LoadScene,
    ResetCar,
    SceneNames,
    SceneSelectionReady,
    Telemetry,
)

from .conftest import Serving
from .recorded import SIMULATOR

Part = Callable[[socket.socket], None]
Playing = Callable[[Part], int]
HELLO = encode_report(SceneSelectionReady())


@pytest.fixture
def playing() -> Iterator[Playing]:
    """Play the simulator's part for one client; the port it listens on."""
    listeners: list[socket.socket] = []
    threads: list[threading.Thread] = []

    def play(part: Part) -> int:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)

        def run() -> None:
            sock, _ = listener.accept()
            with sock:
                sock.settimeout(20)
                part(sock)

        threads.append(threading.Thread(target=run, daemon=True))
        threads[-1].start()
        return int(listener.getsockname()[1])

    yield play
    for thread in threads:
        thread.join(20)
    for listener in listeners:
        listener.close()


def packed(width: int, height: int) -> str:
    buffer = io.BytesIO()
    Image.new("RGB", (width, height), (10, 200, 30)).save(buffer, "PNG")
    return base64.b64encode(buffer.getvalue()).decode()


class Unity:
    """The real simulator's manner: no frame numbers, silence after exit, frames still under way."""

    def __init__(self, scene: bool = False) -> None:
        self.heard: list[Command] = []
        self.raw = b""
        self.driving = scene
        self.speed = 0.0

    def __call__(self, sock: socket.socket) -> None:
        sock.sendall(encode_report(CarLoaded()) if self.driving else HELLO)
        decoder = CommandDecoder()
        sock.settimeout(0.02)
        ticks = 0
        while True:
            try:
                data = sock.recv(8142)
                if not data:
                    return
                self.raw += data
                for command in decoder.feed(data):
                    self._obey(command, sock)
            except TimeoutError:
                pass
            except ConnectionError:
                return
            if self.driving:
                ticks += 1
                frame = Telemetry(0.0, 0.0, packed(16, 12), time=0.02 * ticks, speed=self.speed)
                try:
                    sock.sendall(encode_report(frame))
                except ConnectionError:
                    return

    def _obey(self, command: Command, sock: socket.socket) -> None:
        self.heard.append(command)
        match command:
            case GetSceneNames():
                sock.sendall(encode_report(SceneNames(("warehouse", "waveshare"))))
            case LoadScene():
                self.driving = True
                sock.sendall(encode_report(CarLoaded()))
            case ExitScene():
                self.driving = False
            case Control():
                self.speed = 1.5
            case ResetCar():
                self.speed = 0.0


# --- With a server of ours ---


def test_a_drive_from_beginning_to_end(serving: Serving) -> None:
    with DonkeyClient(port=serving().port) as client:
        assert "thunderhill" in client.scene_names()
        start = client.load("generated_track")
        assert (start.speed, start.total_nodes) == (0.0, 430)
        assert decode_picture(start.image, 160, 120).shape == (120, 160, 3)
        for _ in range(20):
            client.control(0.0, 0.5)
            moving = client.telemetry()
        assert moving.speed > 0.3
        assert len(client.line_crossings()) == 1
        assert client.line_crossings() == []
        fresh = client.reset()
        assert (fresh.speed, fresh.pos_x) == (0.0, start.pos_x)
        node = client.node_position(50)
        there = client.set_position(
            node.pos_x, node.pos_y, node.pos_z, (0.0, node.qy, 0.0, node.qw)
        )
        assert there.cte == pytest.approx(0.0, abs=0.05)
        client.send(CamConfig(img_w=64, img_h=48))
        later = client.telemetry((there.frame or 0) + 2)
        assert decode_picture(later.image, 64, 48).shape == (48, 64, 3)
        client.exit_scene()
        assert client.load("waveshare").total_nodes == 302


def test_the_newest_frame_is_returned_and_none_twice(serving: Serving) -> None:
    with DonkeyClient(port=serving().port) as client:
        first = client.load("waveshare")
        time.sleep(0.5)
        late = client.telemetry()
        assert first.frame is not None
        assert late.frame is not None
        assert late.frame >= first.frame + 3
        assert client.telemetry().frame == late.frame + 1
        assert (client.telemetry(after=late.frame + 4).frame or 0) >= late.frame + 5


def test_lockstep_steps_once_for_each_control(serving: Serving) -> None:
    with DonkeyClient(port=serving().port) as client:
        client.load("generated_track")
        client.lockstep()
        client.control(0.0, 0.2)
        before = client.telemetry()
        frames = []
        for _ in range(10):
            client.control(0.1, 0.2)
            frames.append(client.telemetry())
        assert before.frame is not None
        assert [frame.frame for frame in frames] == list(range(before.frame + 1, before.frame + 11))
        assert frames[-1].time - before.time == pytest.approx(0.5)


def test_an_unknown_scene_is_named_with_those_there_are(serving: Serving) -> None:
    with (
        DonkeyClient(port=serving().port) as client,
        pytest.raises(KeyError, match="did you mean 'waveshare'"),
    ):
        client.load("wave_share")


@pytest.mark.parametrize("name", ["circiut:5", "circuit:x"])
def test_a_numbered_road_that_is_none_is_refused_at_once(serving: Serving, name: str) -> None:
    began = time.monotonic()
    with (
        DonkeyClient(port=serving().port) as client,
        pytest.raises(KeyError, match="waveshare; and roads such as circuit:17"),
    ):
        client.load(name)
    assert time.monotonic() - began < 20


def test_one_who_never_stops_sending_is_not_waited_for(playing: Playing) -> None:
    def flood(sock: socket.socket) -> None:
        sock.sendall(HELLO)
        loaded = encode_report(CarLoaded()) * 5000
        with suppress(OSError):
            while True:
                sock.sendall(loaded)

    client = DonkeyClient(port=playing(flood), timeout=1.0)
    began = time.monotonic()
    with pytest.raises(SimulatorGone, match=r"sends faster|did not say which scenes"):
        client.scene_names()
    assert time.monotonic() - began < 10


def test_taking_in_what_comes_has_an_end(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    with DonkeyClient(port=serving().port, timeout=0.2) as client:
        monkeypatch.setattr(client, "_take_in", lambda seconds: True)  # something, again and again
        with pytest.raises(SimulatorGone, match="sends faster than it can be read"):
            client.line_crossings()


# --- With the real simulator's manner ---


def test_the_real_simulator_is_driven_too(playing: Playing) -> None:
    unity = Unity()
    with DonkeyClient(port=playing(unity)) as client:
        assert client.load("waveshare").speed == 0.0
        client.control(0.25, 0.5)
        deadline = time.monotonic() + 5
        while client.telemetry().speed == 0:
            assert time.monotonic() < deadline
        assert client.reset().speed == 0
        first, second = client.telemetry(), client.telemetry()
        assert (first.frame or 0) < (second.frame or 0)  # counted by the client itself
        assert decode_picture(second.image, 16, 12)[0, 0].tolist() == [10, 200, 30]
    assert b"\n" not in unity.raw
    assert b'"steering": "0.25", "throttle": "0.5", "brake": "0.0"}' in unity.raw


def test_a_simulator_that_is_in_a_scene_already_is_sent_to_its_menu(playing: Playing) -> None:
    unity = Unity(scene=True)
    with DonkeyClient(port=playing(unity)) as client:
        client.load("warehouse")
    assert unity.heard == [ExitScene(), GetSceneNames(), LoadScene("warehouse")]


def test_recorded_reports_are_taken_at_any_speed(playing: Playing) -> None:
    stream = b"\n".join(SIMULATOR) + b"\n"

    def part(sock: socket.socket) -> None:
        for byte in stream:
            sock.send(bytes([byte]))
        sock.recv(100)

    with DonkeyClient(port=playing(part)) as client:
        assert client.telemetry().cte == -1.5
        deadline = time.monotonic() + 5
        while not (lines := client.line_crossings()):
            assert time.monotonic() < deadline
        assert [line.time_stamp for line in lines] == [31.5]


# --- With one that is gone ---


def test_nobody_there_is_said_within_the_patience() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    began = time.monotonic()
    with pytest.raises(SimulatorGone, match=f"start one by: hotlap serve --port {port}"):
        DonkeyClient(port=port, patience=1.0)
    assert time.monotonic() - began < 3


def test_one_who_comes_late_is_waited_for(serving: Serving) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    starter = threading.Timer(0.7, lambda: serving(port=port))
    starter.start()
    with DonkeyClient(port=port, patience=20) as client:
        assert client.load("waveshare").speed == 0
    starter.join()


def test_silence_from_the_start_is_an_error(playing: Playing) -> None:
    with pytest.raises(SimulatorGone, match=r"did not greet within 0.5 s"):
        DonkeyClient(port=playing(lambda sock: time.sleep(1)), timeout=0.5)


def test_a_closed_connection_is_an_error_at_once_and_stays_one(playing: Playing) -> None:
    client = DonkeyClient(port=playing(lambda sock: sock.sendall(HELLO)))
    began = time.monotonic()
    with pytest.raises(SimulatorGone, match="closed the connection"):
        client.telemetry()
    with pytest.raises(SimulatorGone, match="is closed"):
        client.control(0.0, 0.0)
    with pytest.raises(ConnectionError):
        client.reset()
    assert time.monotonic() - began < 2


def test_a_server_that_ends_is_noticed(serving: Serving) -> None:
    running = serving()
    with DonkeyClient(port=running.port) as client:
        client.load("waveshare")
        running.stop()
        began = time.monotonic()
        with pytest.raises(SimulatorGone, match=r"closed|broke"):
            while True:
                client.control(0.0, 0.0)
                client.telemetry()
        assert time.monotonic() - began < 5


def test_one_that_stalls_is_given_up(playing: Playing) -> None:
    done = threading.Event()

    def part(sock: socket.socket) -> None:
        sock.sendall(HELLO + encode_report(CarLoaded()))
        done.wait(20)

    with DonkeyClient(port=playing(part), timeout=0.5) as client:
        with pytest.raises(SimulatorGone, match=r"did not send telemetry within 0.5 s"):
            client.telemetry()
        done.set()


def test_one_that_trickles_is_given_up_too(playing: Playing) -> None:
    def part(sock: socket.socket) -> None:
        sock.sendall(HELLO)
        try:
            for _ in range(100):
                sock.sendall(b"{}\n")
                time.sleep(0.02)
        except OSError:
            pass

    with (
        DonkeyClient(port=playing(part)) as client,
        pytest.raises(SimulatorGone, match=r"did not send telemetry within 0.4 s"),
    ):
        client.telemetry(timeout=0.4)


def test_one_that_reads_nothing_is_given_up(playing: Playing) -> None:
    done = threading.Event()

    def part(sock: socket.socket) -> None:
        sock.sendall(HELLO)
        done.wait(30)

    with DonkeyClient(port=playing(part), timeout=0.5) as client:
        with pytest.raises(SimulatorGone, match="does not take load_scene"):
            for _ in range(100_000):
                client.send(LoadScene("x" * 100_000))
        done.set()


@pytest.mark.parametrize(
    "garbage",
    [b"HTTP/1.1 400 Bad Request\r\n", b'{"msg_type":"telemetry","image":3}\n', b"\xff\xfe\xfd\n"],
)
def test_garbage_is_an_error(garbage: bytes, playing: Playing) -> None:
    with pytest.raises(SimulatorGone, match="does not speak the DonkeyCar protocol"):
        DonkeyClient(port=playing(lambda sock: sock.sendall(garbage * 3)))


def test_a_line_without_end_is_an_error(playing: Playing) -> None:
    def part(sock: socket.socket) -> None:
        try:
            for _ in range(100):
                sock.sendall(b"x" * 1_000_000)
        except OSError:
            pass

    with pytest.raises(SimulatorGone, match="more than 16777216 bytes"):
        DonkeyClient(port=playing(part))


# --- Pictures ---


def test_another_size_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(ValueError, match=r"80 x 60 pixels, 160 x 120 were expected.*cam_config"):
        decode_picture(packed(80, 60), 160, 120)


@pytest.mark.parametrize("text", ["", "aGVsbG8=", "not base64!", packed(16, 12)[:60]])
def test_what_is_no_picture_is_an_error(text: str) -> None:
    with pytest.raises(SimulatorGone, match="a picture that cannot be read"):
        decode_picture(text, 16, 12)


def test_grey_and_transparent_pictures_become_three_channels() -> None:
    for mode in ("L", "RGBA", "P"):
        buffer = io.BytesIO()
        Image.new(mode, (16, 12)).save(buffer, "PNG")
        picture = decode_picture(base64.b64encode(buffer.getvalue()).decode(), 16, 12)
        assert (picture.shape, picture.dtype) == ((12, 16, 3), np.uint8)
