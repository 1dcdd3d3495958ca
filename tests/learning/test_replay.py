"""The replay: what is sampled, what it leads to, and what it weighs."""

import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3.common.buffers import NStepReplayBuffer, ReplayBuffer
from torch import Tensor

from hotlap.learning.replay import Replay, first_of
from hotlap.tasks import memory

NUMBER = spaces.Box(-np.inf, np.inf, (1,), np.float32)
ACTION = spaces.Box(-1, 1, (2,), np.float32)


def filled(rewards: str | list[float], ends: str, rows: int = 100, **settings: object) -> Replay:
    """One environment; row t shows the number t. In `ends`: T terminated, c cut off, - goes on."""
    replay = Replay(rows, NUMBER, ACTION, **settings)
    for t, (reward, end) in enumerate(zip(rewards, ends, strict=True)):
        row = ([[float(t)]], [[t, -t]], [float(reward)], [end == "T"], [end == "c"])
        replay.add(*map(torch.tensor, row))
    return replay


def sampled(replay: Replay, row: int) -> tuple[float, float, float, float]:
    """The next number shown, the rewards' sum, whether it ended, and the discount, of one row."""
    found = replay.at(torch.tensor([row]), torch.tensor([0]))
    parts = (found.next_observations, found.rewards, found.dones, found.discounts)
    return tuple(float(part) for part in parts)


def test_a_row_leads_to_the_next() -> None:
    replay = filled("123", "---", gamma=0.9)
    found = replay.at(torch.tensor([1]), torch.tensor([0]))
    assert found.observations.tolist() == [[1.0]] and found.actions.tolist() == [[1.0, -1.0]]
    assert sampled(replay, 1) == pytest.approx((2.0, 2.0, 0.0, 0.9))


def test_a_window_takes_n_rewards_and_goes_on_from_the_state_after_them() -> None:
    """Fault 2 of the reference project: the state after one step, with the discount of three."""
    replay = filled("12345", "-----", n_step=3, gamma=0.5)
    # 1 + 2/2 + 3/4, then from row 3 with 0.5 ** 3
    assert sampled(replay, 0) == pytest.approx((3.0, 2.75, 0.0, 0.125))


def test_rewards_are_scaled_as_they_come() -> None:
    replay = filled("12345", "-----", n_step=3, gamma=0.5, reward_scale=0.1)
    assert sampled(replay, 0) == pytest.approx((3.0, 0.275, 0.0, 0.125))


def test_a_terminated_row_gives_its_reward_and_ends_the_window() -> None:
    """Fault 3 of the reference project: the last reward was dropped."""
    replay = filled("12845", "--T--", n_step=3, gamma=0.5)
    assert sampled(replay, 0)[1:3] == pytest.approx((1 + 2 / 2 + 8 / 4, 1.0))
    assert sampled(replay, 1)[1:3] == pytest.approx((2 + 8 / 2, 1.0))  # nothing of row 3
    assert sampled(replay, 2)[1:3] == pytest.approx((8.0, 1.0))


def test_a_window_stops_before_a_row_that_was_cut_off_and_goes_on_from_what_was_seen_there() -> (
    None
):
    replay = filled("12845", "--c--", n_step=3, gamma=0.5)
    assert sampled(replay, 0) == pytest.approx((2.0, 1 + 2 / 2, 0.0, 0.25))
    assert sampled(replay, 1) == pytest.approx((2.0, 2.0, 0.0, 0.5))


def test_a_window_stops_before_the_newest_row_whatever_came_of_it() -> None:
    for end in "-Tc":
        replay = filled("1234", "---" + end, n_step=3, gamma=0.5)
        assert sampled(replay, 1) == pytest.approx((3.0, 2 + 3 / 2, 0.0, 0.25))
        assert sampled(replay, 2) == pytest.approx((3.0, 3.0, 0.0, 0.5))


