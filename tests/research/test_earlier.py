import json
import math
import os
from pathlib import Path
from typing import Any

import pytest

from hotlap.research import earlier
from hotlap.research.earlier import EarlierRun, read_earlier
from hotlap.research.space import make_space
from hotlap.store.ledger import Ledger

GOLDEN = Path(__file__).parents[1] / "store" / "golden"
SPACE = make_space(
    {
        "agent": {"choices": ["ppo", "dqn"]},
        "learning_rate": {"low": 1e-4, "high": 1e-2, "log": True},
        "n_steer": {"low": 3, "high": 11, "when": {"agent": "dqn"}},
        "fixed": {"envs": 32},
    }
)
PPO = {"agent": "ppo", "learning_rate": 0.002}
DQN = {"agent": "dqn", "learning_rate": 0.0003, "n_steer": 7}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "results.jsonl"


def plain(params: Any = PPO, mean_reward: Any = 0.5, **more: Any) -> dict[str, Any]:
    return {"params": params, "mean_reward": mean_reward, **more}


def written(path: Path, *lines: Any) -> Path:
    texts = (line if isinstance(line, str) else json.dumps(line) for line in lines)
    path.write_text("".join(text + "\n" for text in texts))
    return path


# --- What is read ---


def test_plain_results_of_format_0_are_read_for_ever() -> None:
    found = read_earlier(GOLDEN / "results-v0.jsonl", SPACE)
    assert found.notes == []
    assert found.records == [
        EarlierRun(PPO, 0.25, None, "ok", None),
        EarlierRun(DQN, 1.0, None, "ok", None),
        EarlierRun({"agent": "dqn", "learning_rate": 0.001, "n_steer": 5}, 0.75, None, "ok", 61.5),
        EarlierRun({"agent": "ppo", "learning_rate": 0.01}, None, None, "timeout", 360.0),
        EarlierRun({"agent": "ppo", "learning_rate": 0.003}, None, None, "failed", None),
    ]
    assert type(found.records[1].params["n_steer"]) is int


def test_a_ledger_of_format_1_is_read_for_ever_by_its_file_or_folder(tmp_path: Path) -> None:
    (tmp_path / "ledger.jsonl").write_bytes((GOLDEN / "ledger-v1.jsonl").read_bytes())
    for place in (tmp_path, tmp_path / "ledger.jsonl"):
        found = read_earlier(place, SPACE)
        assert found.notes == []
        assert found.records == [
            EarlierRun(PPO, 0.25, 1, "ok", 12.5),
            EarlierRun(DQN, 0.1 + 0.2, 2, "ok", 25.0),
            EarlierRun({"agent": "ppo", "learning_rate": 0.01}, None, 3, "failed", 37.5),
            EarlierRun(
                {"agent": "dqn", "learning_rate": 0.001, "n_steer": 3}, -1.5, 4, "pruned", 50.0
            ),
        ]


def test_what_is_read_lies_in_the_space(path: Path) -> None:
    written(path, plain(), plain(DQN), plain({**DQN, "learning_rate": 0.01 * (1 + 1e-12)}))
    found = read_earlier(path, SPACE)
    assert [SPACE.problem(run.params) for run in found.records] == [None] * 3
    assert found.records[2].params["learning_rate"] == 0.01


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"mean_reward": 0.5, "run_status": "pruned"}, (0.5, "pruned")),
        ({"mean_reward": None, "run_status": "pruned"}, (None, "pruned")),
        ({"mean_reward": 0, "run_status": "killed"}, (None, "killed")),
        ({"mean_reward": 0.0, "run_status": "failed"}, (None, "failed")),
        ({"mean_reward": 0.5, "run_status": "COMPLETE"}, (0.5, "ok")),
        ({"mean_reward": None, "run_status": "crashed"}, (None, "failed")),
        ({"mean_reward": math.nan}, (None, "failed")),
        ({"mean_reward": -math.inf, "run_status": "ok"}, (None, "failed")),
        ({"mean_reward": 10**400}, (None, "failed")),
        ({"mean_reward": 0.5, "run_status": 7}, (0.5, "ok")),
    ],
)
def test_how_a_run_ended(fields: dict[str, Any], expected: tuple[Any, str], path: Path) -> None:
    (run,) = read_earlier(written(path, {"params": PPO, **fields}), SPACE).records
    assert (run.mean_reward, run.status) == expected


