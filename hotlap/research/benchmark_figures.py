"""What a benchmark of the research loop comes to: medians, intervals, ranks, tables.

    row      what a cell of `research_benchmark` gave
    variant  what a competitor could have done with the same evaluations: recommend its best
             observation or the best posterior mean, and be asked for every dimension or only for
             those that count. The variant with the lowest median regret stands for it in the table;
             ours has one only, the posterior mean.

Medians have 95 % bootstrap intervals. Two samplers differ on a problem where the interval of the
difference of their medians leaves out 0.
"""

import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from hotlap.evaluation.statistics import bootstrap_interval
from hotlap.research import contest, problems

OURS = "gp-ucb"
SOLVED = 1e-4
"""Regret, as a share of that of a random point, below which a problem counts as solved."""

Row = dict[str, Any]


def regret_figures(rows: Sequence[Row]) -> dict[str, Any]:
    """Medians and intervals by problem and sampler, ranks, and where ours is behind."""
    found: dict[str, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        found[row["where"]][row["who"]].append(row)
    by_problem = {name: _problem_figures(name, by_who) for name, by_who in found.items()}
    whole = [p for p in by_problem.values() if len(p["rank"]) == _most(by_problem)]
    ranks: dict[str, list[float]] = defaultdict(list)
    tied: dict[str, list[float]] = defaultdict(list)
    for problem in whole:
        for who, rank in problem["rank"].items():
            ranks[who].append(rank)
            tied[who].append(problem["rank_with_ties"][who])
    return {
        "problems": by_problem,
        "average_rank": {who: round(statistics.mean(r), 3) for who, r in ranks.items()},
        "average_rank_with_ties": {who: round(statistics.mean(r), 3) for who, r in tied.items()},
        "behind": [
            {"problem": name, "other": other, **against}
            for name, problem in by_problem.items()
            for other, against in problem.get("against", {}).items()
            if against["difference"] > 0
        ],
    }


def _most(by_problem: Mapping[str, Any]) -> int:
    return max((len(p["rank"]) for p in by_problem.values()), default=0)


def _problem_figures(name: str, by_who: Mapping[str, Sequence[Row]]) -> dict[str, Any]:
    variants: dict[str, dict[str, NDArray[np.float64]]] = defaultdict(dict)
    halfway: dict[str, dict[str, float]] = defaultdict(dict)
    for who, rows in by_who.items():
        owner = who.removesuffix("-flat")
        for how in ("posterior",) if who == OURS else contest.RECOMMENDATIONS:
            variant = f"{how}, flat" if who != owner else how
            variants[owner][variant] = np.array([row[how][-1] for row in rows])
            halfway[owner][variant] = float(np.median([row[how][0] for row in rows]))
    figures: dict[str, Any] = {}
    strongest: dict[str, NDArray[np.float64]] = {}
    for owner, by_variant in variants.items():
        best = min(by_variant, key=lambda variant: float(np.median(by_variant[variant])))
        strongest[owner] = by_variant[best]
        figures[owner] = {
            **_summary(by_variant[best]),
            "halfway": halfway[owner][best],
            "variant": best,
            "variants": {v: float(np.median(values)) for v, values in by_variant.items()},
            "seconds": statistics.median(row["seconds"] for row in by_who[owner]),
        }
    medians = {owner: figures[owner]["median"] for owner in figures}
    solved = SOLVED * _typical_regret(name)
    answer = {
        "samplers": figures,
        "rank": _ranks(medians),
        "rank_with_ties": _ranks({who: max(value, solved) for who, value in medians.items()}),
    }
    if OURS in strongest:
        answer["against"] = {
            other: _difference(strongest[OURS], values)
            for other, values in strongest.items()
            if other != OURS
        }
    return answer


def _typical_regret(name: str) -> float:
    """Median regret of a random point."""
    problem = problems.find_problem(name)
    points = problem.space.sample(np.random.default_rng(0), 500)
    return float(np.median([problem.regret(problem.space.decode(point)) for point in points]))


def _summary(values: NDArray[np.float64]) -> dict[str, Any]:
    low, high = bootstrap_interval([values], _median, seed=0)
    return {
        "median": float(np.median(values)),
        "interval": [low, high],
        "quartiles": [float(q) for q in np.quantile(values, [0.25, 0.75])],
        "repetitions": len(values),
    }


def _median(values: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(np.median(values, axis=-1))


def _difference(ours: NDArray[np.float64], theirs: NDArray[np.float64]) -> dict[str, Any]:
    """Median regret of ours minus theirs, and whether that may be chance."""
    rng = np.random.default_rng(0)
    drawn = [
        np.median(values[rng.integers(len(values), size=(2000, len(values)))], axis=1)
        for values in (ours, theirs)
    ]
    low, high = np.quantile(drawn[0] - drawn[1], [0.025, 0.975])
    verdict = "better" if high < 0 else "worse" if low > 0 else "even"
    return {
        "difference": float(np.median(ours) - np.median(theirs)),
        "interval": [float(low), float(high)],
        "verdict": verdict,
    }


def _ranks(values: Mapping[str, float]) -> dict[str, float]:
    """1 for the lowest; equal ones share the mean of their places."""
    return {
        who: 0.5
        * (sum(v < value for v in values.values()) + sum(v <= value for v in values.values()) + 1)
        for who, value in values.items()
    }


def landscape_figures(rows: Sequence[Row]) -> dict[str, Any]:
    """Quality and optimism of every strategy and way of choosing."""
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        for how, claim in row["claims"].items():
            found[f"{row['who']}, {how}"].append(claim)
    figures = {}
    for name, claims in found.items():
        quality = np.array([claim["quality"] for claim in claims])
        figures[name] = {
            "quality": float(quality.mean()),
            "quality_interval": list(bootstrap_interval([quality], _mean, seed=0)),
            "optimism": statistics.mean(claim["optimism"] for claim in claims),
            "runs": statistics.mean(claim["runs"] for claim in claims),
            "repetitions": len(claims),
        }
        for kind in ("covered", "covered_by_all"):
            covered = [claim[kind] for claim in claims if kind in claim]
            if covered:
                figures[name][kind] = statistics.mean(covered)
    return figures


def _mean(values: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(np.mean(values, axis=-1))


def print_regret(figures: Mapping[str, Any], console: Console) -> None:
    """A row for each problem, a column for each sampler, and what it comes to."""
    who = list(dict.fromkeys(w for p in figures["problems"].values() for w in p["samplers"]))
    table = Table(box=None, header_style="bold", pad_edge=False, title="median simple regret")
    table.add_column("problem", no_wrap=True)
    for sampler in who:
        table.add_column(sampler, no_wrap=True)
    for name, problem in figures["problems"].items():
        cells = []
        for sampler in who:
            if (entry := problem["samplers"].get(sampler)) is None:
                cells.append("-")
                continue
            low, high = entry["interval"]
            mark = {"worse": " -", "better": " +"}.get(
                problem.get("against", {}).get(sampler, {}).get("verdict", ""), ""
            )
            text = f"{entry['median']:.3g} ({low:.2g} to {high:.2g}){mark}"
            cells.append(f"[bold]{text}[/]" if problem["rank"][sampler] == 1 else text)
        table.add_row(name, *cells)
    console.print(table)
    console.print("+ ours is better, - ours is worse; unmarked: even within the interval")
    ranks = ", ".join(
        f"{w} {r:.2f}" for w, r in sorted(figures["average_rank"].items(), key=_second)
    )
    ties = figures["average_rank_with_ties"]
    tied = ", ".join(f"{w} {r:.2f}" for w, r in sorted(ties.items(), key=_second))
    console.print(f"average rank: {ranks}; with solved problems as ties: {tied}", markup=False)
    for loss in figures["behind"]:
        low, high = loss["interval"]
        console.print(
            f"behind {loss['other']} on {loss['problem']} by {loss['difference']:.3g} "
            f"({low:.2g} to {high:.2g}): {loss['verdict']}",
            markup=False,
        )


def _second(pair: tuple[str, float]) -> float:
    return pair[1]


def print_landscape(figures: Mapping[str, Any], console: Console) -> None:
    """A row for each strategy."""
    if not figures:
        console.print("no landscape is shipped, so no study was replayed", markup=False)
        return
    table = Table(box=None, header_style="bold", pad_edge=False)
    titles = ("strategy", "score on unseen seeds", "optimism", "covers them", "covers all seeds")
    for title in (*titles, "repetitions"):
        table.add_column(title, no_wrap=True)
    for name, entry in sorted(figures.items(), key=lambda item: -item[1]["quality"]):
        low, high = entry["quality_interval"]
        kinds = ("covered", "covered_by_all")
        covered = [f"{entry[kind]:.0%}" if kind in entry else "-" for kind in kinds]
        score = f"{entry['quality']:.3f} ({low:.2f} to {high:.2f})"
        table.add_row(name, score, f"{entry['optimism']:.3f}", *covered, str(entry["repetitions"]))
    console.print(table)
