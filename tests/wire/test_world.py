"""The world behind the protocol: units, frames, resets, laps, walls and senses."""

import base64
import io
import json
import math
import random
from contextlib import suppress
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from hotlap.config.tasks import DonkeyConfig
from hotlap.sim.tracks import NAMES
from hotlap.sim.tracks.named import UNIT
from hotlap.tasks.batch import BatchEnv
from hotlap.tasks.donkey import DonkeyTask
from hotlap.wire.messages import (
    COMMANDS,
    BadMessage,
    CamConfig,
    CamConfigB,
    Command,
    Control,
    ExitScene,
    GetNodePosition,
    LidarConfig,
    ResetCar,
    SetPosition,
    read_command,
)
from hotlap.wire.server.cameras import CAMERA_A, CAMERA_B, mounted
from hotlap.wire.server.scenes import MENU, Scene, find_scene
from hotlap.wire.server.unity import node_position
from hotlap.wire.server.world import Arrival, Order, World


@pytest.fixture(scope="module")
def track() -> Scene:
    return find_scene("generated_track")


@pytest.fixture(scope="module")
def hall() -> Scene:
    return find_scene("warehouse")


@pytest.fixture(scope="module")
def short() -> Scene:
    return find_scene("waveshare")


def entered(scene: Scene, *commands: Command) -> World:
    world = World(2)
    world.play([Order(0, (Arrival(scene, anew=True), *commands))])
    return world


def told(world: World, *commands: Command, step: bool = True) -> dict[str, Any]:
    """Telemetry after a step."""
    (answer,) = world.play([Order(0, commands, step=step)])
    assert answer.failure is None
    assert answer.telemetry is not None
    values: dict[str, Any] = json.loads(answer.telemetry)
    return values


def steered(frame: dict[str, Any], before: dict[str, Any], pace: float = 0.9) -> Control:
    """A driver that needs nothing but the cross-track error."""
    change = frame["cte"] - before["cte"]
    steering = -0.4 * frame["cte"] - 2.2 * change
    return Control(steering, min(max(0.5 * (pace - frame["speed"]) + 0.1, 0.0), 0.5))


def picture(text: str) -> np.ndarray:
    with Image.open(io.BytesIO(base64.b64decode(text))) as image:
        return np.asarray(image)


# --- Units and frames ---


def test_every_scene_that_clients_know_is_in_the_menu() -> None:
    assert set(MENU) == set(NAMES)
    assert len(MENU) == 11


def test_a_car_begins_at_the_published_pose(track: Scene) -> None:
    frame = told(entered(track))
    assert frame["pos_x"] == pytest.approx(49.7 / 8, abs=1e-3)
    assert frame["pos_z"] == pytest.approx(47.8 / 8, abs=1e-3)
    assert frame["yaw"] == pytest.approx(0.0, abs=0.1)
    assert (frame["cte"], frame["speed"], frame["hit"]) == (pytest.approx(0, abs=0.01), 0, "none")
    assert frame["totalNodes"] == track.track.num_points


def test_telemetry_says_what_the_world_is(track: Scene) -> None:
    world = entered(track)
    for _ in range(30):
        frame = told(world, Control(0.4, 0.5))
    car = {
        name: float(value[0, 0])
        for name, value in world.fleet._state["car"].items()
        if value.dim() == 2
    }
    assert frame["pos_x"] == pytest.approx(car["x"], abs=1e-5)
    assert frame["pos_z"] == pytest.approx(car["y"], abs=1e-5)
    assert frame["vel_z"] == pytest.approx(car["vx"], abs=1e-5)
    assert frame["vel_x"] == pytest.approx(-car["vy"], abs=1e-5)
    assert frame["speed"] == pytest.approx(math.hypot(car["vx"], car["vy"]), abs=1e-5)
    assert frame["gyro_y"] == pytest.approx(-car["yaw_rate"], abs=1e-5)
    assert frame["yaw"] == pytest.approx((90 - math.degrees(car["heading"])) % 360, abs=1e-3)
    place = world.fleet._state["place"]
    assert frame["cte"] == pytest.approx(-float(place["n"][0, 0]) / UNIT, abs=1e-4)
    assert (frame["steering_angle"], frame["throttle"]) == (0.4, 0.5)