def test_a_cut_by_the_reader_is_a_cut_by_the_clock() -> None:
    replay = filled("12", "--", n_step=2, gamma=0.5)
    replay.cut()
    again = filled("12", "-c")
    assert torch.equal(replay.truncated, again.truncated)
    ended = filled("12", "-T")
    ended.cut()  # an episode that ended by itself stays so
    assert not ended.truncated.any()
    Replay(10, NUMBER, ACTION).cut()  # nothing to cut


def rows_drawn(replay: Replay, count: int) -> Tensor:
    return replay.sample(count).observations[:, 0].to(torch.int64)


def test_rows_cut_off_and_the_newest_are_never_sampled() -> None:
    replay = filled("0" * 8, "--c-T-c-")
    assert sorted(set(rows_drawn(replay, 2000).tolist())) == [0, 1, 3, 4, 5]


def test_sampling_is_even_over_rows_and_environments_of_a_full_ring() -> None:
    torch.manual_seed(0)
    replay = Replay(60, NUMBER, ACTION, n_envs=3)  # 20 rows
    for t in range(33):
        late = torch.tensor([t % 4 == 1, False, t % 7 == 3])
        shown = torch.tensor([[t * 3.0], [t * 3 + 1.0], [t * 3 + 2.0]])
        replay.add(shown, torch.zeros(3, 2), torch.zeros(3), torch.zeros(3).bool(), late)
    counts = torch.zeros(99)
    for _ in range(400):
        counts += torch.bincount(rows_drawn(replay, 100), minlength=99)
    rows, places = torch.arange(99) // 3, torch.arange(99) % 3
    late = ((places == 0) & (rows % 4 == 1)) | ((places == 2) & (rows % 7 == 3))
    usable = (rows >= 13) & (rows < 32) & ~late
    assert not counts[~usable].any()
    expected = 40_000 / int(usable.sum())
    chi2 = float(((counts[usable] - expected) ** 2 / expected).sum())
    assert chi2 < int(usable.sum()) + 4 * (2 * int(usable.sum())) ** 0.5


def test_a_batch_is_not_made_of_consecutive_steps() -> None:
    """Fault 4 of the reference project: one batch was one stretch of one episode."""
    torch.manual_seed(0)
    replay = filled("0" * 90, "-" * 90)
    rows = rows_drawn(replay, 32)
    share = float((rows.diff() == 1).float().mean())
    assert share < 0.2 and len(set(rows.tolist())) > 20
    assert not torch.equal(rows, rows_drawn(replay, 32))


def test_draws_that_cannot_be_used_are_passed_over() -> None:
    drawn = torch.tensor([5, 6, 7, 8, 9, 4])
    usable = torch.tensor([False, True, True, False, True, True])
    assert first_of(drawn, usable, 3)[0].tolist() == [6, 7, 9]
    few = torch.tensor([False, True, False, False, True, False])
    assert first_of(drawn, few, 3)[0].tolist() == [6, 9, 6]


def test_where_nothing_can_be_sampled_nothing_is_ready() -> None:
    assert not filled("0", "-").ready and filled("00", "--").ready
    assert not filled("000", "ccc").ready
    assert filled("000", "ccc").sample(4).rewards.isnan().all()  # rather than a wrong number


# --- frames together -----------------------------------------------------------------------------


def test_a_stack_is_oldest_first_and_repeats_the_first_frame_of_its_episode() -> None:
    space = spaces.Box(-np.inf, np.inf, (3,), np.float32)
    replay = Replay(100, space, ACTION, stack=3)
    for t, end in enumerate("---T--c--"):
        seen = torch.tensor([[-1.0, -1.0, float(t)]])  # only the newest frame is kept
        flags = (torch.tensor([end == "T"]), torch.tensor([end == "c"]))
        replay.add(seen, torch.zeros(1, 2), torch.zeros(1), *flags)
    assert replay.frames.shape == (100, 1, 1)
    rows = torch.arange(8)
    found = replay.at(rows, torch.zeros_like(rows))
    assert found.observations.tolist() == [
        [0, 0, 0], [0, 0, 1], [0, 1, 2], [1, 2, 3],
        [4, 4, 4], [4, 4, 5], [4, 5, 6], [7, 7, 7],
    ]  # fmt: skip
    assert found.next_observations[0].tolist() == [0, 0, 1]
    assert found.next_observations[5].tolist() == [4, 5, 6]


