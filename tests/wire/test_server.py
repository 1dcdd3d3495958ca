"""The server over real sockets: what a client says and what it hears."""

import json
import math
import os
import signal
import socket
import subprocess
import sys
import time

import pytest

from hotlap.cli import main
from hotlap.config.serving import ServeConfig
from hotlap.wire.server.scenes import MENU

from .conftest import Serving
from .recorded import GYM_CLIENT
from .talking import Steady, Talk, patient

# --- The handshake ---


def test_the_menu_comes_first(serving: Serving) -> None:
    with Talk(serving().port) as talk:
        assert talk.hear() == {"msg_type": "scene_selection_ready", "loaded": "1"}
        talk.say("get_scene_names")
        names = talk.hear()
        assert names == {"scene_names": list(MENU), "msg_type": "scene_names"}
        talk.say("get_protocol_version")
        assert talk.hear() == {"msg_type": "protocol_version", "version": "2"}
        talk.say("load_scene", scene_name="waveshare")
        assert talk.hear() == {"msg_type": "car_loaded"}
        frame = talk.hear()
        assert (frame["msg_type"], frame["frame"], frame["speed"]) == ("telemetry", 1, 0)
        talk.say("get_protocol_version")
        assert talk.wait("protocol_version")["version"] == "2"


@pytest.mark.parametrize("between", [b"", b"\n"])
def test_a_recorded_session_byte_by_byte(between: bytes, serving: Serving) -> None:
    """Menu, scene, configuration, reset, drive and exit, every byte sent by itself."""
    running = serving()
    stream = between.join(GYM_CLIENT[:-1]) + between
    with Talk(running.port) as talk:
        talk.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in stream:
            talk.socket.send(bytes([byte]))
        assert talk.wait("scene_names")["scene_names"] == list(MENU)
        talk.wait("car_loaded")
        frame = talk.frame()
        while not (frame["episode"] == 2 and frame["throttle"] == 0.5):
            frame = talk.frame()
        assert frame["steering_angle"] == -0.25
        assert {"imageb", "image_b", "lidar"} < set(frame)
        talk.socket.sendall(GYM_CLIENT[-1])
        time.sleep(0.5)
        talk.hush(0.2)
        assert talk.hush(0.5) == []
    assert "0 ignored" in running.said("client 1 left")


def test_scenes_can_be_changed_and_left_at_any_time(serving: Serving) -> None:
    with Talk(serving().port, "generated_track") as talk:
        first = talk.frame()
        talk.load("waveshare")
        second = talk.frame()
        assert second["totalNodes"] != first["totalNodes"]
        assert second["time"] < 0.2
        assert second["frame"] > first["frame"]
        talk.say("exit_scene")
        talk.hush(0.5)
        assert talk.hush(0.3) == []  # the simulator is silent there too
        talk.say("control", steering=0, throttle=1, brake=0)
        talk.say("reset_car")
        assert talk.hush(0.3) == []
        talk.load("circuit:5")
        assert talk.frame()["speed"] == 0


def test_an_unknown_scene_changes_nothing(serving: Serving) -> None:
    running = serving()
    with Talk(running.port, "generated_track") as talk:
        for name, words in (
            ("generated_trak", "did you mean 'generated_track'?"),
            ("../etc/passwd", "unknown scene '../etc/passwd'"),
            ("a.csv", "unknown scene 'a.csv'"),
            ("circuit:x", "the seed after circuit: is a whole number"),
            ("x" * 5000, "unknown scene of 5000 letters"),
        ):
            talk.say("load_scene", scene_name=name)
            running.said(words)
        assert talk.hush(0.2).count("scene_names") == 5
        assert talk.frame()["totalNodes"] == 430


@pytest.mark.slow
def test_every_scene_loads(serving: Serving) -> None:
    with Talk(serving().port, MENU[0]) as talk:
        for name in MENU[1:]:
            talk.load(name)
            assert abs(talk.frame()["cte"]) < 0.5


@pytest.mark.slow
def test_a_random_road_is_built_anew_by_number(serving: Serving) -> None:
    with Talk(serving().port, "generated_road") as talk:
        old = talk.frame()

        def rebuilt(seed: int, turn: float = 0.0) -> dict[str, float]:
            talk.say("regen_road", road_style=0, rand_seed=seed, turn_increment=turn)
            talk.say("node_position", index=500)
            return talk.wait("node_position", 60)

        first, second, again, wilder = rebuilt(7), rebuilt(8), rebuilt(7), rebuilt(7, 9.0)
        assert first == again
        assert first not in (second, wilder)
        fresh = talk.frame()
        assert fresh["episode"] == old["episode"] + 4
        assert fresh["time"] > old["time"]


