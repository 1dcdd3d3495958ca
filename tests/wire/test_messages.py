"""What messages look like on the wire."""

import json
from typing import Any

import pytest

from hotlap.wire.codec import encode_command, encode_report
from hotlap.wire.messages import (
    BadMessage,
    CamConfig,
    CamConfigB,
    CarLoaded,
    Control,
    LidarConfig,
    NodePosition,
    ProtocolVersion,
    RegenRoad,
    SceneNames,
    SceneSelectionReady,
    SetPosition,
    StartLine,
    Telemetry,
    read_command,
    read_report,
)


@pytest.mark.parametrize(
    ("report", "line"),
    [
        (SceneSelectionReady(), b'{"msg_type":"scene_selection_ready","loaded":"1"}\n'),
        (SceneNames(("a", "b")), b'{"scene_names":["a","b"],"msg_type":"scene_names"}\n'),
        (CarLoaded(), b'{"msg_type":"car_loaded"}\n'),
        (ProtocolVersion(), b'{"msg_type":"protocol_version","version":"2"}\n'),
        (
            StartLine(1, 31.5),
            b'{"msg_type":"collision_with_starting_line","starting_line_index":1,'
            b'"timeStamp":31.5}\n',
        ),
        (
            NodePosition(3, 1.0, 2.0, 3.0),
            b'{"msg_type":"node_position","index":3,"pos_x":1.0,"pos_y":2.0,"pos_z":3.0,'
            b'"Qx":0.0,"Qy":0.0,"Qz":0.0,"Qw":1.0}\n',
        ),
    ],
)
def test_reports_are_written_as_the_simulator_writes_them(report: Any, line: bytes) -> None:
    assert encode_report(report) == line
    assert read_report(json.loads(line)) == report


def test_telemetry_keeps_the_simulators_order_and_leaves_out_what_is_not_there() -> None:
    plain = json.loads(encode_report(Telemetry(0.0, 0.5, "aGk=")))
    assert list(plain) == [
        "msg_type", "steering_angle", "throttle", "image", "front_left_odom", "front_right_odom",
        "rear_left_odom", "rear_right_odom", "hit", "time", "speed", "accel_x", "accel_y",
        "accel_z", "gyro_x", "gyro_y", "gyro_z", "pitch", "yaw", "roll",
    ]  # fmt: skip
    full = Telemetry(
        0.0, 0.5, "aGk=", imageb="b", image_b="b", lidar=((1.25, 2.0, 0.0),), cte=0.1,
        active_node=3, total_nodes=9, pos_x=1.0, pos_y=2.0, pos_z=3.0, vel_x=1.0, vel_y=0.0,
        vel_z=2.0, frame=7, episode=1,
    )  # fmt: skip
    values = json.loads(encode_report(full))
    names = list(values)
    assert names[3:8] == ["image", "imageb", "image_b", "lidar", "front_left_odom"]
    assert names[-11:] == [
        "cte", "activeNode", "totalNodes", "pos_x", "pos_y", "pos_z", "vel_x", "vel_y", "vel_z",
        "frame", "episode",
    ]  # fmt: skip
    assert values["lidar"] == [{"d": 1.25, "rx": 2.0, "ry": 0.0}]
    assert read_report(values) == full


def test_a_lidar_that_meets_nothing_says_null_and_one_that_is_off_says_nothing() -> None:
    nothing = json.loads(encode_report(Telemetry(0.0, 0.0, "", lidar=())))
    assert nothing["lidar"] is None
    back = read_report(nothing)
    assert isinstance(back, Telemetry)
    assert back.lidar == ()
    assert "lidar" not in json.loads(encode_report(Telemetry(0.0, 0.0, "")))


def test_commands_are_flat_strings_without_a_newline() -> None:
    assert encode_command(Control(0.5, 1.0)) == (
        b'{"msg_type": "control", "steering": "0.5", "throttle": "1.0", "brake": "0.0"}'
    )
    assert encode_command(SetPosition(1.0, 2.0, 3.0)) == (
        b'{"msg_type": "set_position", "pos_x": "1.0", "pos_y": "2.0", "pos_z": "3.0"}'
    )
    lidar = json.loads(encode_command(LidarConfig()))
    assert lidar["degPerSweepInc"] == "2.0"
    assert lidar["numSweepsLevels"] == "1"
    assert all(isinstance(value, str) for value in lidar.values())


@pytest.mark.parametrize("steering", ["0.25", 0.25, " 0.25 ", "2.5e-1"])
def test_numbers_are_taken_as_strings_or_numbers(steering: object) -> None:
    values = {"msg_type": "control", "steering": steering, "throttle": "1", "brake": 0}
    assert read_command(values) == Control(0.25, 1.0, 0.0)
    del values["brake"]
    assert read_command(values) == Control(0.25, 1.0, 0.0)


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"msg_type": 3},
        {"msg_type": None},
        {"msg_type": "control", "throttle": "1"},
        {"msg_type": "control", "steering": "left", "throttle": "1"},
        {"msg_type": "control", "steering": "nan", "throttle": "1"},
        {"msg_type": "control", "steering": "1e999", "throttle": "1"},
        {"msg_type": "control", "steering": True, "throttle": "1"},
        {"msg_type": "control", "steering": None, "throttle": "1"},
        {"msg_type": "control", "steering": [1], "throttle": "1"},
        {"msg_type": "node_position", "index": "1.5"},
        {"msg_type": "node_position", "index": "1e300"},
        {"msg_type": "load_scene", "scene_name": {}},
        {"msg_type": "load_scene"},
    ],
)
def test_what_is_missing_or_impossible_is_refused(values: dict[str, Any]) -> None:
    with pytest.raises(BadMessage):
        read_command(values)


def test_unknown_types_are_no_error() -> None:
    assert read_command({"msg_type": "racer_info", "bio": "x"}) is None
    assert read_report({"msg_type": "ping"}) is None


def test_the_two_cameras_differ_by_type_alone() -> None:
    values = {"img_w": "64", "img_h": "48", "fov": "60"}
    first = read_command({"msg_type": "cam_config", **values})
    second = read_command({"msg_type": "cam_config_b", **values})
    assert first == CamConfig(fov=60.0, img_w=64, img_h=48)
    assert second == CamConfigB(fov=60.0, img_w=64, img_h=48)
    assert read_command({"msg_type": "regen_road", "rand_seed": "7"}) == RegenRoad(rand_seed=7)