def test_frames_are_unitys(track: Scene) -> None:
    """Right is positive: steering, yaw, its rate, and the error; velocity is the body's."""
    world = entered(track)
    before = told(world)
    for _ in range(25):
        last, frame = before, told(world, Control(0.5, 0.4))
        before = frame
    assert 0 < frame["yaw"] < 180
    assert frame["gyro_y"] > 0
    assert frame["cte"] > 0
    assert frame["pos_x"] > 49.7 / 8  # at yaw 0 the right is +x
    assert frame["vel_z"] > 0.9 * frame["speed"]
    turned = math.radians(frame["yaw"] - last["yaw"]) / world.dt
    assert frame["gyro_y"] == pytest.approx(turned, rel=0.1)
    assert frame["accel_z"] == pytest.approx((frame["vel_z"] - last["vel_z"]) / world.dt, abs=1e-3)
    assert frame["accel_x"] == pytest.approx((frame["vel_x"] - last["vel_x"]) / world.dt, abs=1e-3)
    # Position moves by the velocity, turned from the body's frame to the world's.
    yaw = math.radians((frame["yaw"] + last["yaw"]) / 2)
    dz = world.dt * (frame["vel_z"] * math.cos(yaw) - frame["vel_x"] * math.sin(yaw))
    assert frame["pos_z"] - last["pos_z"] == pytest.approx(dz, abs=2e-3)
    # The left wheels go the longer way round.
    assert frame["front_left_odom"] > frame["front_right_odom"] > 0
    assert frame["rear_left_odom"] == frame["front_left_odom"]


def test_in_reverse_the_speed_is_positive_and_the_velocity_is_not(track: Scene) -> None:
    world = entered(track)
    for _ in range(20):
        frame = told(world, Control(0.0, -0.5))
    assert frame["speed"] > 0.3
    assert frame["vel_z"] == pytest.approx(-frame["speed"], abs=1e-3)


def test_uphill_the_nose_points_up() -> None:
    world = entered(find_scene("mountain_track"), CamConfig(img_w=16, img_h=16))
    slopes, pitches, before = [], [], told(world)
    for _ in range(200):
        frame = told(world, steered(before, before, 1.6))
        rise = frame["pos_y"] - before["pos_y"]
        run = math.hypot(frame["pos_x"] - before["pos_x"], frame["pos_z"] - before["pos_z"])
        if run > 0.03:
            slopes.append(math.degrees(math.atan(rise / run)))
            pitches.append((frame["pitch"] + 180) % 360 - 180)
        before = frame
    assert max(slopes) > 2
    assert np.corrcoef(slopes, pitches)[0, 1] < -0.9


def test_the_car_is_the_tasks_car(track: Scene) -> None:
    """The same commands as in the task lead to the same places."""
    env = BatchEnv(DonkeyTask(DonkeyConfig(sensor="telemetry", max_cte=100.0)), 1)
    env.reset()
    world = entered(track)
    for turn in range(60):
        action = (0.3 * math.sin(turn / 8), 0.4)
        step = env.step(torch.tensor([action]))
        frame = told(world, Control(*action))
    x, y, _ = step.metrics["pos"][0].tolist()
    assert (frame["pos_x"], frame["pos_z"]) == (
        pytest.approx(x, abs=1e-4),
        pytest.approx(y, abs=1e-4),
    )
    assert frame["cte"] == pytest.approx(float(step.metrics["cte"]), abs=1e-3)


def test_the_brake_brakes_and_holds(track: Scene) -> None:
    world = entered(track)
    for _ in range(40):
        rolling = told(world, Control(0.0, 0.5))
    for _ in range(40):
        standing = told(world, Control(0.0, 0.0, 1.0))
    assert rolling["speed"] > 1
    assert standing["speed"] == 0
    hill = entered(find_scene("mountain_track"))
    first = told(hill)
    for _ in range(60):
        last = told(hill)
    assert (last["pos_x"], last["pos_z"]) == (first["pos_x"], first["pos_z"])


def test_time_is_simulated_and_frames_are_numbered(track: Scene) -> None:
    world = entered(track)
    frames = [told(world, Control(0.0, 0.1)) for _ in range(10)]
    assert np.diff([frame["time"] for frame in frames]) == pytest.approx(0.05)
    assert np.diff([frame["frame"] for frame in frames]).tolist() == [1] * 9
    again = told(world, step=False)
    assert (again["frame"], again["time"]) == (frames[-1]["frame"], frames[-1]["time"])