def test_rows_too_old_to_be_stacked_are_not_sampled() -> None:
    space = spaces.Box(-np.inf, np.inf, (3,), np.float32)
    replay = Replay(10, space, ACTION, stack=3)
    for t in range(14):
        seen = torch.full((1, 3), float(t))
        replay.add(seen, torch.zeros(1, 2), torch.zeros(1), *torch.zeros(2, 1).bool())
    stacks = replay.sample(500).observations
    assert sorted(set(stacks[:, 2].tolist())) == [6, 7, 8, 9, 10, 11, 12]  # rows 4 to 13 are held
    assert torch.equal(stacks.diff(dim=1), torch.ones(500, 2))


@pytest.mark.parametrize("channels_first", [True, False])
def test_pictures_are_stacked_along_their_channels(channels_first: bool) -> None:
    shape = (6, 4, 5) if channels_first else (4, 5, 6)
    space = spaces.Box(0, 255, shape, np.uint8)
    replay = Replay(40, space, ACTION, n_envs=2, stack=3, channels_first=channels_first)
    frames = torch.randint(0, 256, (9, 2, 4, 5, 2), dtype=torch.uint8)
    for frame in frames:
        seen = torch.cat([frame] * 3, -1)
        seen = seen.permute(0, 3, 1, 2) if channels_first else seen
        replay.add(seen, torch.zeros(2, 2), torch.zeros(2), *torch.zeros(2, 2).bool())
    assert replay.frames.dtype == torch.uint8
    found = replay.at(torch.tensor([1, 5]), torch.tensor([1, 0])).observations
    expected = torch.stack(
        [torch.cat([frames[0, 1], frames[0, 1], frames[1, 1]], -1),
         torch.cat([frames[3, 0], frames[4, 0], frames[5, 0]], -1)]
    )  # fmt: skip
    expected = expected.permute(0, 3, 1, 2) if channels_first else expected
    assert torch.equal(found, expected)


# --- against the stock buffers -------------------------------------------------------------------


@pytest.mark.parametrize("n_step", [1, 3])
def test_it_gives_what_the_stock_buffers_give(n_step: int) -> None:
    """Wherever both can: not at rows that were cut off, nor in windows that reach one."""
    rng = np.random.default_rng(0)
    ours = Replay(3 * 50, NUMBER, ACTION, n_envs=3, n_step=n_step, gamma=0.9)
    settings = {"n_steps": n_step, "gamma": 0.9} if n_step > 1 else {}
    kind = NStepReplayBuffer if n_step > 1 else ReplayBuffer
    theirs = kind(3 * 50, NUMBER, ACTION, n_envs=3, **settings)
    shown = rng.normal(size=(71, 3, 1)).astype(np.float32)
    late = np.zeros((70, 3), dtype=bool)
    for t in range(70):
        action = rng.uniform(-1, 1, (3, 2)).astype(np.float32)
        reward = rng.normal(size=3).astype(np.float32)
        done = rng.random(3) < 0.2
        late[t] = done & (rng.random(3) < 0.5)
        row = (shown[t], action, reward, done & ~late[t], late[t])
        ours.add(*map(torch.as_tensor, row))
        infos = [{"TimeLimit.truncated": bool(flag)} for flag in late[t]]
        theirs.add(shown[t], shown[t + 1], action, reward, done, infos)
    compared = 0
    for row in range(70 - 50, 70 - n_step):
        for place in range(3):
            if late[row : row + n_step, place].any():
                continue
            mine = ours.at(torch.tensor([row]), torch.tensor([place]))
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(np.random, "randint", lambda *a, p=place, **k: np.array([p]))
                other = theirs._get_samples(np.array([row % 50]))
            for name in ("observations", "actions", "dones", "rewards"):
                torch.testing.assert_close(getattr(mine, name), getattr(other, name))
            if not mine.dones.any():
                assert torch.equal(mine.next_observations, other.next_observations)
                discount = 0.9 if other.discounts is None else float(other.discounts)
                assert float(mine.discounts) == pytest.approx(discount)
            compared += 1
    assert compared > 80


