"""Films of CarRacing: every frame is there, and shows the drive that was driven."""

from collections.abc import Callable, Generator
from pathlib import Path

import imageio_ffmpeg
import numpy as np
import pytest
import torch
from torch import Tensor

from hotlap.config.carracing import CarRacingConfig, controls
from hotlap.config.interface import InterfaceConfig
from hotlap.evaluation.carracing_film import (
    BAR_LEFT,
    BRAKE,
    FRAME,
    GAS,
    LEFT,
    SEEN,
    SIDE,
    STEERING,
    CarRacingFilm,
    Shot,
    TwinShow,
    drive_episode,
    newest,
)
from hotlap.tasks.batch import BatchEnv
from hotlap.tasks.carracing import CarRacingTask
from hotlap.tasks.interface import Interface

SHORT = CarRacingConfig(tracks=("carracing:3",), look="bars", repeat=4, max_frames=12)
FRAMES = SHORT.max_frames
GRAY = np.array([0.299, 0.587, 0.114])


def always(*action: float) -> Callable[[Tensor], Tensor]:
    return lambda seen: torch.tensor([action])


def unwritten(*args: object, **kwargs: object) -> Generator[None, np.ndarray, None]:
    """In place of ffmpeg, which takes a while to begin."""
    while True:
        yield


@pytest.fixture(scope="module")
def show() -> TwinShow:
    """One car and its show; every episode begins them anew."""
    batch = BatchEnv(CarRacingTask(SHORT), 1, seed=5)
    return TwinShow(Interface(batch, InterfaceConfig(stack=3)))


@pytest.fixture
def film(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> CarRacingFilm:
    """A film that is not written."""
    monkeypatch.setattr(imageio_ffmpeg, "write_frames", unwritten)
    return CarRacingFilm(tmp_path / "a.mp4", ["one", "two"])


def test_a_show_has_every_frame_of_a_decision_and_ends_with_what_is_seen(show: TwinShow) -> None:
    env = show.env
    env.reset()
    first = show.begin()
    assert (first.score, first.tiles, first.frames) == (0.0, 0.0, 0)
    for decision in (1, 2):
        step = env.step(torch.tensor([[0.3, 1.0]]))
        shots = show.drive(torch.tensor([[0.3, 1.0]]))
        assert [shot.frames for shot in shots] == list(range(4 * decision - 3, 4 * decision + 1))
        assert shots[-1].score == pytest.approx(float(step.episode_return), abs=1e-4)
        assert shots[-1].tiles == pytest.approx(float(step.metrics["tiles"]))
        frame = shots[-1].frame
        # Gray is drawn from maps of its own, so that it may be rounded otherwise.
        seen = newest(env, step.observation)[..., 0]
        assert np.abs(frame[:84, 6:90] @ GRAY - seen).mean() < 0.6
        assert not frame[:, :12].any() and frame[:84, 12:].any()  # in the look of the drive


def test_a_film_has_all_frames_and_a_second_of_the_score(show: TwinShow, tmp_path: Path) -> None:
    path = tmp_path / "new" / "a.mp4"
    with CarRacingFilm(path, ["a/model", "carracing:3"]) as film:
        episode = drive_episode(show.env, always(0.0, 1.0), show, film)
        film.close_with(episode.lines())
    assert (episode.end, episode.seconds) == ("out of time", FRAMES / 50)
    assert episode.score > 0
    assert imageio_ffmpeg.count_frames_and_secs(str(path))[0] == 1 + FRAMES + 50
    told = next(imageio_ffmpeg.read_frames(str(path)))
    assert told["size"] == (FRAME[0] + SIDE, FRAME[1]) and told["fps"] == 50


def test_without_a_film_an_episode_is_the_same(show: TwinShow, film: CarRacingFilm) -> None:
    filmed = drive_episode(show.env, always(0.2, 1.0), show, film)
    assert drive_episode(show.env, always(0.2, 1.0)) == filmed


def test_discrete_actions_are_filmed_as_what_they_stand_for(
    show: TwinShow, film: CarRacingFilm, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = []
    monkeypatch.setattr(film, "add", lambda shot, seen, told: done.append(told))
    env = Interface(BatchEnv(show.env.task, 1), InterfaceConfig(actions="discrete", stack=1))
    monkeypatch.setattr(show, "env", env)
    drive_episode(env, lambda seen: torch.tensor([4]), show, film)
    assert done[0] == (0.0, 0.0, 0.0)
    assert done[1:] == [(0.0, 0.0, pytest.approx(0.8))] * FRAMES


def test_a_show_of_another_drive_is_refused(
    show: TwinShow, film: CarRacingFilm, monkeypatch: pytest.MonkeyPatch
) -> None:
    forwards = show.drive
    monkeypatch.setattr(show, "drive", lambda action: forwards(-action))
    with pytest.raises(RuntimeError, match=r"the film shows a score of .*, the driver has"):
        drive_episode(show.env, always(0.0, 1.0), show, film)


def test_steering_gas_and_brake_of_an_action() -> None:
    pair = CarRacingConfig(brake=0.8)
    assert controls([0.5, 0.25], pair) == (0.5, 0.25, 0.0)
    assert controls([-2.0, -0.5], pair) == (-1.0, 0.0, 0.4)
    assert controls([0.1, 0.2, 0.3], CarRacingConfig(actions="triple")) == (0.1, 0.2, 0.3)


def test_a_frame_shows_the_picture_the_drivers_view_and_the_bars(film: CarRacingFilm) -> None:
    frame = np.zeros((96, 96, 3), np.uint8)
    frame[:, 48:] = (10, 200, 30)
    seen = np.full((84, 84, 1), 77, np.uint8)
    made = film.compose(Shot(frame, 123.4, 0.5, 100), seen, (1.0, 0.5, 0.0))
    assert made.shape == (FRAME[1], FRAME[0] + SIDE, 3)
    assert (made[100, 100] == 0).all() and (made[100, FRAME[0] - 100] == (10, 200, 30)).all()
    assert (made[200, LEFT : LEFT + SEEN] == 77).all()
    places = {
        name: np.nonzero((made == colour).all(-1))[1]
        for name, colour in (("steer", STEERING), ("gas", GAS), ("brake", BRAKE))
    }
    middle, end = (BAR_LEFT + LEFT + SEEN) / 2, LEFT + SEEN
    assert places["steer"].min() == pytest.approx(middle, abs=2)
    assert places["steer"].max() == pytest.approx(end, abs=2)
    assert (places["gas"].min(), places["gas"].max()) == pytest.approx((BAR_LEFT, middle), abs=2)
    assert len(places["brake"]) == 0
