"""Many tracks by one word."""

import pytest

from hotlap.sim.tracks import NAMES, find_track
from hotlap.sim.tracks.families import DONKEY_HALF_WIDTH
from hotlap.sim.tracks.selection import (
    chosen_tracks,
    expand,
    is_group,
    kept_apart,
    refuse_choosing_by,
    refuse_kept_apart,
    some_of,
)


def test_all_is_the_eleven_scenes() -> None:
    assert chosen_tracks(["all"]) == NAMES and len(NAMES) == 11


def test_a_range_counts_both_its_ends() -> None:
    assert chosen_tracks(["circuit:9-11"]) == ("circuit:9", "circuit:10", "circuit:11")
    assert len(chosen_tracks(["hills:100-199"])) == 100


def test_a_track_named_twice_is_driven_once() -> None:
    assert chosen_tracks(["circuit:2", "circuit:1-3", "warren", "all"])[:4] == (
        "circuit:2", "circuit:1", "circuit:3", "warren",
    )  # fmt: skip
    assert len(chosen_tracks(["warren", "all"])) == 11


@pytest.mark.parametrize("word", ["circuit:3-", "circuit:-3", "circuit:a-b", "circuit:5-4"])
def test_what_is_no_range_is_refused(word: str) -> None:
    with pytest.raises(ValueError, match="range"):
        chosen_tracks([word])


def test_a_range_that_would_fill_the_memory_is_refused() -> None:
    with pytest.raises(ValueError, match="1 to 3000 tracks, this one 3001"):
        chosen_tracks(["circuit:0-3000"])


def test_a_width_scales_a_generated_track() -> None:
    usual, wide = find_track("circuit:3"), find_track("circuit:3@1.25")
    assert wide.name == "circuit:3@1.25" and wide.half_width == 2 * usual.half_width
    assert wide.length == pytest.approx(2 * usual.length)
    assert expand(["hills:4-5@0.8"]) == ("hills:4@0.8", "hills:5@0.8")
    assert kept_apart("circuit:90000@0.8") and not kept_apart("circuit:3@0.8")
    with pytest.raises(ValueError, match="for judging only"):
        refuse_kept_apart(["hills:89999-90000@1.0"])


@pytest.mark.parametrize("width", ["", "0.5", "11", "x", "-1", "1e0", "nan", "1@2", "\u0661"])
def test_a_width_that_is_none_is_refused(width: str) -> None:
    with pytest.raises(ValueError, match=r"a number from 0.6 to 10 metres, such as circuit:3@0.8"):
        find_track(f"circuit:3@{width}")


def test_a_name_is_no_group() -> None:
    assert not any(is_group(word) for word in ("warren", "circuit:7", "my-road.csv", "a:1-2"))


def test_unseen_is_a_hundred_closed_generated_tracks_that_are_all_kept_apart() -> None:
    names = chosen_tracks(["unseen"])
    assert len(names) == 100 and is_group("unseen")
    assert {name.partition(":")[0] for name in names} == {"circuit", "hills"}
    assert all(kept_apart(name) for name in names)
    for name in names[::25]:
        track = find_track(name)
        assert track.closed and track.half_width == DONKEY_HALF_WIDTH


@pytest.mark.parametrize(
    ("name", "apart"),
    [
        ("circuit:89999", False),
        ("circuit:90000", True),
        ("hills:090000", True),
        ("road:123456", True),
        ("warren", False),
        ("my:90000.csv", False),
    ],
)
def test_a_generated_track_is_kept_apart_by_its_number(name: str, apart: bool) -> None:
    assert kept_apart(name) is apart


@pytest.mark.parametrize(
    "words", [["unseen"], ["warren", "loop:90000"], ["circuit:89990-90000"], ["hills:0100000"]]
)
def test_training_on_what_is_kept_apart_is_refused_with_what_to_write(words: list[str]) -> None:
    with pytest.raises(ValueError, match=r"from number 90000 up are for judging only.*:0-199"):
        refuse_kept_apart(words)


def test_everything_else_may_be_trained_on() -> None:
    words = ["all", "circuit:89900-89999", "road:3"]
    refuse_kept_apart(words)
    assert not any(kept_apart(name) for name in expand(words))


def test_words_are_expanded_in_their_order_and_a_name_twice_weighs_twice() -> None:
    assert expand(["warren", "hills:1-2", "warren"]) == ("warren", "hills:1", "hills:2", "warren")
    with pytest.raises(ValueError, match="at most 3000 tracks fit in memory at once, these are"):
        expand(["circuit:0-1599", "hills:0-1599"])


def test_some_of_many_are_chosen_evenly() -> None:
    names = expand(["circuit:0-99"])
    assert some_of(names, 4) == ("circuit:0", "circuit:25", "circuit:50", "circuit:75")
    assert some_of(names[:3], 10) == names[:3] and some_of((), 10) == ()


def test_a_track_may_be_there_several_times_and_is_judged_once() -> None:
    assert expand(["warren*3", "circuit:1-2*2"]) == (
        "warren", "warren", "warren", "circuit:1", "circuit:2", "circuit:1", "circuit:2",
    )  # fmt: skip
    assert chosen_tracks(["warren*3"]) == ("warren",) and is_group("warren*3")
    with pytest.raises(ValueError, match="judging only"):
        refuse_kept_apart(["circuit:90000*2"])


@pytest.mark.parametrize("word", ["warren*", "*8", "warren*0", "warren*x", "warren*-1", "*"])
def test_what_is_no_number_of_times_is_refused_with_what_to_write(word: str) -> None:
    with pytest.raises(ValueError, match=r"is written \w+\*8"):
        expand([word])


def test_times_do_not_fill_the_memory() -> None:
    for word in ("warren*3001", "circuit:0-2999*2", "warren*3000*3000*3000"):
        with pytest.raises(ValueError, match="3000"):
            expand([word])


def test_no_policy_is_chosen_by_what_is_kept_apart() -> None:
    refuse_choosing_by(["circuit:80000", "warren"])
    with pytest.raises(ValueError, match=r"hills:90001.*hills:80000-80063"):
        refuse_choosing_by(["warren", "hills:90001"])