# --- Being put somewhere ---


def test_after_a_reset_the_car_stands_at_its_start(track: Scene) -> None:
    world = entered(track)
    start = told(world)
    for _ in range(40):
        far = told(world, Control(0.3, 0.6))
    fresh = told(world, Control(1.0, 1.0), ResetCar(), Control(1.0, 1.0))
    assert math.hypot(far["pos_x"] - start["pos_x"], far["pos_z"] - start["pos_z"]) > 1
    for name in ("pos_x", "pos_z", "yaw", "cte", "activeNode", "speed", "accel_z", "gyro_y"):
        assert fresh[name] == pytest.approx(start[name], abs=1e-5), name
    assert fresh["episode"] == start["episode"] + 1
    assert fresh["frame"] == far["frame"] + 1
    assert fresh["time"] > far["time"]
    assert told(world)["speed"] > 0  # the control after the reset holds


def test_without_a_control_after_a_reset_the_brake_holds(track: Scene) -> None:
    world = entered(track)
    for _ in range(20):
        told(world, Control(0.3, 0.6))
    told(world, ResetCar())
    for _ in range(20):
        frame = told(world)
    assert (frame["speed"], frame["throttle"], frame["steering_angle"]) == (0, 0, 0)


def test_positions_are_set_in_raw_units_and_read_in_metres(track: Scene) -> None:
    world = entered(track)
    half = math.radians(120) / 2
    frame = told(world, SetPosition(60.0, 0.0, 70.0, 0.0, math.sin(half), 0.0, math.cos(half)))
    assert (8 * frame["pos_x"], 8 * frame["pos_z"]) == (pytest.approx(60), pytest.approx(70))
    assert frame["yaw"] == pytest.approx(120, abs=1e-2)
    kept = told(world, SetPosition(61.0, 0.0, 70.0))
    assert kept["yaw"] == pytest.approx(120, abs=1e-2)
    nowhere = told(world, SetPosition(1e30, 0.0, 0.0))
    assert (8 * nowhere["pos_x"], nowhere["episode"]) == (pytest.approx(61), kept["episode"])


def test_a_node_is_where_it_says(track: Scene) -> None:
    world = entered(track)
    (answer,) = world.play([Order(0, (GetNodePosition(37),))])
    (node,) = [json.loads(report) for report in answer.reports]
    names = ("Qx", "Qy", "Qz", "Qw")
    turn = [node[name] for name in names]
    frame = told(world, SetPosition(node["pos_x"], node["pos_y"], node["pos_z"], *turn))
    assert frame["cte"] == pytest.approx(0, abs=0.01)
    assert frame["activeNode"] in (36, 37)
    assert frame["yaw"] == pytest.approx(
        math.degrees(2 * math.atan2(node["Qy"], node["Qw"])) % 360, abs=0.01
    )
    for index in (-1, track.track.num_points):
        (answer,) = world.play([Order(0, (GetNodePosition(index),))])
        assert answer.reports == []


def test_in_the_menu_there_is_no_car(track: Scene) -> None:
    world = World(2)
    (answer,) = world.play([Order(0, (Control(0.0, 1.0), ResetCar()))])
    assert (answer.reports, answer.telemetry) == ([], None)
    (answer,) = world.play([Order(0, (Arrival(track, anew=True),))])
    assert [json.loads(report)["msg_type"] for report in answer.reports] == ["car_loaded"]
    (answer,) = world.play([Order(0, (ExitScene(),))])
    assert answer.telemetry is None


def test_cars_know_nothing_of_each_other(track: Scene, hall: Scene) -> None:
    """A car in company drives as it does alone."""
    alone, company = entered(track), entered(track)
    company.play([Order(1, (Arrival(hall, anew=True),))])
    for turn in range(30):
        control = Control(0.2 * math.sin(turn / 5), 0.4)
        single = told(alone, control)
        answers = company.play([Order(1, (Control(-0.5, 0.6),)), Order(0, (control,))])
    together = json.loads(answers[1].telemetry or b"")
    single.pop("image"), together.pop("image")
    assert together == pytest.approx(single, abs=1e-5)
    company.play([Order(1, (ExitScene(),))])
    company.vacate(1)
    assert told(company)["frame"] == told(alone)["frame"]


# --- Laps and walls ---