# --- saving --------------------------------------------------------------------------------------


def test_rows_put_back_make_the_same_ring() -> None:
    generator = torch.Generator().manual_seed(0)
    space = spaces.Box(-np.inf, np.inf, (4,), np.float32)

    def ring() -> Replay:
        return Replay(2 * 12, space, ACTION, n_envs=2, stack=2, n_step=2)

    def drive(replay: Replay, steps: int) -> None:
        for _ in range(steps):
            ends = torch.rand(2, generator=generator) < 0.3
            late = torch.rand(2, generator=generator) < 0.5
            seen, action = torch.randn(2, 4, generator=generator), torch.randn(2, 2)
            reward = torch.randn(2, generator=generator)
            replay.add(seen, action, reward, ends & ~late, ends & late)

    whole, saved, first = ring(), [], 0
    for steps in (5, 8, 1, 9):
        drive(whole, steps)
        saved.append((whole.rows_since(first), first))
        first = whole.written
        if steps != 1:
            whole.cut()
    again = ring()
    for rows, begin in saved[1:]:  # the first segment has been overwritten: rows 11 to 22 are held
        again.put_rows(rows, begin)
    again.cut()
    assert again.written == whole.written == 23 and again.pos == whole.pos
    for name, column in whole._columns().items():
        assert torch.equal(column, getattr(again, name)), name
    for replay in (whole, again):
        torch.manual_seed(3)
        generator.manual_seed(9)
        drive(replay, 4)
    torch.manual_seed(5)
    one = whole.sample(50)
    torch.manual_seed(5)
    for part, other in zip(one, again.sample(50), strict=True):
        assert torch.equal(part, other)


def test_rows_with_a_gap_are_refused() -> None:
    replay = filled("123", "---")
    with pytest.raises(ValueError, match="goes on at row 3, the saved rows begin at 5"):
        replay.put_rows(replay.rows_since(0), 5)


# --- memory --------------------------------------------------------------------------------------


def test_its_size_is_known_before_it_is_made() -> None:
    space = spaces.Box(0, 255, (4, 84, 84), np.uint8)
    settings = {"n_envs": 8, "stack": 4}
    needed = Replay.bytes_needed(1000, space, spaces.Discrete(5), **settings)
    replay = Replay(1000, space, spaces.Discrete(5), channels_first=True, **settings)
    assert needed == sum(c.numel() * c.element_size() for c in replay._columns().values())
    assert needed == 1000 * (84 * 84 + 8 + 10)
    assert str(replay) == "replay: 1,000 steps of 84x84x1, 0.01 GB"


def test_one_that_cannot_fit_is_refused_with_what_would(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "free_bytes", lambda device: 500_000_000)
    space = spaces.Box(0, 255, (1, 84, 84), np.uint8)
    with pytest.raises(MemoryError, match=r"100,000 steps of 84x84x1 take about 0.71 GB, but"):
        Replay(100_000, space, ACTION, channels_first=True)
    with pytest.raises(MemoryError, match=r"at most 63,613 would fit \(replay_size\)"):
        Replay(100_000, space, ACTION, channels_first=True)
    with pytest.raises(ValueError, match="at least 5 are needed"):
        Replay(8, NUMBER, ACTION, n_envs=2, n_step=3)


def test_dictionaries_are_refused() -> None:
    with pytest.raises(ValueError, match="flatten it first"):
        Replay.bytes_needed(10, spaces.Dict({"a": NUMBER}), ACTION)
