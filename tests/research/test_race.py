"""The race: who leads, who runs again, and who takes the title."""

import math
from dataclasses import replace

import numpy as np
import pytest

from hotlap.config.study import RaceConfig
from hotlap.research.proposer import fit_surrogate
from hotlap.research.race import (
    Entrant,
    Estimate,
    RunSeen,
    Standings,
    closing_rungs,
    crown,
    estimate,
    gather,
    judge_title,
    nearest_to_title,
    next_again,
    probability_of,
    rank,
    seed_variance,
    to_seen,
)
from hotlap.research.space import identity, make_space

SPACE = make_space({"x": {"low": 0, "high": 100}})
CONFIG = RaceConfig()


def runs_of(table: dict[int, list[float | None]]) -> list[RunSeen]:
    """Runs of configurations x, the first of all before the second of any."""
    found, longest = [], max(len(scores) for scores in table.values())
    for turn in range(longest):
        for x, scores in table.items():
            if turn < len(scores):
                found.append(RunSeen(len(found) + 1, {"x": x}, turn, "explore", scores[turn]))
    return found


def name(x: int) -> str:
    return identity({"x": x})


def standing(table: dict[int, list[float | None]], challenge: float = 0.3) -> Standings:
    """Standings in the order of the table, each with this chance against the first."""
    entrants = gather(runs_of(table))
    names = tuple(name(x) for x in table)
    return Standings(
        entrants, names, dict.fromkeys(names, 0.0), dict.fromkeys(names, challenge), 4.0, 0.0
    )


def test_an_estimate_by_hand() -> None:
    found = estimate([1.0, 2.0, 3.0], variance=4.0)
    # (3 runs' worth of 4 + squares 1 + 0 + 1) / (3 + 2) = 14 / 5; over three runs
    assert found == Estimate(2.0, math.sqrt(14 / 5 / 3), 5.0, 3)
    low, high = found.interval(0.95)
    assert high - 2.0 == pytest.approx(2.570582 * math.sqrt(14 / 15))  # Student's t, 5 degrees
    assert low + high == pytest.approx(4.0)


def test_one_score_is_known_as_well_as_the_seeds_scatter() -> None:
    assert estimate([7.0], variance=4.0) == Estimate(7.0, 2.0, 3.0, 1)
    with pytest.raises(ValueError, match="at least one score"):
        estimate([], 1.0)


def test_probabilities_of_both_sides_add_up_to_one() -> None:
    one, other = Estimate(2.0, 0.5, 5, 3), Estimate(1.0, 1.2, 4, 2)
    assert probability_of(one, other) + probability_of(other, one) == pytest.approx(1.0)
    assert probability_of(one, one) == pytest.approx(0.5)
    assert probability_of(one, other) > 0.5
    sure = Estimate(1.0, 0.0, 1, 1)
    assert probability_of(sure, sure) == 0.5
    assert probability_of(replace(sure, mean=2.0), sure) == 1.0


def test_a_known_probability() -> None:
    # Two equal errors of 1 with 5 degrees: sqrt(2) apart is t = 1 with 10 degrees, P = 0.8296.
    found = probability_of(Estimate(math.sqrt(2), 1.0, 5, 3), Estimate(0.0, 1.0, 5, 3))
    assert found == pytest.approx(0.829553, abs=1e-5)


def test_the_nominating_run_does_not_race_and_a_failure_counts_as_the_worst() -> None:
    runs = runs_of({1: [90.0, 50.0, None, 60.0]})
    entrant = gather(reversed(runs))[name(1)]
    assert entrant.raced(worst=10.0) == (50.0, 10.0, 60.0)
    assert entrant.scores == (90.0, 50.0, 60.0)


def test_the_surrogate_is_told_scores_failures_and_times() -> None:
    runs = [
        RunSeen(1, {"x": 1}, 0, "explore", 5.0, 2.0),
        RunSeen(2, {"x": 1}, 1, "confirm", None, 4.0),
    ]
    (seen,) = to_seen(gather(runs))
    assert (seen.scores, seen.failures, seen.seconds) == ((5.0,), 1, 3.0)


def test_seed_variance_pools_replicates_with_a_belief() -> None:
    entrants = gather(runs_of({1: [1.0, 3.0], 2: [0.0, 0.0, 6.0], 3: [9.0]}))
    # squares 2 and 24 with 1 and 2 degrees, and three runs' worth of 4
    assert seed_variance(entrants, otherwise=4.0) == pytest.approx((2 + 24 + 12) / (3 + 3))


def test_the_ladder_of_eighteen() -> None:
    rungs = closing_rungs(18)
    assert rungs[:4] == ((1, 6), (3, 3), (4, 2), (5, 2))
    assert closing_rungs(1)[:3] == ((1, 1), (3, 1), (4, 1))


