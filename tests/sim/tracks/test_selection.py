"""Many tracks by one word."""

import pytest

from hotlap.sim.tracks import NAMES
from hotlap.sim.tracks.selection import chosen_tracks, is_group


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
    with pytest.raises(ValueError, match="1 to 1000 tracks, this one 1001"):
        chosen_tracks(["circuit:0-1000"])


def test_a_name_is_no_group() -> None:
    assert not any(is_group(word) for word in ("warren", "circuit:7", "my-road.csv", "a:1-2"))
