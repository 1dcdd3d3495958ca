"""A GPU sees and measures what a CPU does. Left out where there is no GPU."""

import dataclasses

import numpy as np
import pytest
import torch
from torch import Tensor

from hotlap.config.sensors import CameraConfig, LidarConfig, TopDownConfig
from hotlap.sim.camera import View, draw_forward
from hotlap.sim.fields import survey
from hotlap.sim.lidar import cast_road
from hotlap.sim.looks import make_looks
from hotlap.sim.optics import add_noise, blur, make_strip
from hotlap.sim.random import Stream, make_key
from hotlap.sim.roads import lay_out, pose_on
from hotlap.sim.topdown import draw_topdown
from hotlap.sim.tracks.catalogue import find_track
from hotlap.sim.uprights import make_uprights, with_rivals

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")


def sense(device: str) -> dict[str, Tensor]:
    """Every sensor once, on mini_monaco with a cone and a rival ahead of eight cars."""
    track = find_track("mini_monaco")
    track = dataclasses.replace(track, cones=np.array(track.xy[40:42]))
    roads = lay_out([track], device)
    fields, looks = survey(roads), make_looks((track.style,), device=device)
    s = torch.linspace(0.0, 50.0, 8, device=device)
    zero, road = torch.zeros_like(s), torch.zeros(8, dtype=torch.int64, device=device)
    x, y, heading, _ = pose_on(roads, road, s, zero)
    rivals = torch.stack(pose_on(roads, road, s + 1.0, zero + 0.2)[:3], -1).unsqueeze(1)
    uprights = with_rivals(make_uprights(roads, fields), rivals, (0.35, 0.2, 0.13))
    view = View(x, y, zero, heading, zero, road, road, zero + 0.14, zero + 0.26, zero + 1)
    config = CameraConfig()
    pictures = draw_forward(config, fields, looks, view, uprights=uprights).contiguous()
    strip = make_strip(config.height, config.width, 3, device)
    level = torch.full((8, 120, 160, 3), 128, dtype=torch.uint8, device=device)
    key = make_key(torch.arange(8, device=device), Stream.IMAGE)
    pose = [part.unsqueeze(1) for part in (road, x, y, heading)]
    return {
        "forward": pictures,
        "topdown": draw_topdown(TopDownConfig(), fields, looks, road, road, x, y, heading),
        "optics": blur(add_noise(level, strip, zero + 8.0, key), zero + 0.5),
        "lidar": cast_road(LidarConfig(), fields, *pose),
    }


def test_all_sensors_agree() -> None:
    cpu, gpu = sense("cpu"), {name: part.cpu() for name, part in sense("cuda").items()}
    assert torch.equal(gpu["optics"], cpu["optics"])
    for name in ("forward", "topdown"):
        assert (gpu[name] != cpu[name]).float().mean().item() < 0.01
    # A beam that grazes an edge may end far from where it ends after another rounding.
    close = (gpu["lidar"] - cpu["lidar"]).abs() < 0.001
    assert close.float().mean().item() > 0.98


def test_a_step_of_all_sensors_can_be_captured() -> None:
    sense("cuda")
    roads = lay_out([find_track("mini_monaco")], "cuda")
    fields = survey(roads)
    road = torch.zeros(4, 1, dtype=torch.int64, device="cuda")
    x, y, heading, _ = pose_on(roads, road, torch.zeros(4, 1, device="cuda"), road * 0.0)
    looks = make_looks(("circuit",), device="cuda")
    uprights, zero, flat = make_uprights(roads, fields), x[:, 0] * 0.0, road[:, 0]
    pose = (x[:, 0], y[:, 0], zero, heading[:, 0], zero)
    view = View(*pose, flat, flat, zero + 0.14, zero + 0.26, zero + 1)

    def step() -> tuple[Tensor, Tensor]:
        picture = draw_forward(CameraConfig(), fields, looks, view, uprights=uprights)
        return picture, cast_road(LidarConfig(), fields, road, x, y, heading)

    plain = [part.clone() for part in step()]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step()
    graph.replay()
    assert all(torch.equal(a, b) for a, b in zip(plain, captured, strict=True))