def test_who_runs_again_goes_up_the_ladder() -> None:
    made = {x: [0.0] for x in range(1, 9)}
    order = []
    for _ in range(18):
        chosen = next_again(standing(made), CONFIG, closing_rungs(18), {}, None, 100)
        assert chosen is not None
        x = next(x for x in made if name(x) == chosen)
        made[x].append(0.0)
        order.append(x)
    assert order == [1, 2, 3, 4, 5, 6, 1, 1, 2, 2, 3, 3, 1, 2, 1, 2, 1, 2]
    assert [len(made[x]) - 1 for x in made] == [6, 6, 3, 1, 1, 1, 0, 0]


def test_runs_under_way_count_and_seeds_run_out() -> None:
    standings = standing({1: [0.0], 2: [0.0]})
    assert next_again(standings, CONFIG, [(1, 2)], {name(1): 1}, None, 100) == name(2)
    assert next_again(standings, CONFIG, [(1, 2)], {name(1): 1, name(2): 1}, None, 100) is None
    assert next_again(standings, CONFIG, [(1, 2)], {}, None, most=1) is None


def test_the_hopeless_do_not_run_again_but_leader_and_champion_do() -> None:
    standings = standing({1: [0.0, 0.0], 2: [0.0], 3: [0.0]}, challenge=0.01)
    assert next_again(standings, CONFIG, [(1, 3)], {}, None, 100) is None
    assert next_again(standings, CONFIG, [(1, 3)], {}, name(3), 100) == name(3)
    assert next_again(standings, CONFIG, [(2, 3)], {}, None, 100) == name(1)


def test_a_free_title_needs_three_fresh_runs() -> None:
    assert crown(standing({1: [9.0, 5.0, 5.0]}), CONFIG) is None
    assert crown(standing({1: [None, 9.0, 5.0, 5.0]}), CONFIG) is None  # 9 nominated it
    title = crown(standing({1: [9.0, 5.0, 5.0, 5.0]}), CONFIG)
    assert title is not None
    assert (title.verdict, title.config, title.champion) == ("promoted", name(1), None)
    assert title.estimate.mean == 5.0  # what nominated it is not claimed
    assert "the title was free" in title.reason
    assert judge_title(standing({1: [9.0] * 4}), name(1), CONFIG) is None


def test_the_title_changes_hands_when_it_is_probably_deserved() -> None:
    # Errors: sqrt((3 x 4 + 0) / 5 / 3) = 0.894 each, 1.265 together, about 10 degrees: P = 0.9 at
    # t = 1.372, a difference of 1.736.
    won = judge_title(standing({1: [9.0, *[11.8] * 3], 2: [9.0, *[10.0] * 3]}), name(2), CONFIG)
    lost = judge_title(standing({1: [9.0, *[11.6] * 3], 2: [9.0, *[10.0] * 3]}), name(2), CONFIG)
    assert won is not None and lost is not None
    assert (won.verdict, lost.verdict) == ("promoted", "refused")
    assert won.champion == lost.champion == name(2)
    assert lost.reason == (
        "11.6 over 3 fresh seeds against the champion's 10 over 3: better with probability 0.88, "
        "0.9 is needed"
    )
    assert lost.to_table()["probability"] == pytest.approx(0.883, abs=1e-3)


def test_the_leader_is_the_best_expected_score_and_not_the_luckiest_run() -> None:
    # A smooth hill of height 10 at 50; one run far down the slope had luck.
    table: dict[int, list[float | None]] = {
        x: [10 - (x - 50) ** 2 / 100 + s for s in (-0.3, 0.3)] for x in range(0, 101, 10)
    }
    table[88] = [12.0]
    runs = runs_of(table)
    standings = rank(SPACE, runs, fit_surrogate(SPACE, to_seen(gather(runs))))
    assert standings.leader is not None
    assert standings.leader.params == {"x": 50}
    assert standings.challenge[name(0)] < 0.01


def test_without_a_surrogate_means_are_drawn_to_the_average() -> None:
    # Replicates scatter by 16: of 20 after one run less is believed than of 18 after four.
    table: dict[int, list[float | None]] = {
        1: [20.0], 2: [14.0, 22.0, 14.0, 22.0], 3: [0.0, 8.0], 4: [2.0, 10.0],
    }  # fmt: skip
    standings = rank(SPACE, runs_of(table), None)
    assert [standings.entrants[n].params["x"] for n in standings.ranked[:2]] == [2, 1]
    average = np.mean([20, 18, 4, 6])
    assert average < standings.expected[name(2)] < 18
    assert average < standings.expected[name(1)] < standings.expected[name(2)]


def test_a_configuration_that_fails_on_some_seeds_falls_behind() -> None:
    table: dict[int, list[float | None]] = {
        1: [10.0, None, 10.0, None], 2: [8.0] * 4, 3: [0.0, 0.1], 4: [0.2],
    }  # fmt: skip
    standings = rank(SPACE, runs_of(table), None)
    assert standings.leader == standings.entrants[name(2)]


