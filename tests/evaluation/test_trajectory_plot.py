from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from hotlap.config.runs import EvaluationConfig
from hotlap.evaluation.crashes import Crashes, Spot
from hotlap.evaluation.judge import Drive, judge_drives
from hotlap.evaluation.trajectory_plot import draw_drives, draw_every_track
from hotlap.records import EpisodeResult
from hotlap.sim.tracks import find_track

from ..sim.roads_drawn import circle, straight
from .scripted import Scripted

CRASHED = EpisodeResult(identity=0, seed=0, episode_return=1.0, length=9, end="crashed")
RED = (255, 59, 48)


def drive(end: str) -> Drive:
    xy = np.stack([np.linspace(0, 2, 9), np.linspace(3, 4.5, 9)], axis=1)
    return Drive(replace(CRASHED, end=end), xy, *np.linspace((0, 0, -1), (2, 2, -1), 9).T)


def pixels(path: Path) -> np.ndarray:
    with Image.open(path) as picture:
        return np.asarray(picture.convert("RGB"))


def shows(path: Path, colour: tuple[int, int, int]) -> bool:
    return bool((pixels(path) == colour).all(-1).any())


def test_every_track_has_its_picture(tmp_path: Path) -> None:
    tracks = ("generated_track", "circuit:3")
    pilot = Scripted("pure_pursuit", tracks, max_steps=30)
    _, drives = judge_drives(pilot, pilot.make_env, tracks, EvaluationConfig(episodes=3))
    paths = draw_every_track(drives, tmp_path / "plots")
    assert [path.name for path in paths] == ["generated_track.png", "circuit-3.png"]
    assert all(pixels(path).shape[1] > 500 for path in paths)


def test_crashes_are_marked(tmp_path: Path) -> None:
    crashed = draw_drives(circle(), [drive("crashed")], tmp_path / "crashed.png")
    fine = draw_drives(circle(), [drive("time"), drive("time")], tmp_path / "fine.png")
    assert shows(crashed, RED)
    assert not shows(fine, RED)


def test_spots_of_many_crashes_are_painted_on_the_road(tmp_path: Path) -> None:
    track, plain = circle(), [drive("time")]
    spot = Spot(s=0.0, width=0.5, count=3)  # on either side of the start
    crashes = Crashes(count=4, pattern="same spot", places=(0.1, 0.2, 5.0, 18.7), spots=(spot,))
    painted = draw_drives(track, plain, tmp_path / "painted.png", crashes=crashes)
    assert shows(painted, RED)
    before = pixels(draw_drives(track, plain, tmp_path / "plain.png"))
    changed = (pixels(painted) != before).any(-1)
    rows = changed[len(changed) // 5 :].any(1).nonzero()[0]  # below the title
    assert 0 < len(rows) < len(changed) / 3  # a stretch of the road and no more


def test_a_drive_of_a_single_step_on_an_open_road_can_be_drawn(tmp_path: Path) -> None:
    short = Drive(CRASHED, np.zeros((1, 2)), *np.zeros((3, 1)))
    assert shows(draw_drives(straight(), [short], tmp_path / "short.png"), RED)


@pytest.mark.parametrize("name", ["warehouse", "thunderhill", "circuit:1"])
def test_the_header_fits_on_the_paper_of_a_narrow_track(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    track = find_track(name)
    crash = drive("crashed")
    lapped = replace(crash.episode, episode_return=12345.6, lap_times=(64.1, 71.0))
    spots = (Spot(s=1.0, width=0.5, count=13), Spot(s=10.0, width=0.5, count=12))
    crashes = Crashes(count=25, pattern="spread", places=(1.0, 10.0), spots=spots)
    own = replace(crash, episode=lapped, xy=track.xy[:9])
    path = draw_drives(track, [own] * 32, tmp_path / "narrow.png", crashes=crashes)
    margin = pixels(path)[:, -30:]  # 0.2 inches at the right
    assert (margin == margin[0, 0]).all()
    assert not caplog.records  # of matplotlib, about limits that it cannot keep


def test_nothing_is_not_drawn(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no drives on drawn"):
        draw_drives(circle(), [], tmp_path / "none.png")
