"""A study as a page: what was found, how sure that is, and what it cost."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hotlap.records import brief, claim_in_words
from hotlap.store.atomic import write_file
from hotlap.store.ledger import read_ledger

Record = dict[str, Any]
COLOURS = {
    "explore": "#8aa4c8",
    "replicate": "#e0a030",
    "confirm": "#c04040",
    "seal": "#7a3fb0",
    "test": "#308050",
}
MOST_TITLES, MOST_ROWS = 12, 10


def write_report(folder: Path) -> Path:
    """Write report.md, and the picture in it, from the study's ledger; returns its path."""
    records = read_ledger(folder / "ledger.jsonl").records()
    (folder / "report").mkdir(exist_ok=True)
    draw_history(records, folder / "report" / "history.png")
    write_file(folder / "report.md", render(records, folder.name).encode())
    return folder / "report.md"


def render(records: Sequence[Record], name: str) -> str:
    """The page, as Markdown."""
    parts = [f"# {name}", _summary(records)]
    parts += ["![scores and certainty](report/history.png)"]
    parts += _section("On untouched seeds", _finalists(records))
    parts += _section("The champion at the wheel", _shown(records))
    parts += _section("Best configurations", _best(records))
    parts += _section("Titles, given and refused", _titles(records))
    parts += _section("What went wrong", _failures(records))
    return "\n\n".join(parts) + "\n"


def _of(records: Sequence[Record], kind: str) -> list[Record]:
    return [record for record in records if record["kind"] == kind]


def _section(title: str, text: str) -> list[str]:
    return [f"## {title}", text] if text else []


def _summary(records: Sequence[Record]) -> str:
    trials, stops = _of(records, "trial"), _of(records, "stop")
    hours = sum(trial["elapsed_sec"] for trial in trials) / 3600
    lines = [
        f"{len(trials)} runs, {hours:.2f} hours of running in all. "
        + (f"Ended by {stops[-1]['reason']}." if stops else "Not at an end.")
    ]
    promoted = [t for t in _of(records, "title") if t["verdict"] == "promoted"]
    if not promoted:
        return "\n".join([*lines, "", "Nobody holds the title."])
    last = promoted[-1]
    lines += ["", f"**Champion {last['config']}**: {_params(last['params'])}.", ""]
    tested = [
        row
        for certificate in _of(records, "certificate")[-1:]
        for row in certificate["finalists"]
        if row["config"] == last["config"] and row["claimed"] is not None
    ]
    if tested:
        row = tested[0]
        seeds = "one seed" if row["runs"] == 1 else f"{row['runs']} seeds"
        within = "" if row["low"] is None else f" [{row['low']:.2f}, {row['high']:.2f}]"
        lines.append(
            f"Claimed {row['claimed']:.2f}; on {seeds} that nothing had touched it scored "
            f"{row['tested']:.2f}{within}: optimism {row['optimism']:+.2f}."
        )
    else:
        claim = claim_in_words(last["mean"], (last["low"], last["high"]), last["runs"])
        lines.append(f"Claimed {claim} when it took the title; not tested.")
    return "\n".join(lines)


def _finalists(records: Sequence[Record]) -> str:
    rows = [
        [
            f"**{row['config']}**" if row["champion"] else row["config"],
            _number(row["claimed"]),
            _number(row["tested"]),
            "-" if row["low"] is None else f"{row['low']:.2f} to {row['high']:.2f}",
            _number(row["optimism"]),
            str(row["runs"]),
        ]
        for certificate in _of(records, "certificate")[-1:]
        for row in certificate["finalists"]
    ]
    return _table(["configuration", "claimed", "tested", "95 %", "optimism", "seeds"], rows)


def _shown(records: Sequence[Record]) -> str:
    rows = []
    for shown in _of(records, "shown")[-1:]:
        for where in ("trained", "unseen"):
            for track, row in shown[where]["tracks"].items():
                laps = row["lap_rate"]
                rows.append(
                    [
                        track,
                        where,
                        _number(row["mean_return"]),
                        "-" if laps is None else f"{100 * laps:.0f} %",
                        _number(row["best_lap_time"]),
                    ]
                )
    return _table(["track", "", "mean return", "episodes with a lap", "best lap, s"], rows)


