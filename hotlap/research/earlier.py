"""Results of earlier studies and sweeps, so that a new study begins with what is known.

A file holds one JSON object per line: a ledger of ours, or plain records, of which `params` and
`mean_reward` are enough:

    {"params": {"agent": "ppo", "learning_rate": 0.002}, "mean_reward": 0.25}

`trial`, `seed`, `run_status` and `elapsed_sec` are used where they are there. The file may have
been cut, mixed up or written by anyone: what cannot be used is left out, counted and said, and the
rest is read. (A ledger that a study goes on with is read by `hotlap.store.ledger`, strictly.)
"""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from hotlap.research.space import Dimension, Params, SearchSpace
from hotlap.store.ledger import FIRST, parse_line

LARGEST = 200_000_000
"""Bytes; a longer file is refused. A trial takes a few thousand."""
LONGEST_LINE = 1_000_000
"""Bytes; a longer line is no record."""
WITHOUT_RESULT = ("failed", "timeout", "killed")
WITH_RESULT = ("ok", "pruned")


class EarlierRun(NamedTuple):
    """What is known of one run."""

    params: Params
    """Those that count in today's space, and no others."""
    mean_reward: float | None
    """None where the run has no result."""
    seed: int | None
    status: str
    """ok, failed, timeout, killed or pruned."""
    elapsed_sec: float | None


@dataclass(frozen=True)
class Earlier:
    """What an earlier file brings."""

    records: list[EarlierRun]
    notes: list[str]
    """What was left out, and why, in sentences."""


def read_earlier(
    path: str | Path, space: SearchSpace, settings: Mapping[str, Any] | None = None
) -> Earlier:
    """Read earlier results as far as they fit today's space.

    Args:
        path: The file, or the folder of a study.
        space: Today's space.
        settings: What settings outside the space are today, by name: a result whose params name
            one of them counts if it has the same value there.
    """
    path = _file(Path(path))
    elsewhere = {**(settings or {}), **space.fixed}
    runs: list[EarlierRun] = []
    tally = _Tally()
    seen: set[str] = set()
    fixed: Params = {}
    for number, line in _lines(path):
        try:
            record = _record(line)
            if record.get("kind") == FIRST:  # another study, which counts its trials anew
                seen = {key for key in seen if not key.startswith("trial")}
                fixed = _fixed(record)
            if record.get("kind", "trial") != "trial":
                continue
            _refuse_twice(record, seen)
            runs.append(_run(record, fixed, space, elsewhere))
        except _LeftOut as left_out:
            tally.add(left_out, number)
    notes = [f"{path}: {sentence}" for sentence in tally.sentences()]
    if not runs:
        notes.append(
            f"{path}: no result in it can be used; expected lines such as "
            '{"params": {...}, "mean_reward": 0.5}, with parameters of the search space'
        )
    return Earlier(runs, notes)


class _LeftOut(Exception):
    """Why a line is left out, and what in it shows this."""

    def __init__(self, why: str, example: str = "") -> None:
        super().__init__(why, example)
        self.why = why
        self.example = example


class _Tally:
    """How many lines were left out for each reason, and the first of them."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._first: dict[str, str] = {}

    def add(self, left_out: _LeftOut, number: int) -> None:
        self._counts[left_out.why] = self._counts.get(left_out.why, 0) + 1
        shown = f", {left_out.example}" if left_out.example else ""
        self._first.setdefault(left_out.why, f"line {number}{shown}")

    def sentences(self) -> Iterator[str]:
        for why, count in self._counts.items():
            lines = f"{count} lines" if count > 1 else "1 line"
            yield f"{lines} left out, {why} (first: {self._first[why]})"


def _file(path: Path) -> Path:
    """The file that is meant, if it can be read."""
    if path.is_dir():
        path = path / "ledger.jsonl"
    if not path.exists():
        raise ValueError(
            f"no earlier results at {path}; name a file with one JSON object per line, or the "
            "folder of a study"
        )
    if not path.is_file():
        raise ValueError(f"{path} is no plain file; name one with one JSON object per line")
    if (size := path.stat().st_size) > LARGEST:
        raise ValueError(
            f"{path} has {size} bytes, at most {LARGEST} are read; leave only the lines with "
            "params and mean_reward in it"
        )
    return path


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines that are not empty, with their numbers."""
    with open(path, "rb") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                yield number, line


def _record(line: bytes) -> dict[str, Any]:
    """A line as an object; one with a checksum must be as it was written."""
    try:
        record = json.loads(line) if len(line) <= LONGEST_LINE else None
    except (ValueError, RecursionError):
        if not line.endswith(b"\n"):
            raise _LeftOut("torn: the file ends in the middle of it") from None
        record = None
    if not isinstance(record, dict):
        raise _LeftOut("foreign: no JSON object", f"{line[:40].strip()!r}"[1:])
    if "crc" in record:
        try:
            return parse_line(line.rstrip(b"\r\n"))
        except ValueError:
            raise _LeftOut(
                "damaged: the checksum does not hold (take the member crc out of lines that were "
                "changed on purpose)"
            ) from None
    return record