def test_strange_seeds_and_times_are_not_known_ones(path: Path) -> None:
    written(path, plain(seed="7", elapsed_sec="long"), plain(seed=True, elapsed_sec=-1.0))
    for run in read_earlier(path, SPACE).records:
        assert (run.seed, run.elapsed_sec) == (None, None)


# --- What is left out, and said ---


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({**PPO, "learning_rate": 0.5}, "learning_rate lies outside today's range, 0.0001 to 0.01"),
        ({**PPO, "learning_rate": math.nan}, "learning_rate lies outside today's range"),
        ({**PPO, "learning_rate": "0.002"}, "learning_rate is no number"),
        ({**PPO, "learning_rate": True}, "learning_rate is no number"),
        ({**DQN, "n_steer": 7.5}, "n_steer lies outside today's range, 3 to 11"),
        ({**DQN, "n_steer": 10**400}, "n_steer lies outside today's range"),
        ({**DQN, "n_steer": "7"}, "n_steer is no number"),
        ({**DQN, "n_steer": [7]}, "n_steer is no number"),
        ({**PPO, "agent": "sac"}, "agent is none of today's choices (ppo, dqn)"),
        ({**PPO, "agent": ["ppo"]}, "agent is none of today's choices"),
        ({**PPO, "gamma": 0.9}, "gamma is no parameter of today's space"),
        ({**PPO, "envs": 16}, "envs is 32 today"),
        ({**PPO, "clip": 0.1}, "clip is 0.2 today"),
    ],
)
def test_results_that_do_not_fit_todays_space(params: Any, words: str, path: Path) -> None:
    written(path, plain(), plain(params), plain(params, 0.7))
    found = read_earlier(path, SPACE, settings={"clip": 0.2})
    assert [run.params for run in found.records] == [PPO]
    (note,) = found.notes
    assert note.startswith(f"{path}: 2 lines left out, {words}")
    assert f"(first: line 2, {words.split()[0]} = " in note


def test_a_parameter_that_counts_must_be_there_and_one_that_does_not_may(path: Path) -> None:
    written(
        path,
        plain({"agent": "dqn", "learning_rate": 0.0003}),
        plain({"learning_rate": 0.0003}),
        plain({**PPO, "n_steer": "whatever", "envs": 32, "clip": 0.2}),
    )
    found = read_earlier(path, SPACE, settings={"clip": 0.2})
    assert [run.params for run in found.records] == [PPO]
    assert found.notes == [
        f"{path}: 1 line left out, n_steer is missing (first: line 1)",
        f"{path}: 1 line left out, agent is missing (first: line 2)",
    ]


def test_torn_foreign_and_duplicate_lines_are_counted(path: Path) -> None:
    written(
        path,
        plain(trial=1),
        "WARNING: 3 workers",
        "[1, 2]",
        "",
        plain(trial=1),
        plain(trial=1, mean_reward=0.75),
        {"step": 7},
        "[" * 100_000,
        "\x00\x00",
        "x" * 1_500_000,
        plain(PPO, "0.5"),
        {"params": PPO},
        '{"params": {"agent": "p',
    )
    path.write_bytes(path.read_bytes()[:-1])
    found = read_earlier(path, SPACE)
    assert [run.mean_reward for run in found.records] == [0.5, 0.75]
    assert [note.removeprefix(f"{path}: ") for note in found.notes] == [
        "5 lines left out, foreign: no JSON object (first: line 2, 'WARNING: 3 workers')",
        "1 line left out, there twice: the first one counts (first: line 5)",
        "1 line left out, foreign: no params in it (first: line 7)",
        "1 line left out, mean_reward is no number (first: line 11, mean_reward = '0.5')",
        "1 line left out, without mean_reward, and no run_status says why (first: line 12)",
        "1 line left out, torn: the file ends in the middle of it (first: line 13)",
    ]


