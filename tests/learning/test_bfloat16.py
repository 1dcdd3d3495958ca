"""bfloat16 on a CPU: only where it is asked for, and only where somebody else survived it."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from hotlap.cli import main
from hotlap.learning import bfloat16, policy_choice
from hotlap.learning.bfloat16 import knows_bfloat16
from hotlap.research import commands
from hotlap.research.experiment import prepare
from tests.research.tiny import tiny_run


@pytest.fixture
def fresh() -> Iterator[None]:
    """What is known of this processor is forgotten, before and after."""
    knows_bfloat16.cache_clear()
    yield
    knows_bfloat16.cache_clear()


@pytest.mark.parametrize("stand_in", ["/bin/false", "/no/such/program"])
def test_who_dies_trying_does_not_know_it(
    stand_in: str, fresh: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", stand_in)
    assert not knows_bfloat16()


def test_who_hangs_does_not_know_it(fresh: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bfloat16, "_TRY", "import time; time.sleep(60)")
    monkeypatch.setattr(bfloat16, "LONGEST", 0.2)
    assert not knows_bfloat16()


@pytest.mark.parametrize(
    ("line", "worse"),
    [
        ("answer = net(seen)", "answer = net(seen) * (1 + half)"),  # wrong sums
        ("answer = net(seen)", "answer = net(seen); time.sleep(0.5 * half)"),  # no gain
    ],
)
def test_what_is_wrong_or_slow_does_not_pass(
    line: str, worse: str, fresh: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Without it, float32 is compared with itself, which passes on any processor.
    same = bfloat16._TRY.replace("enabled=half", "enabled=False")
    same = same.replace(f"{bfloat16.SLOWEST} *", "5 *")  # a busy machine is not what is tested
    assert "5 * taken" in same
    monkeypatch.setattr(bfloat16, "_TRY", same)
    assert knows_bfloat16()
    knows_bfloat16.cache_clear()
    assert line in same
    monkeypatch.setattr(bfloat16, "_TRY", same.replace(line, worse))
    assert not knows_bfloat16()


def test_asked_for_where_it_cannot_be_had_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_choice, "knows_bfloat16", lambda: False)
    with pytest.raises(ValueError, match=r"precision bfloat16 .* take float32"):
        prepare(tiny_run("ppo", "camera", precision="bfloat16"), print)


def test_a_run_that_began_with_it_goes_on_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(policy_choice, "knows_bfloat16", lambda: True)
    words = (
        "train donkey-telemetry --envs 2 --ppo.steps 8 --ppo.batch-size 16 --ppo.precision bfloat16"
    )
    run = tmp_path / "run"
    assert main([*words.split(), "--timesteps", "32", "--eval-episodes", "1",
                 "--save-dir", str(run)]) == 0  # fmt: skip
    monkeypatch.setattr(policy_choice, "knows_bfloat16", lambda: False)
    monkeypatch.setattr(commands, "knows_bfloat16", lambda: False)
    assert main(["train", "--resume", str(run)]) == 0
    assert "it goes on in float32" in capsys.readouterr().out


@pytest.mark.parametrize("agent", ["ppo", "dqn", "sac"])
def test_what_is_learned_in_bfloat16_is_nearly_the_same(agent: str) -> None:
    """One segment from the same beginning: near what float32 comes to, and not equal."""
    if not knows_bfloat16():
        pytest.skip("this processor does not know bfloat16")
    came_to = {}
    for precision in ("float32", "bfloat16"):
        learner = prepare(tiny_run(agent, "camera", precision=precision), print).learner
        before = torch.cat([p.detach().flatten() for p in learner.policy.parameters()])
        learner.learn_segment(0, 0, 64)
        after = torch.cat([p.detach().flatten() for p in learner.policy.parameters()])
        assert torch.isfinite(after).all()
        came_to[precision] = after - before
    exact, rounded = came_to["float32"], came_to["bfloat16"]
    assert not torch.equal(exact, rounded)
    assert torch.nn.functional.cosine_similarity(exact, rounded, dim=0) > 0.5
