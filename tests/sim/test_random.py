"""Draws are hashes of their names: the same everywhere, and otherwise random."""

import pytest
import torch

from hotlap.sim.random import (
    Stream,
    integers,
    make_key,
    mix,
    normal,
    uniform,
)

WHO = torch.arange(4096)
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


def chi_square(draws: torch.Tensor, bins: int) -> float:
    """Chi-square of draws in [0, 1) over `bins`, divided by its expectation: about 1."""
    counts = torch.bincount((draws.flatten() * bins).long(), minlength=bins).double()
    expected = draws.numel() / bins
    return float(((counts - expected) ** 2 / expected).sum() / (bins - 1))


def test_mix_is_the_finaliser_of_murmurhash3() -> None:
    published = {0: 0, 1: 0x514E28B7, 2: 0x30F4C306}
    assert mix(torch.tensor(list(published))).tolist() == list(published.values())


@pytest.mark.parametrize("device", DEVICES)
def test_draws_never_change(device: str) -> None:
    # Golden: every saved result rests on these numbers.
    who = torch.tensor([0, 1, 2**40 + 1], device=device)
    key = make_key(who, 7, 0, torch.tensor([0, 0, 3], device=device))
    assert key.tolist() == [269177415, 3579843096, 3143039421]
    start = make_key(torch.tensor([0], device=device), 7, 0, 0, Stream.START)
    assert uniform(start, 3).tolist() == [
        [0.15540671348571777, 0.8270042538642883, 0.22227925062179565]
    ]
    other = make_key(torch.tensor([3], device=device), 1)
    assert integers(other, 10, 8).tolist() == [[5, 2, 6, 0, 5, 7, 3, 6]]
    assert normal(other, 3)[0].tolist() == pytest.approx([1.077114, -0.668813, -0.400537], abs=1e-5)


def test_a_number_and_a_tensor_of_it_give_the_same_key() -> None:
    for word in (0, 7, 2**31, 2**40 + 3, 2**62):
        assert torch.equal(make_key(WHO, word), make_key(WHO, torch.tensor(word)))


def test_a_draw_does_not_depend_on_its_batch_or_on_how_many_are_drawn() -> None:
    together = uniform(make_key(WHO, 5), 8)
    alone = uniform(make_key(WHO[17:18], 5), 3)
    assert torch.equal(together[17:18, :3], alone)


@pytest.mark.parametrize("stream", [Stream.START, Stream.LOOK, Stream.LIDAR])
def test_uniform_draws_fill_their_range_evenly(stream: Stream) -> None:
    draws = uniform(make_key(WHO, 1, 0, 0, stream), 16)
    assert 0 <= float(draws.min()) < 1e-3 and 1 - 1e-3 < float(draws.max()) < 1
    assert 0.6 < chi_square(draws, 64) < 1.6
    over_episodes = uniform(make_key(torch.zeros(4096).long(), 1, 0, WHO, stream), 1)
    assert 0.6 < chi_square(over_episodes, 64) < 1.6


def test_neighbouring_seeds_draw_evenly() -> None:
    draws = torch.cat([uniform(make_key(WHO[:8], seed, 0, 0), 4) for seed in range(200)])
    assert 0.5 < chi_square(draws, 32) < 1.7


def test_streams_episodes_seeds_and_lanes_are_independent() -> None:
    columns = [uniform(make_key(WHO, 1, 0, 0, stream), 2) for stream in Stream]
    columns += [
        uniform(make_key(WHO, seed, 0, episode), 1) for seed in (2, 3) for episode in (0, 1)
    ]
    columns.append(uniform(make_key(WHO + 1, 2, 0, 0), 1))
    correlation = torch.corrcoef(torch.cat(columns, -1).T) - torch.eye(2 * len(Stream) + 5)
    assert float(correlation.abs().max()) < 5 / 4096**0.5  # five standard deviations


def test_every_bit_of_a_64_bit_word_matters() -> None:
    base = make_key(torch.tensor([5]), 9)
    for bit in range(63):
        assert make_key(torch.tensor([5 ^ (1 << bit)]), 9) != base
        by_tensor = make_key(torch.tensor([5]), torch.tensor([9 ^ (1 << bit)]))
        assert by_tensor != make_key(torch.tensor([5]), torch.tensor([9]))


def test_words_do_not_commute() -> None:
    assert make_key(torch.tensor([1]), 2, 3) != make_key(torch.tensor([1]), 3, 2)
    assert make_key(torch.tensor([1]), 2) != make_key(torch.tensor([2]), 1)


def test_keys_of_many_environments_hardly_meet() -> None:
    key = make_key(torch.arange(2**18), 11, 0, 0)
    # Birthdays: 2**36 / 2 pairs among 2**32 keys meet about 8 times.
    assert len(key) - len(key.unique()) < 30


def test_integers_are_below_their_limit_and_as_frequent() -> None:
    draws = integers(make_key(WHO, 3), 7, 8)
    assert draws.unique().tolist() == list(range(7))
    assert 0.1 < chi_square(draws.double() / 7, 7) < 3.0


def test_normal_draws_have_mean_0_variance_1_and_no_infinity() -> None:
    draws = normal(make_key(WHO, 6), 16).double()
    assert abs(float(draws.mean())) < 0.02 and abs(float(draws.var()) - 1) < 0.02
    assert abs(float((draws**3).mean())) < 0.05 and abs(float((draws**4).mean()) - 3) < 0.15
    assert bool(torch.isfinite(draws).all())