def _best(records: Sequence[Record]) -> str:
    found: dict[str, list[Record]] = {}
    for trial in _of(records, "trial"):
        if trial["role"] != "test":
            found.setdefault(trial["config"], []).append(trial)
    rows = []
    for config, its in found.items():
        scores = [t["mean_reward"] for t in its if t["mean_reward"] is not None]
        if scores:
            mean = sum(scores) / len(scores)
            rows.append((mean, config, its, scores))
    # One lucky run must not stand on top: what the seeds scatter is taken off, the less the more
    # runs there are.
    scatter = [s["seed_sd"] for s in _of(records, "standing") if "seed_sd" in s]
    rows.sort(key=lambda row: -(row[0] - (scatter or [0.0])[-1] / len(row[3]) ** 0.5))
    return _table(
        ["configuration", "mean", "runs", "scores", "settings"],
        [
            [config, f"{mean:.2f}", str(len(its)), _scores(scores), _params(its[0]["params"])]
            for mean, config, its, scores in rows[:MOST_ROWS]
        ],
    )


def _titles(records: Sequence[Record]) -> str:
    titles = _of(records, "title")
    lines = [
        f"- after trial {title['after']}: {title['config']} **{title['verdict']}**: "
        f"{title['reason']}"
        for title in titles[-MOST_TITLES:]
    ]
    if len(titles) > MOST_TITLES:
        lines.insert(0, f"The last {MOST_TITLES} of {len(titles)}:")
    return "\n".join(lines)


def _failures(records: Sequence[Record]) -> str:
    lines = [
        f"- trial {trial['trial']}, {trial['run_status']}: "
        f"{brief(trial['reason']) if trial['reason'] else 'no reason'}"
        for trial in _of(records, "trial")
        if trial["run_status"] not in ("ok", "pruned")
    ]
    pushes = [push for push in _of(records, "push") if not push["ok"]]
    lines += [f"- push failed: {push['reason']}" for push in pushes[-3:]]
    return "\n".join(lines[-30:])


def draw_history(records: Sequence[Record], path: Path) -> None:
    """Scores over the trials, what was claimed of each champion, and how sure the end is."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 5.5), layout="constrained")
    scores, sure = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
    trials = _of(records, "trial")
    for role, colour in COLOURS.items():
        own = [t for t in trials if t["role"] == role and t["mean_reward"] is not None]
        scores.scatter(
            [t["trial"] for t in own],
            [t["mean_reward"] for t in own],
            s=22, color=colour, label={"explore": "tried", "replicate": "again"}.get(role, role),
        )  # fmt: skip
    failed = [t["trial"] for t in trials if t["mean_reward"] is None]
    low = min((t["mean_reward"] for t in trials if t["mean_reward"] is not None), default=0.0)
    scores.scatter(failed, [low] * len(failed), marker="x", color="black", label="failed")
    _draw_claims(scores, records, trials)
    scores.set_ylabel("score")
    handles, _ = scores.get_legend_handles_labels()
    if handles:
        scores.legend(
            loc="lower left", bbox_to_anchor=(0.0, 1.0), fontsize=8, ncols=7, frameon=False
        )
    standing = [s for s in _of(records, "standing") if "within" in s]
    standing.sort(key=lambda standing: int(standing["after"]))  # trials end in any order
    sure.plot([s["after"] for s in standing], [s["within"] for s in standing], color="#404040")
    sure.axhline(0.9, color="#c04040", linewidth=0.8, linestyle="--")
    sure.xaxis.get_major_locator().set_params(integer=True)
    sure.set(ylim=(-0.03, 1.03), xlabel="trial", ylabel="P(leader is\nas good as any)")
    for axes in (scores, sure):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110)


def _draw_claims(axes: Any, records: Sequence[Record], trials: Sequence[Record]) -> None:
    promoted = [t for t in _of(records, "title") if t["verdict"] == "promoted"]
    end = max((t["trial"] for t in trials), default=0)
    for place, title in enumerate(promoted):
        until = promoted[place + 1]["after"] if place + 1 < len(promoted) else end
        span = [title["after"], max(until, title["after"] + 0.5)]
        label = "champion, as claimed" if place == 0 else None
        axes.plot(span, [title["mean"]] * 2, color="#c04040", linewidth=1.5, label=label)
        axes.fill_between(span, title["low"], title["high"], color="#c04040", alpha=0.12)


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return ""
    lines = ["| " + " | ".join(titles) + " |", "|" + "---|" * len(titles)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def _params(params: Record) -> str:
    return ", ".join(
        f"{name} {value:.3g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in params.items()
    )


def _scores(scores: Sequence[float]) -> str:
    return ", ".join(f"{score:.0f}" for score in scores[:8])


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