def _refuse_twice(record: dict[str, Any], seen: set[str]) -> None:
    """Stop at a result that was there before: by its number in a ledger, else by what it says."""
    if record.get("kind") == "trial":
        key = f"trial {record.get('trial')!r}"
    else:
        says = ("trial", "params", "seed", "mean_reward", "run_status", "elapsed_sec")
        key = json.dumps([record.get(name) for name in says], sort_keys=True)
    if key in seen:
        raise _LeftOut("there twice: the first one counts")
    seen.add(key)


def _fixed(header: dict[str, Any]) -> Params:
    """What a study says was the same in all its trials."""
    table = header.get("space")
    fixed = table.get("fixed") if isinstance(table, dict) else None
    return fixed if isinstance(fixed, dict) else {}


def _run(
    record: dict[str, Any], fixed: Params, space: SearchSpace, elsewhere: Mapping[str, Any]
) -> EarlierRun:
    given = record.get("params")
    if not isinstance(given, dict):
        raise _LeftOut("foreign: no params in it")
    if record.get("role") == "test":
        raise _LeftOut("a final test, whose seeds are kept for judging and never for choosing")
    mean_reward, status = _result(record)
    seed, elapsed = record.get("seed"), _number(record.get("elapsed_sec"))
    return EarlierRun(
        params=_params(given, fixed, space, elsewhere),
        mean_reward=mean_reward,
        seed=seed if type(seed) is int else None,
        status=status,
        elapsed_sec=elapsed if elapsed is not None and 0 <= elapsed < math.inf else None,
    )


def _result(record: dict[str, Any]) -> tuple[float | None, str]:
    """The mean reward and how the run ended.

    A reward that is not finite is a run that diverged. What a run that failed has as its reward, a
    zero perhaps, says nothing.
    """
    given, status = record.get("mean_reward"), record.get("run_status")
    reward = _number(given)
    if given is not None and reward is None:
        raise _LeftOut("mean_reward is no number", f"mean_reward = {given!r:.40}")
    if status in WITHOUT_RESULT:
        return None, str(status)
    if reward is None:
        if status == "pruned":
            return None, "pruned"
        if isinstance(status, str) and status != "ok":  # a word of another program
            return None, "failed"
        raise _LeftOut("without mean_reward, and no run_status says why")
    if not math.isfinite(reward):
        return None, "failed"
    return reward, status if status in WITH_RESULT else "ok"


def _params(
    given: Params, fixed: Params, space: SearchSpace, elsewhere: Mapping[str, Any]
) -> Params:
    """The params that count today, each as its dimension writes it."""
    known = {dimension.name for dimension in space}
    # What was fixed then completes what is free today, and must agree with what is fixed today.
    given = {k: v for k, v in fixed.items() if k in known or k in elsewhere} | given
    for name in sorted(given.keys() - known):
        if name not in elsewhere:
            raise _LeftOut(f"{name} is no parameter of today's space", _shown(name, given))
        if given[name] != elsewhere[name]:
            raise _LeftOut(f"{name} is {elsewhere[name]!r} today", _shown(name, given))
    params: Params = {}
    for dimension in space:  # parents come first
        if any(params.get(parent) not in values for parent, values in dimension.when.items()):
            continue  # it does not count, whatever it is
        if dimension.name not in given:
            raise _LeftOut(f"{dimension.name} is missing")
        params[dimension.name] = _value(dimension, given)
    return params


def _value(dimension: Dimension, given: Params) -> Any:
    """A given value as the dimension writes it: 7.0 is 7 where whole numbers are."""
    distribution, value = dimension.distribution, given[dimension.name]
    number = _number(value)
    if isinstance(distribution, CategoricalDistribution):
        for choice in distribution.choices:
            if value == choice and isinstance(value, bool) == isinstance(choice, bool):
                return choice
        choices = ", ".join(str(choice) for choice in distribution.choices)
        raise _LeftOut(
            f"{dimension.name} is none of today's choices ({choices})",
            _shown(dimension.name, given),
        )
    assert isinstance(distribution, FloatDistribution | IntDistribution)
    if number is None:
        raise _LeftOut(f"{dimension.name} is no number", _shown(dimension.name, given))
    if not math.isfinite(number) or not dimension.contains(number):
        step = f" by {distribution.step:g}" if distribution.step not in (None, 1) else ""
        raise _LeftOut(
            f"{dimension.name} lies outside today's range, {distribution.low:g} to "
            f"{distribution.high:g}{step}",
            _shown(dimension.name, given),
        )
    if isinstance(distribution, IntDistribution):
        return round(number)
    return min(max(number, distribution.low), distribution.high)


def _number(value: Any) -> float | None:
    """A JSON number as a float, infinite where it is too large for one; None for all else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _shown(name: str, given: Params) -> str:
    return f"{name} = {given[name]!r:.40}"
