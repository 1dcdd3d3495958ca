"""Surveys of tracks, and which of them are kept."""

import dataclasses

import torch

from hotlap.sim import fields
from hotlap.sim.fields import survey
from hotlap.sim.looks import make_looks
from hotlap.sim.roads import lay_out

from .roads_drawn import circle, straight


def test_the_same_tracks_are_surveyed_once_for_all_tasks() -> None:
    assert survey(lay_out([circle(), straight()])) is survey(lay_out([circle(), straight()]))


def test_tracks_that_differ_in_anything_a_survey_asks_for_are_surveyed_anew() -> None:
    track = straight()
    changes = (
        {"xy": track.xy + 0.5},
        {"width_left": track.width_left + 0.1},
        {"width_right": track.width_right + 0.1},
        {"z": track.z + track.xy[:, 0] / 20},
        {"closed": True},
    )
    for change in changes:
        plain, other = survey(lay_out([track])), dataclasses.replace(track, **change)
        assert survey(lay_out([other])) is not plain


def test_only_the_latest_surveys_are_kept() -> None:
    first = survey(lay_out([circle(2.0)]))
    for count in range(fields.SURVEYS_KEPT):
        assert survey(lay_out([circle(2.0)])) is first  # asked for again, so it stays
        survey(lay_out([circle(2.1 + 0.1 * count)]))
    for count in range(fields.SURVEYS_KEPT):
        survey(lay_out([circle(3.1 + 0.1 * count)]))
    assert survey(lay_out([circle(2.0)])) is not first


def test_a_track_that_is_there_twice_has_two_equal_grids() -> None:
    twice = survey(lay_out([circle(), circle()]))
    size = len(twice.patches) // 2
    assert twice.first.tolist() == [0, size]
    assert torch.equal(twice.patches[:size], twice.patches[size:])


def test_climbs_are_those_of_each_track_alone() -> None:
    flat = straight()
    hilly = dataclasses.replace(flat, z=flat.xy[:, 0] * 0.1)
    assert survey(lay_out([flat, hilly])).climbs.tolist() == [0.0, survey(lay_out([hilly])).climbs]
    assert abs(float(survey(lay_out([hilly])).climbs) - 0.1) < 1e-5


def test_the_same_looks_are_painted_once() -> None:
    assert make_looks(("floor",), 1, 5) is make_looks(("floor",), 1, 5)
    assert make_looks(("floor",), 1, 6) is not make_looks(("floor",), 1, 5)