def test_each_connection_has_its_own_world(serving: Serving) -> None:
    running = serving()
    with Talk(running.port, "generated_track") as one, Talk(running.port, "waveshare") as two:
        one.say("control", steering=0, throttle=0.5, brake=0)
        for _ in range(20):
            moving, standing = one.frame(), two.frame()
        assert moving["speed"] > 0.3
        assert standing["speed"] == 0
        assert moving["totalNodes"] != standing["totalNodes"]
        two.say("quit_app")
        assert two.is_closed()
        assert one.frame()["frame"] > moving["frame"]
    assert "quit_app" in running.said("client 2 left")


# --- Driving ---


def test_the_last_command_holds_and_frames_come_by_themselves(serving: Serving) -> None:
    with Talk(serving().port, "generated_track") as talk:
        talk.say("control", steering=0.1, throttle=0.3, brake=0)
        began = time.monotonic()
        frames = [talk.frame() for _ in range(40)]
        assert time.monotonic() - began > 1.4
        assert frames[-1]["speed"] > frames[20]["speed"] > 0.2
        numbers = [frame["frame"] for frame in frames]
        assert numbers == list(range(numbers[0], numbers[0] + 40))


def test_a_control_shows_in_the_next_frame_but_one(serving: Serving) -> None:
    """At the latest: the next one may be on its way already."""
    with Talk(serving().port, "generated_track") as talk:
        for turn in range(10):
            wanted = round(0.05 * turn, 2)
            talk.say("control", steering=wanted, throttle=0.1, brake=0)
            talk.say("get_protocol_version")
            talk.wait("protocol_version")
            assert wanted in [talk.frame()["steering_angle"] for _ in range(2)]


def test_no_frame_from_before_a_reset_comes_after_it(serving: Serving) -> None:
    """The version is told at once, so what follows it was sent after the reset was heard."""
    with Talk(serving(speed=4.0).port, "generated_track") as talk:
        start = talk.frame()
        for _ in range(12):
            talk.say("control", steering=0.3, throttle=1, brake=0)
            moving = [talk.frame() for _ in range(20)][-1]
            assert moving["speed"] > 0.3
            talk.say("reset_car")
            talk.say("get_protocol_version")
            talk.wait("protocol_version")
            for _ in range(3):
                frame = talk.frame()
                assert frame["episode"] == moving["episode"] + 1
                assert (frame["speed"], frame["hit"]) == (0, "none")
                assert frame["pos_x"] == pytest.approx(start["pos_x"], abs=1e-4)


def test_laps_are_told(serving: Serving) -> None:
    with Talk(serving(lockstep=True).port, "waveshare") as talk:
        talk.say("node_position", index=3)
        node = talk.wait("node_position")
        assert node["index"] == 3
        before = frame = talk.frame()
        lines = []
        for _ in range(600):
            steering = -0.5 * frame["cte"] - 2.5 * (frame["cte"] - before["cte"])
            throttle = min(max(0.5 * (0.8 - frame["speed"]) + 0.1, 0), 0.5)
            talk.say("control", steering=steering, throttle=throttle, brake=0)
            message = talk.hear()
            while message["msg_type"] != "telemetry":
                lines.append(message)
                message = talk.hear()
            before, frame = frame, message
            if len(lines) == 2:
                break
        assert [line["starting_line_index"] for line in lines] == [0, 0]
        lap = lines[1]["timeStamp"] - lines[0]["timeStamp"]
        assert 8.3 / 1.0 < lap < 8.3 / 0.5
        assert lines[1]["timeStamp"] == pytest.approx(frame["time"], abs=0.051)


# --- Pace ---


def test_in_lockstep_every_control_is_one_step(serving: Serving) -> None:
    with Talk(serving(lockstep=True, repeat_seconds=0.3).port, "generated_track") as talk:
        first = talk.frame()
        for _ in range(30):
            talk.say("control", steering=0.1, throttle=0.3, brake=0)
        frames = [talk.frame() for _ in range(30)]
        assert [frame["frame"] - first["frame"] for frame in frames] == list(range(1, 31))
        assert frames[-1]["time"] - first["time"] == pytest.approx(1.5)
        again = [talk.frame(), talk.frame()]  # nothing was said, so it says where it is
        for frame in again:
            assert (frame["frame"], frame["time"]) == (frames[-1]["frame"], frames[-1]["time"])
        talk.say("reset_car")
        fresh = talk.frame()
        while fresh["frame"] == again[0]["frame"]:
            fresh = talk.frame()
        assert (fresh["speed"], fresh["episode"]) == (0, first["episode"] + 1)


