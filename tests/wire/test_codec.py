"""Streams of bytes, whole, split, broken and hostile."""

import json
import os
import random
import time

import pytest

from hotlap.wire.codec import DEEPEST, CommandDecoder, ReportDecoder
from hotlap.wire.messages import (
    BadMessage,
    Command,
    LoadScene,
    Report,
    ResetCar,
    SceneNames,
    StartLine,
    Telemetry,
    read_command,
)

from .recorded import GYM_CLIENT, SIMULATOR, TOOLS

COMMANDS = [*GYM_CLIENT, *TOOLS]
RESET = b'{"msg_type":"reset_car"}'


def read_all(pieces: list[bytes]) -> tuple[list[Command], CommandDecoder]:
    decoder = CommandDecoder()
    return [command for piece in pieces for command in decoder.feed(piece)], decoder


def expected() -> list[Command | None]:
    return [read_command(json.loads(line)) for line in COMMANDS]


# --- Commands ---


@pytest.mark.parametrize("between", [b"", b"\n", b"\r\n", b"  \t\n\n", b"\x00"])
def test_commands_come_bare_or_with_anything_between_them(between: bytes) -> None:
    found, decoder = read_all([between.join(COMMANDS) + between])
    assert found == expected()
    assert (decoder.malformed, decoder.unknown) == (0, 0)


@pytest.mark.parametrize("between", [b"", b"\n"])
def test_commands_split_at_every_byte(between: bytes) -> None:
    stream = between.join(COMMANDS)
    wanted = expected()
    assert read_all([stream[i : i + 1] for i in range(len(stream))])[0] == wanted
    for place in range(len(stream) + 1) if not between else ():
        assert read_all([stream[:place], stream[place:]])[0] == wanted


def test_text_may_hold_braces_quotes_and_any_letter() -> None:
    name = 'a{b}"\\ü\n[]{'
    stream = json.dumps({"msg_type": "load_scene", "scene_name": name}).encode()
    stream += json.dumps(
        {"msg_type": "load_scene", "scene_name": name}, ensure_ascii=False
    ).encode()
    for size in (1, 2, 3, len(stream)):
        pieces = [stream[i : i + size] for i in range(0, len(stream), size)]
        assert read_all(pieces)[0] == [LoadScene(name), LoadScene(name)]


@pytest.mark.parametrize(
    ("garbage", "malformed"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", 0),
        (b'{"msg_type":"control","steer', 1),
        (b'{"msg_type":"control","steering":"0.', 1),
        (b'{"msg_type":"control","steering":0.5', 1),
        (b'{"msg_type":"contr\n', 1),
        (b"}}}}]]]]", 0),
        (b"{{{{{{", 6),
        (b'{"a":{"b":', 2),
        (b'{"a" "b"}', 1),
        (b"{'a':1}", 1),
        (b'{"a":truth}', 1),
        (b'{"a":1,}', 1),
        (b'{"\xff\xfe":1}', 1),
        (b"\x80\x81{\x82}", 1),
    ],
)
def test_after_garbage_the_next_command_is_found(garbage: bytes, malformed: int) -> None:
    for pieces in ([garbage + RESET + RESET], [garbage, RESET, RESET]):
        found, decoder = read_all(pieces)
        assert found == [ResetCar(), ResetCar()]
        assert decoder.malformed == malformed


def test_a_command_beyond_the_limit_is_dropped_and_its_memory_with_it() -> None:
    decoder = CommandDecoder(longest=1000)
    assert decoder.feed(b'{"msg_type":"load_scene","scene_name":"') == []
    for _ in range(1000):
        assert decoder.feed(b"x" * 1000) == []
        assert len(decoder._buffer) <= 2000
    assert decoder.feed(b'"}' + RESET) == [ResetCar()]
    assert decoder.malformed == 1


def test_nesting_is_bounded_and_what_is_inside_costs_nothing() -> None:
    fits = b'{"msg_type":"reset_car","x":' + b"[" * (DEEPEST - 1) + b"]" * (DEEPEST - 1) + b"}"
    deep = b'{"msg_type":"reset_car","x":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    assert read_all([fits])[0] == [ResetCar()]
    found, decoder = read_all([deep + RESET])
    assert found == [ResetCar()]
    assert decoder.malformed == 1


def test_unknown_commands_are_counted() -> None:
    found, decoder = read_all([b'{"msg_type":"racer_info","bio":"x"}' + RESET])
    assert found == [ResetCar()]
    assert (decoder.malformed, decoder.unknown) == (0, 1)