def lap_lines(world: World, steps: int) -> list[dict[str, Any]]:
    """Crossings of start lines in so many steps of careful driving."""
    lines, before = [], seen(world)
    for _ in range(steps):
        frame = seen(world)
        (answer,) = world.play([Order(0, (steered(frame, before),), look=False)])
        lines += [json.loads(report) for report in answer.lines]
        before = frame
    return lines


def seen(world: World) -> dict[str, float]:
    """What the driver needs, without a picture."""
    (reading,) = world.fleet.read([0])
    return {"cte": -reading.n / UNIT, "speed": math.hypot(reading.vx, reading.vy)}


def test_a_lap_is_told_with_the_time_it_took(short: Scene) -> None:
    lines = lap_lines(entered(short), 450)
    assert [line["starting_line_index"] for line in lines] == [0, 0, 0]
    assert list(lines[0]) == ["msg_type", "starting_line_index", "timeStamp"]
    first, second, third = (line["timeStamp"] for line in lines)
    assert 0 < first < 1.5  # as soon as the car has left its start
    length = short.track.length
    assert length / 1.0 < second - first < length / 0.7
    assert third - second == pytest.approx(second - first, abs=0.6)


def test_two_lines_are_told_apart() -> None:
    scene = find_scene("roboracingleague_1")
    world = entered(scene)
    assert [line["starting_line_index"] for line in lap_lines(world, 30)] == [0]
    node = node_position(scene.track, round(scene.track.starts[1].s / scene.track.spacing))
    assert node is not None
    told(world, SetPosition(node.pos_x, node.pos_y, node.pos_z, 0.0, node.qy, 0.0, node.qw))
    assert [line["starting_line_index"] for line in lap_lines(world, 30)] == [1]