def test_lockstep_is_exact(serving: Serving) -> None:
    """The same controls lead to the same frames, however long the client takes."""
    running = serving(lockstep=True)

    def drive(pause: float) -> list[dict[str, object]]:
        with Talk(running.port, "generated_track") as talk:
            talk.frame()
            frames = []
            for turn in range(20):
                talk.say("control", steering=math.sin(turn), throttle=0.5, brake=0)
                frames.append(talk.frame())
                time.sleep(pause)
            return frames

    assert drive(0.0) == drive(0.01)


def test_a_client_can_ask_for_lockstep_itself(serving: Serving) -> None:
    running = serving(repeat_seconds=5.0)
    with Talk(running.port, "generated_track") as talk, Talk(running.port, "waveshare") as other:
        talk.say("step_mode", step_mode="synchronous", time_step=0.05)
        talk.hush(0.4)
        assert talk.hush(0.3) == []
        talk.say("control", steering=0, throttle=0.5, brake=0)
        assert talk.frame()["throttle"] == 0.5
        assert len(other.hush(0.3)) > 3
        talk.say("step_mode", step_mode="asynchronous")
        assert len(talk.hush(0.5)) > 3


def test_speed_is_simulated_time_over_real_time(serving: Serving) -> None:
    with Talk(serving(speed=3.0).port, "generated_track") as talk:
        talk.frame()
        began, first = time.monotonic(), talk.frame()["time"]
        for _ in range(60):
            last = talk.frame()["time"]
        pace = (last - first) / (time.monotonic() - began)
        assert 1.2 < pace < 3.3


# --- Starting and ending ---


def test_a_port_in_use_is_explained(serving: Serving, capsys: pytest.CaptureFixture[str]) -> None:
    port = serving().port
    assert main(["serve", "--port", str(port), "--json"]) == 2
    output = capsys.readouterr()
    assert f"127.0.0.1:{port} is taken" in output.err
    assert f"--port {port + 2}" in output.err
    assert json.loads(output.out.splitlines()[-1])["exit_code"] == 2


def test_an_address_of_nobody_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--host", "192.0.2.1", "--port", "0"]) == 2
    assert "cannot listen on 192.0.2.1:0" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"port": 70000}, "port must lie in 0..65535"),
        ({"speed": 0.0}, "speed must lie in"),
        ({"clients": 0}, "clients must lie in 1..1024"),
        ({"message_bytes": 10}, "message_bytes must be at least 1024"),
        ({"messages_per_second": 1.0}, "messages_per_second must be at least 100"),
        ({"idle_seconds": 0.0}, "idle_seconds must be positive"),
    ],
)
def test_settings_that_cannot_be_served_are_refused(settings: dict, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        ServeConfig(**settings)


def test_only_loopback_is_closed_to_others(serving: Serving) -> None:
    closed = [ServeConfig(host=host).is_open for host in ("127.0.0.1", "localhost", "::1")]
    opened = [ServeConfig(host=host).is_open for host in ("0.0.0.0", "::", "10.0.0.1", "box")]
    assert (closed, opened) == ([False] * 3, [True] * 4)
    assert len(serving().lines) == 1
    assert "no password" in serving(host="0.0.0.0").said("warning")


def test_an_interrupt_ends_it_with_an_answer() -> None:
    command = [sys.executable, "-m", "hotlap", "serve", "--port", "0", "--json"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        line = process.stdout.readline()
        assert line.startswith("listening on 127.0.0.1:")
        port = int(line.split(":")[1].split(",")[0])
        with Talk(port, "waveshare") as talk:
            talk.frame()
            process.send_signal(signal.SIGINT)
            assert talk.is_closed()
        assert process.wait(30) == 0
        *lines, answer = process.stdout.read().splitlines()
        assert process.stderr.read() == ""
    assert any("client 1 left: the server ends" in line for line in lines)
    assert json.loads(answer)["clients"] == 1
    assert json.loads(answer)["port"] == port


@pytest.mark.skipif(sys.platform != "linux", reason="pipes are made small as Linux does it")
def test_whoever_started_it_need_not_read_what_it_says() -> None:
    import fcntl

    command = [sys.executable, "-m", "hotlap", "serve", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, 8192)
        port = int(process.stdout.readline().split(":")[1].split(",")[0])
        try:
            for _ in range(100):  # two lines each, of fifty letters and more
                with Talk(port) as talk:
                    talk.wait("scene_selection_ready")
            with Talk(port, "waveshare") as talk:
                talk.frame()
            process.send_signal(signal.SIGINT)
            said = process.stdout.read()
            assert process.wait(30) == 0
        finally:
            process.kill()
    assert "client 1 left" in said
    assert len(said) < 12000


@patient
def test_two_clients_and_twenty_hertz(serving: Serving) -> None:
    running = serving()
    with Steady(running.port) as one, Steady(running.port, "waveshare") as two:
        time.sleep(2)
    assert one.undisturbed()
    assert two.undisturbed()
    assert one.rate() < 21