HOSTILE = [
    b"{", b'{"', b'{"a{"a', b'{"a":[', b'{"a":{', b'{"x":"{}', b'[{"', b'{"a":"\\', b'{"b":1},',
    b'{"a":["{",', b'"{",":",', b'{"a":1', b"{}", b'{"a":["{"' + b',":",","' * 50,
]  # fmt: skip


@pytest.mark.parametrize("pattern", HOSTILE)
@pytest.mark.parametrize("size", [1, 4096])
def test_hostile_bytes_take_time_in_proportion(pattern: bytes, size: int) -> None:
    """Four times the bytes take about four times as long; a square law would take sixteen."""

    def seconds(count: int) -> float:
        stream = pattern * (count // len(pattern))
        best = float("inf")
        for _ in range(3):
            decoder = CommandDecoder()
            began = time.process_time()
            for i in range(0, len(stream), size):
                decoder.feed(stream[i : i + size])
            best = min(best, time.process_time() - began)
        return best

    assert seconds(20_000) < 9 * seconds(5_000) + 0.01


def test_no_bytes_whatever_stop_the_decoder() -> None:
    """100,000 messages, random, mutated, cut and shuffled; then it still reads."""
    draw = random.Random(1)
    decoder = CommandDecoder()
    alphabet = [b"{", b"}", b"[", b"]", b'"', b"\\", b":", b",", b"\n", b"0", b"e", b'"msg_type"']
    for turn in range(100_000):
        kind = turn % 4
        if kind == 0:
            piece = os.urandom(draw.randrange(40))
        elif kind == 1:
            piece = b"".join(draw.choices(alphabet, k=draw.randrange(30)))
        else:
            piece = bytearray(draw.choice(COMMANDS))
            for _ in range(draw.randrange(4)):
                piece[draw.randrange(len(piece))] = draw.randrange(256)
            if kind == 3:
                piece = piece[: draw.randrange(len(piece))]
        for command in decoder.feed(bytes(piece)):
            assert isinstance(command, Command)
        assert len(decoder._buffer) <= decoder.longest + 400
    assert ResetCar() in decoder.feed(b"\n" * decoder.longest + (RESET + b"\n") * 2)


# --- Reports ---


def test_reports_split_at_every_byte() -> None:
    stream = b"\n".join(SIMULATOR) + b"\n"
    whole = ReportDecoder().feed(stream)
    kinds = [type(report).__name__ for report in whole]
    assert kinds == [
        "SceneSelectionReady", "SceneNames", "ProtocolVersion", "CarLoaded", "Telemetry",
        "NodePosition", "StartLine",
    ]  # fmt: skip
    decoder = ReportDecoder()
    assert [r for i in range(len(stream)) for r in decoder.feed(stream[i : i + 1])] == whole
    for place in range(len(stream) + 1):
        decoder = ReportDecoder()
        assert decoder.feed(stream[:place]) + decoder.feed(stream[place:]) == whole


def test_the_simulators_frame_is_read_field_by_field() -> None:
    (frame,) = ReportDecoder().feed(SIMULATOR[4] + b"\n")
    assert isinstance(frame, Telemetry)
    assert (frame.cte, frame.active_node, frame.vel_z, frame.gyro_z) == (-1.5, 3, 1.24, 1e-5)
    assert (frame.frame, frame.episode, frame.lidar) == (None, None, None)


def test_commas_for_decimal_points_are_understood() -> None:
    line = b'{"msg_type":"collision_with_starting_line","starting_line_index":0,"timeStamp":31,5}\n'
    assert ReportDecoder().feed(line) == [StartLine(0, 31.5)]
    line = SIMULATOR[4].replace(b"1.25,", b"1,25,").replace(b":-1.5,", b":-1,5,") + b"\n"
    (frame,) = ReportDecoder().feed(line)
    assert isinstance(frame, Telemetry)
    assert (frame.speed, frame.cte) == (1.25, -1.5)


@pytest.mark.parametrize(
    "line",
    [b"HTTP/1.1 400 Bad Request\n", b"[1,2,3]\n", b'{"a":1}\n', b'{"msg_type":"telemetry"}\n'],
)
def test_what_is_no_report_is_refused(line: bytes) -> None:
    with pytest.raises(BadMessage):
        ReportDecoder().feed(line)


def test_a_line_that_does_not_end_is_refused() -> None:
    decoder = ReportDecoder(longest=10_000)
    with pytest.raises(BadMessage, match="more than 10000 bytes"):
        for _ in range(20):
            decoder.feed(b"x" * 1000)


def test_unknown_reports_are_counted() -> None:
    decoder = ReportDecoder()
    found: list[Report] = decoder.feed(b'{"msg_type":"ping"}\n' + SIMULATOR[1] + b"\n")
    assert found == [SceneNames(("generated_road", "warehouse", "waveshare"))]
    assert decoder.unknown == 1