def test_circling_and_reversing_over_the_line_make_no_laps(short: Scene) -> None:
    world = entered(short)
    crossings = 0
    for turn in range(500):
        control = Control(1.0, 0.3) if turn < 250 else Control(0.0, 0.5 if turn // 40 % 2 else -0.5)
        (answer,) = world.play([Order(0, (control,), look=False)])
        crossings += len(answer.lines)
    assert crossings <= 1


def test_a_reset_begins_the_lap_anew(short: Scene) -> None:
    world = entered(short)
    assert len(lap_lines(world, 120)) == 1
    told(world, ResetCar())
    assert len(lap_lines(world, 120)) == 1


def test_a_wall_stops_the_car_and_is_told_once(hall: Scene) -> None:
    world = entered(hall)
    hits, errors = [], []
    for _ in range(200):
        frame = told(world, Control(0.2, 0.4))
        hits.append(frame["hit"])
        errors.append(frame["cte"])
    assert hits.count("wall") == 1
    assert hits.count("none") == 199
    edge = (float(hall.track.width_right[0]) + (hall.track.wall_gap or 0)) / UNIT
    assert 4 < max(errors) < edge
    assert told(world, ResetCar())["hit"] == "none"


def test_a_hit_is_kept_for_one_who_did_not_look(hall: Scene) -> None:
    world = entered(hall)
    for _ in range(100):
        world.play([Order(0, (Control(0.2, 0.4),), look=False)])
    assert told(world)["hit"] == "wall"
    assert told(world)["hit"] == "none"


# --- Cameras and lidar ---


def test_pictures_have_the_size_and_channels_that_were_asked_for(track: Scene) -> None:
    world = entered(track)
    assert picture(told(world)["image"]).shape == (120, 160, 3)
    grey = told(world, CamConfig(img_w=64, img_h=48, img_d=1, img_enc="PNG"))
    seen = picture(grey["image"])
    assert seen.shape == (48, 64, 3)
    assert (seen[..., 0] == seen[..., 1]).all()
    assert (seen[..., 0] == seen[..., 2]).all()
    with Image.open(io.BytesIO(base64.b64decode(grey["image"]))) as image:
        assert image.format == "PNG"
    colour = told(world, CamConfig(img_d=3, img_enc="TGA"))
    assert picture(colour["image"]).shape == (48, 64, 3)
    clamped = told(world, CamConfig(img_w=9000, img_h=1))
    assert picture(clamped["image"]).shape == (16, 512, 3)


def test_the_picture_is_the_tasks_picture(track: Scene) -> None:
    env = BatchEnv(DonkeyTask(DonkeyConfig()), 1)
    seen = env.reset()[0].numpy()
    frame = told(entered(track, CamConfig(img_enc="PNG")))
    assert np.abs(picture(frame["image"]).astype(int) - seen).max() <= 1


def test_nothing_asked_for_changes_nothing() -> None:
    assert mounted(CAMERA_A, CamConfig()) == CAMERA_A
    once = mounted(CAMERA_A, CamConfig(fov=60.0, img_w=64, img_h=48))
    assert mounted(once, CamConfig()) == once
    assert mounted(once, CamConfig(img_w=20)) == once  # a size needs both sides


def test_offsets_and_rotations_replace_each_other_as_groups() -> None:
    moved = mounted(CAMERA_B, CamConfig(offset_y=2.0))
    assert (moved.right, moved.lens.up, moved.lens.forward) == (0.0, 0.25, 0.0)
    turned = mounted(moved, CamConfig(rot_y=30.0))
    assert turned.lens.pitch == 0.0
    assert turned.turn == pytest.approx(-math.radians(30))
    assert turned.lens.up == 0.25
    assert mounted(CAMERA_A, CamConfig(rot_x=355.0)).lens.pitch == -5.0


def test_the_second_camera_travels_under_both_names(track: Scene) -> None:
    world = entered(track)
    assert "imageb" not in told(world)
    frame = told(world, CamConfigB(img_w=32, img_h=24))
    assert frame["imageb"] == frame["image_b"]
    assert picture(frame["imageb"]).shape == (24, 32, 3)
    assert picture(frame["image"]).shape == (120, 160, 3)


def test_the_lidar_measures_to_the_walls(hall: Scene) -> None:
    frame = told(entered(hall, LidarConfig(offset_y=0.5, offset_z=0.1)))
    by_angle = {point["rx"]: point["d"] for point in frame["lidar"]}
    assert all(0 <= angle < 360 for angle in by_angle)
    assert len(by_angle) <= 180
    aside = [by_angle[90.0], by_angle[270.0]]
    gap = (hall.track.wall_gap or 0) / UNIT
    right = float(hall.track.width_right[0]) / UNIT + gap
    left = float(hall.track.width_left[0]) / UNIT + gap
    assert aside == [pytest.approx(right, abs=0.2), pytest.approx(left, abs=0.2)]
    assert by_angle[90.0] == round(by_angle[90.0], 2)


def test_a_lidar_that_looks_down_meets_the_ground(track: Scene) -> None:
    config = LidarConfig(deg_ang_down=30.0, deg_ang_delta=-10.0, num_sweeps_levels=2, offset_y=1.0)
    points = told(entered(track, config))["lidar"]
    levels = {ry: [p["d"] for p in points if p["ry"] == ry] for ry in (0.0, -10.0)}
    assert max(levels[0.0]) == pytest.approx(1 / math.sin(math.radians(30)), abs=0.01)
    assert max(levels[-10.0]) == pytest.approx(1 / math.sin(math.radians(20)), abs=0.01)


def test_a_lidar_with_a_short_range_says_nothing(hall: Scene) -> None:
    assert told(entered(hall, LidarConfig(max_range=1.0)))["lidar"] is None


# --- Nonsense ---


def test_no_numbers_whatever_break_the_world(hall: Scene) -> None:
    """Commands that can be read but make no sense; telemetry stays telemetry."""
    draw = random.Random(0)
    numbers = (0, 1, -1, 0.5, 90, -360, 16, 64, 100, 1e-9, 1e5, -1e9, 1e300)
    kinds = [COMMANDS[name] for name in sorted(COMMANDS) if name != "exit_scene"]
    world = entered(hall)
    for _ in range(60):
        commands = []
        for kind in draw.choices(kinds, k=4):
            names = [f.metadata.get("wire", f.name) for f in fields(kind)]
            values = {name: str(draw.choice(numbers)) for name in names if draw.random() < 0.7}
            with suppress(BadMessage):
                command = read_command({"msg_type": kind.msg_type, **values})
                assert command is not None
                commands.append(command)
        frame = told(world, *commands)
        numeric = [value for value in frame.values() if isinstance(value, float)]
        assert all(math.isfinite(value) for value in numeric)
        assert picture(frame["image"]).shape[2] == 3


# --- Scenes ---


def test_a_family_is_a_scene_too() -> None:
    frame = told(entered(find_scene("circuit:17")))
    assert abs(frame["cte"]) < 0.1