def test_a_failure_counts_once() -> None:
    table: dict[int, list[float | None]] = {x: [x / 100, x / 100] for x in range(0, 70, 7)}
    table[90] = [1.0, 1.0, 1.0, None]  # three quarters of the way from the worst, 0, to 1
    surrogate = fit_surrogate(SPACE, to_seen(gather(runs_of(table))))
    assert surrogate.check.good
    standings = rank(SPACE, runs_of(table), surrogate)
    expected = float(surrogate.predict(SPACE.encode({"x": 90})[None])[0][0])
    assert standings.expected[name(90)] == pytest.approx(expected)
    assert expected == pytest.approx(0.75, abs=0.1)


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_standings_do_not_hang_on_the_unit_of_the_score(scale: float) -> None:
    table: dict[int, list[float | None]] = {
        x: [scale * (10 - (x - 50) ** 2 / 100 + s) for s in (-0.3, 0.3)] for x in range(0, 101, 10)
    }
    for surrogate in (None, fit_surrogate(SPACE, to_seen(gather(runs_of(table))))):
        standings = rank(SPACE, runs_of(table), surrogate)
        assert standings.leader is not None and standings.leader.params == {"x": 50}
        assert standings.expected[name(50)] / scale == pytest.approx(10, abs=1.5)


def test_nobody_leads_where_nothing_has_a_score() -> None:
    standings = rank(SPACE, runs_of({1: [None], 2: [None]}), None)
    assert standings.leader is None
    assert judge_title(standings, None, CONFIG) is None
    assert next_again(standings, CONFIG, closing_rungs(9), {}, None, 100) is None
    assert isinstance(standings.entrants[name(1)], Entrant)


def test_in_the_end_a_free_title_goes_to_the_best_who_raced_enough_if_it_may_lead() -> None:
    table: dict[int, list[float | None]] = {1: [9.0], 2: [8.0, 8.0, 8.0, 8.0], 3: [7.0] * 5}
    title = crown(standing(table, challenge=0.3), CONFIG)
    assert title is not None and title.config == name(2) and "place 2" in title.reason
    assert crown(standing(table, challenge=0.01), CONFIG) is None


def test_on_the_way_a_free_title_goes_to_a_leader_who_is_sure_to_be_best() -> None:
    table: dict[int, list[float | None]] = {1: [9.0] * 4, 2: [8.0, 8.0], 3: [7.0] * 5}
    assert judge_title(standing(table, challenge=0.11), None, CONFIG) is None
    title = judge_title(standing(table, challenge=0.09), None, CONFIG)
    assert title is not None and (title.config, title.verdict) == (name(1), "promoted")
    assert title.probability == pytest.approx(0.91)
    table[1] = [9.0] * 3
    assert judge_title(standing(table, challenge=0.09), None, CONFIG) is None
    assert judge_title(standing({1: [9.0] * 4}), None, CONFIG) is None  # better than nobody


def test_the_luck_of_shared_seeds_falls_out() -> None:
    luck = [0.0, 30.0, -20.0, 10.0, -40.0]
    table: dict[int, list[float | None]] = {
        1: [0.0, *(luck[i] + 1.0 for i in range(1, 5))],
        2: [0.0, *(luck[i] for i in range(1, 5))],
    }
    standings = replace(standing(table), variance=1.0)
    title = judge_title(standings, name(2), CONFIG)
    assert title is not None and title.verdict == "promoted"
    runs = [run._replace(seed=run.seed + 100 * run.params["x"]) for run in runs_of(table)]
    apart = judge_title(replace(standings, entrants=gather(runs)), name(2), CONFIG)
    assert apart is not None and apart.verdict == "refused"


def test_what_is_claimed_is_expected_and_as_uncertain_as_the_fresh_runs() -> None:
    standings = replace(standing({1: [9.0, 5.0, 7.0]}), expected={name(1): 4.0})
    own, claim = standings.estimate(name(1)), standings.claim(name(1))
    assert own is not None and claim == replace(own, mean=4.0)
    assert own.mean == 6.0
    assert standing({1: [9.0]}).claim(name(1)) is None


def test_near_the_end_whoever_needs_fewest_runs_is_brought_there() -> None:
    table: dict[int, list[float | None]] = {1: [9.0], 2: [8.0, 8.0, 8.0], 3: [7.0] * 5}
    assert nearest_to_title(standing(table, 0.3), CONFIG, {}) == name(2)
    assert nearest_to_title(standing(table, 0.3), CONFIG, {name(2): 1}) == name(1)
    assert nearest_to_title(standing(table, 0.1), CONFIG, {}) == name(1)  # the others hardly can