def test_a_file_cut_or_changed_at_any_byte_is_read_as_far_as_it_goes(path: Path) -> None:
    data = (GOLDEN / "ledger-v1.jsonl").read_bytes()
    whole_file = read_earlier(GOLDEN / "ledger-v1.jsonl", SPACE)
    for length in range(0, len(data), 13):
        path.write_bytes(data[:length])
        lines = data[:length].splitlines()
        whole = [b for b in lines if b.startswith(b'{"kind": "trial"') and b.endswith(b'"}')]
        assert len(read_earlier(path, SPACE).records) == len(whole)
    for place in range(0, len(data), 13):
        path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        found = read_earlier(path, SPACE)
        assert all(run in whole_file.records for run in found.records)
        assert len(found.records) >= 3
        assert found == whole_file or len(found.notes) == 1


def test_a_changed_ledger_line_is_left_out_unless_its_checksum_is_taken_out(path: Path) -> None:
    lines = (GOLDEN / "ledger-v1.jsonl").read_text().replace("0.25", "0.95").splitlines()
    found = read_earlier(written(path, *lines), SPACE)
    assert len(found.records) == 3
    assert "damaged: the checksum does not hold" in found.notes[0]
    bare = [{k: v for k, v in json.loads(line).items() if k != "crc"} for line in lines]
    found = read_earlier(written(path, *bare), SPACE)
    assert found.records[0].mean_reward == 0.95
    assert (len(found.records), found.notes) == (4, [])


def test_ledgers_may_be_joined_and_a_trial_counts_once_in_each(tmp_path: Path) -> None:
    for name, reward in (("a", 0.25), ("b", 0.75)):
        with Ledger.create(tmp_path / name / "ledger.jsonl", {}) as ledger:
            ledger.append("trial", trial=1, params=PPO, mean_reward=reward, run_status="ok")
    a, b = ((tmp_path / name / "ledger.jsonl").read_bytes() for name in "ab")
    path = tmp_path / "joined.jsonl"
    path.write_bytes(a + b.replace(b"\n", b"\r\n") + b.splitlines(keepends=True)[1])
    found = read_earlier(path, SPACE)
    assert [run.mean_reward for run in found.records] == [0.25, 0.75]
    assert "1 line left out, there twice" in found.notes[0]


def test_what_a_study_had_fixed_completes_its_params_or_keeps_them_out(tmp_path: Path) -> None:
    tables: list[Any] = [
        {"fixed": {"n_steer": 5, "envs": 32, "clip": 0.2}},
        {"fixed": {"envs": 64}},
    ]
    for number, table in enumerate([*tables, {}, "?"]):
        with Ledger.create(tmp_path / str(number) / "ledger.jsonl", {"space": table}) as ledger:
            params = {"agent": "dqn", "learning_rate": 0.001}
            ledger.append("trial", trial=1, params=params, mean_reward=0.5)
    found = [read_earlier(tmp_path / str(number), SPACE) for number in range(4)]
    assert [run.params["n_steer"] for run in found[0].records] == [5]
    assert "envs is 32 today (first: line 2, envs = 64)" in found[1].notes[0]
    assert "n_steer is missing" in found[2].notes[0]
    assert "n_steer is missing" in found[3].notes[0]


def test_final_tests_are_not_learnt_from(tmp_path: Path) -> None:
    with Ledger.create(tmp_path / "ledger.jsonl", {}) as ledger:
        for number, role in enumerate(["explore", "test", "confirm"]):
            ledger.append("trial", trial=number, params=PPO, mean_reward=0.5, role=role)
    found = read_earlier(tmp_path, SPACE)
    assert len(found.records) == 2
    assert "1 line left out, a final test" in found.notes[0]


@pytest.mark.parametrize("data", [b"", b"\n\n", b"\xff\xfe\x00", b'{"a": 1}\n', b"a,b\n1,2\n"])
def test_a_file_without_any_result_says_so(data: bytes, path: Path) -> None:
    path.write_bytes(data)
    found = read_earlier(path, SPACE)
    assert found.records == []
    assert "no result in it can be used; expected lines such as" in found.notes[-1]


# --- What cannot be read at all ---


def test_what_is_no_file_or_too_long_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for missing in (tmp_path / "nothing.jsonl", tmp_path):
        with pytest.raises(ValueError, match=r"no earlier results at .*\.jsonl; name a file"):
            read_earlier(missing, SPACE)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="is no plain file"):
        read_earlier(tmp_path / "pipe", SPACE)
    monkeypatch.setattr(earlier, "LARGEST", 100)
    with pytest.raises(ValueError, match="at most 100 are read"):
        read_earlier(GOLDEN / "results-v0.jsonl", SPACE)
