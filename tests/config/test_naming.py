from hotlap.config.naming import nearest

TRACKS = ["thunderhill", "generated_track", "mini_monaco"]


def test_a_misspelt_word_is_answered_with_the_one_that_was_meant() -> None:
    assert nearest("generated_trak", TRACKS, "track") == (
        "unknown track 'generated_trak'; did you mean 'generated_track'? "
        "available: generated_track, mini_monaco, thunderhill"
    )


def test_case_and_missing_parts_are_forgiven() -> None:
    assert "did you mean 'thunderhill'?" in nearest("ThunderHill", TRACKS, "track")
    assert "did you mean 'mini_monaco'?" in nearest("monaco", TRACKS, "track")


def test_nothing_is_guessed_when_nothing_is_near() -> None:
    assert nearest("zzz", ["a"], "verb") == "unknown verb 'zzz'; available: a"
    assert nearest("zzz", [], "verb") == "unknown verb 'zzz'; available: none"
