"""The page about a study, from a ledger made up for it."""

from pathlib import Path
from typing import Any

from hotlap.report.study_report import render, write_report
from hotlap.store.ledger import Ledger

PARAMS = {"a": {"rate": 0.00123456, "agent": "ppo"}, "b": {"rate": 0.1, "agent": "dqn"}}


def trial(number: int, config: str, score: float | None, role: str = "explore") -> dict[str, Any]:
    status = "ok" if score is not None else "timeout"
    reason = None if score is not None else "it ran past 360 s\nlast lines: ..."
    return {
        "kind": "trial", "trial": number, "params": PARAMS[config], "config": config,
        "seed": number, "role": role, "mean_reward": score, "run_status": status,
        "reason": reason, "elapsed_sec": 1800.0,
    }  # fmt: skip


def title(after: int, verdict: str) -> dict[str, Any]:
    return {
        "kind": "title", "after": after, "verdict": verdict, "config": "a", "params": PARAMS["a"],
        "reason": f"because of {after}", "mean": 70.0, "low": 60.0, "high": 80.0, "runs": 3,
        "probability": None, "before": None,
    }  # fmt: skip


def standing(after: int) -> dict[str, Any]:
    return {"kind": "standing", "after": after, "held": 0, "leader": "a", "within": 0.3}


CERTIFICATE = {
    "kind": "certificate", "after": 5,
    "finalists": [
        {"config": "a", "params": PARAMS["a"], "champion": True, "claimed": 70.0, "tested": 64.5,
         "iqm": 64.5, "low": 61.0, "high": 68.0, "runs": 2, "optimism": 5.5},
        {"config": "b", "params": PARAMS["b"], "champion": False, "claimed": None, "tested": 40.0,
         "iqm": 40.0, "low": 39.0, "high": 41.0, "runs": 2, "optimism": None},
    ],
}  # fmt: skip
NIGHT: list[dict[str, Any]] = [
    trial(1, "a", 75.0), standing(1), trial(2, "b", 45.0), standing(2), trial(3, "b", None),
    trial(4, "a", 65.0, "confirm"), title(4, "promoted"), standing(4), title(5, "refused"),
    {"kind": "push", "ok": False, "reason": "the remote said no"},
    {"kind": "stop", "after": 4, "reason": "budget: 4 trials"},
    trial(5, "a", 64.5, "test"), CERTIFICATE,
]  # fmt: skip


def test_the_page_names_the_champion_its_optimism_and_what_went_wrong() -> None:
    page = render(NIGHT, "night")
    assert page.startswith(
        "# night\n\n5 runs, 2.50 hours of running in all. Ended by budget: 4 trials."
    )
    assert "**Champion a**: rate 0.00123, agent ppo." in page
    assert (
        "Claimed 70.00; on 2 seeds that nothing had touched it scored 64.50 [61.00, 68.00]: "
        "optimism +5.50." in page
    )
    assert "| **a** | 70.00 | 64.50 | 61.00 to 68.00 | 5.50 | 2 |" in page
    assert "| b | - | 40.00 | 39.00 to 41.00 | - | 2 |" in page
    assert "| a | 70.00 | 2 | 75, 65 | rate 0.00123, agent ppo |" in page  # tests do not count
    assert "- after trial 4: a **promoted**: because of 4" in page
    assert "- after trial 5: a **refused**: because of 5" in page
    assert "- trial 3, timeout: it ran past 360 s: last lines: ...\n" in page
    assert "- push failed: the remote said no" in page


def test_before_the_last_test_the_page_says_so() -> None:
    page = render([trial(1, "a", 75.0), title(1, "promoted")], "night")
    assert "Not at an end." in page
    assert (
        "Claimed 70.00 [60.00, 80.00] over 3 fresh seeds when it took the title; not tested."
        in page
    )
    assert "## On untouched seeds" not in page


def test_a_long_list_of_titles_is_shortened() -> None:
    page = render([title(after, "refused") for after in range(1, 31)], "night")
    assert "The last 12 of 30:" in page
    assert "after trial 18:" not in page
    assert "after trial 19:" in page


def test_what_was_shown_is_a_table() -> None:
    row = {"mean_return": 12.0, "lap_rate": 0.5, "best_lap_time": None}
    shown = {
        "kind": "shown", "after": 5, "gap": 2.0,
        "trained": {"tracks": {"warren": row}},
        "unseen": {"tracks": {"loop:7": row | {"lap_rate": None, "best_lap_time": 7.25}}},
    }  # fmt: skip
    page = render([*NIGHT, shown], "night")
    assert "| warren | trained | 12.00 | 50 % | - |" in page
    assert "| loop:7 | unseen | 12.00 | - | 7.25 |" in page


def write(records: list[dict[str, Any]], folder: Path) -> Path:
    with Ledger.create(folder / "ledger.jsonl", {"space": {}}) as ledger:
        for record in records:
            ledger.append(**record)
    return write_report(folder)


def test_the_page_and_its_picture_are_written(tmp_path: Path) -> None:
    page = write(NIGHT, tmp_path / "night")
    assert page == tmp_path / "night" / "report.md"
    assert page.read_text().startswith("# night\n")
    assert (tmp_path / "night/report/history.png").read_bytes().startswith(b"\x89PNG")
    assert write_report(tmp_path / "night") == page  # again, over the old one


def test_a_study_that_has_only_begun_has_a_page_too(tmp_path: Path) -> None:
    text = write([], tmp_path).read_text()
    assert "0 runs" in text
    assert "Nobody holds the title." in text
    assert (tmp_path / "report/history.png").exists()


def test_a_study_of_failures_only_has_a_page_too(tmp_path: Path) -> None:
    text = write([trial(1, "a", None)], tmp_path).read_text()
    assert "What went wrong" in text
    assert "Best configurations" not in text
