"""What `hotlap research` and `hotlap champion` do."""

import contextlib
import os
import shlex
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from hotlap.config.naming import nearest
from hotlap.config.presets import SHIPPED
from hotlap.config.research import ChampionConfig, ResearchConfig
from hotlap.config.training import EvaluateConfig, TrainConfig
from hotlap.research.book import Plan
from hotlap.research.champions import FOLDER, MODEL, find_study, read_champion, save_champion
from hotlap.research.earlier import read_earlier
from hotlap.research.engines.job import Engine
from hotlap.research.engines.local import LocalEngine, sweep
from hotlap.research.night import Night, PatientBook, patiently
from hotlap.research.optimiser import describe, open_book
from hotlap.research.proposer import Seen
from hotlap.research.publishing import Publisher
from hotlap.research.space import Dimension, SearchSpace, apply, load_space
from hotlap.research.study import Study
from hotlap.store.ledger import Ledger, repair_ledger

UNSEEN = ("warehouse", "mini_monaco", "circuit_launch", "loop:7")
"""Tracks on which a champion is shown, apart from those it was trained on."""
TRIAL = (sys.executable, "-m", "hotlap.research.trial")


def research(
    config: ResearchConfig, report: Callable[[Path], Path] | None = None
) -> dict[str, Any]:
    """Lead a study to its end, or go on with it; `report` writes a page about its folder."""
    space = _space(config)
    if config.trainer is None:
        _refuse_what_cannot_train(config, space)
    folder = config.folder
    if config.repair and (folder / "ledger.jsonl").exists():
        for line in repair_ledger(folder / "ledger.jsonl"):
            print(f"dropped line {line.number}: {line.problem}", flush=True)
    workers = config.workers or _room(config)
    study_config = config.study_config(workers)
    head = describe(space, study_config) | {"training": config.training()}
    if not folder.exists():
        for path in config.earlier:  # refused, if so, before anything is written
            read_earlier(path, space, config.training())
    with open_book(folder, head) as ledger:
        say = Log(folder / "log.txt")
        for note in sweep(folder / "trials"):
            say(note)
        earlier = _earlier(config, space, ledger, say)
        study = Study(space, study_config, PatientBook(ledger), None, earlier, say)
        study.go_on()
        made = len(study.finished)
        say(
            f"study {config.name}: {len(space)} parameters, {workers} at a time, "
            + (f"going on after {made} trials" if made else f"in {folder}")
        )
        publisher = None
        if config.remote is not None:
            publisher = Publisher(folder, config.remote, config.push_every)
        try:
            reason = _run_all(config, study, folder, say, publisher)
        except BaseException:
            if publisher is not None:
                publisher.close()
            raise
        return _conclude(config, study, folder, reason, say, publisher, report)


def _run_all(
    config: ResearchConfig,
    study: Study,
    folder: Path,
    say: Callable[[str], None],
    publisher: Publisher | None,
) -> str:
    """Make all runs there are to make, the last test too; why there are no more."""
    engine = _engine(config, study.config.workers)
    try:
        night = _night(config, study, folder, engine, say, publisher)
        reason = night.run()
        say(f"stopped: {reason}")
        night.test()
        return reason
    finally:
        engine.close()


def _conclude(
    config: ResearchConfig,
    study: Study,
    folder: Path,
    reason: str,
    say: Callable[[str], None],
    publisher: Publisher | None,
    report: Callable[[Path], Path] | None,
) -> dict[str, Any]:
    """Say what the runs come to, show the champion, and write, push and return all of it."""
    patiently(lambda: save_champion(study, folder))
    certificate = study.certify()
    _tell_certificate(certificate, say)
    shown = _show(config, study, folder, say)
    # Before the last push, which takes it along.
    page = None if report is None else patiently(lambda: report(folder))
    if publisher is not None:
        for record in publisher.finish(len(study.finished)):
            study.book.append("push", **record)
    answer = _answer(study, folder, reason, certificate, shown)
    return answer | {"report": None if page is None else str(page)}


def champion(config: ChampionConfig) -> dict[str, Any]:
    """Show a study's champion; judge, film or copy it where that is asked for."""
    folder = find_study(config.study, config.root)
    manifest = read_champion(folder)
    if manifest is None:
        raise ValueError(
            f"{folder} has no champion yet: a title takes runs on three fresh seeds; let it go on"
        )
    print(f"champion of {folder}: trial {manifest['trial']}, {manifest['timestamp']}")
    for name, value in manifest["params"].items():
        print(f"  {name:26}{value}")
    if manifest["claimed"] is not None:
        low, high = manifest["interval"]
        print(
            f"claimed {manifest['claimed']:.2f} [{low:.2f}, {high:.2f}] over "
            f"{manifest['fresh_seeds']} fresh seeds; this model: {manifest['mean_reward']:.2f}"
        )
    model = folder / FOLDER / MODEL
    print(f"model: {model if model.is_dir() else 'none'}", flush=True)
    found = str(model) if model.is_dir() else None
    answer: dict[str, Any] = {"study": str(folder), "model": found, **manifest}
    if not model.is_dir() and (config.export or config.track or config.video):
        raise ValueError(f"{folder} keeps no model of its champion, whose trainer left none")
    if config.export is not None:
        if config.export.exists():
            raise ValueError(f"{config.export} exists; name a new folder to export to")
        shutil.copytree(model, config.export)
        print(f"exported to {config.export}")
        answer["export"] = str(config.export)
    if config.track or config.video is not None:
        answer["evaluation"] = _drive(model, config.track, config.episodes, config.video)
    return answer


class Log:
    """The log for people: a line on the screen and in a file, at once."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __call__(self, text: str) -> None:
        """Say something."""
        if not text.startswith("  ") or not text.strip()[:1].isdigit():
            self._print(text)  # candidates go to the file alone
        try:
            with open(self._path, "a", encoding="utf-8") as file:
                file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')}  {text}\n")
        except OSError as error:
            self._print(f"(log.txt cannot be written: {error.strerror})")

    @staticmethod
    def _print(text: str) -> None:
        with contextlib.suppress(OSError):  # the screen may be a file on a full disk
            print(text, flush=True)


def _space(config: ResearchConfig) -> SearchSpace:
    name = config.space
    if name == "auto":
        shipped = {p.stem for p in (SHIPPED / "research").glob("*.toml")}
        name = config.task if config.task in shipped else config.task.partition("-")[0]
        if name not in shipped:
            raise ValueError(
                f"there is no search space for {config.task} yet; name a TOML file by --space, "
                f"or one of {', '.join(sorted(shipped))}"
            )
    space = load_space(name, TrainConfig)
    low, high = config.min_timesteps, config.max_timesteps
    if low is not None or high is not None:
        if "timesteps" not in [d.name for d in space]:
            raise ValueError("this search space leaves the timesteps alone; set them in its file")
        space = space.restrict("timesteps", low, high)
    return space if config.agent is None else only(space, "agent", config.agent)


def _refuse_what_cannot_train(config: ResearchConfig, space: SearchSpace) -> None:
    """Stop now at a task, preset or track that would fail in every run, or only in the morning."""
    from hotlap.research.commands import refuse_unknown_run
    from hotlap.research.worlds import known_tasks
    from hotlap.sim.tracks.catalogue import find_track

    params = space.decode(space.settle(np.zeros((1, len(space))))[0])
    train = apply(TrainConfig, space.fixed | config.training() | params, "settings")
    refuse_unknown_run(train.settle("cpu", False, known_tasks()), trust=False)
    for track in config.unseen:
        find_track(track)


def only(space: SearchSpace, name: str, value: Any) -> SearchSpace:
    """The space with one choice taken; what hangs on another falls away."""
    chosen = space[name]
    if not chosen.contains(value):
        known = [str(level) for level in chosen.levels or ()]
        raise ValueError(nearest(str(value), known, name))
    kept: list[Dimension] = []
    gone: set[str] = set()
    for dimension in space:
        when = dict(dimension.when)
        if dimension.name == name:
            continue
        if value not in when.pop(name, (value,)) or gone & set(when):
            gone.add(dimension.name)
            continue
        kept.append(Dimension(dimension.name, dimension.distribution, when))
    return SearchSpace(tuple(kept), space.fixed | {name: value})


def _earlier(
    config: ResearchConfig, space: SearchSpace, ledger: Ledger, say: Callable[[str], None]
) -> list[Seen]:
    """Results from elsewhere; copied into the ledger, since decisions hang on them ever after."""
    written = {record["source"]: record for record in ledger.records("earlier")}
    for path in config.earlier:
        if str(path) in written:
            continue
        found = read_earlier(path, space, config.training())
        for note in found.notes:
            say(note)
        say(f"{path}: {len(found.records)} earlier results")
        rows = [[run.params, run.mean_reward, run.elapsed_sec] for run in found.records]
        written[str(path)] = ledger.append("earlier", source=str(path), results=rows)
    return [
        Seen(params, () if score is None else (score,), int(score is None), seconds)
        for record in written.values()
        for params, score, seconds in record["results"]
    ]


def _room(config: ResearchConfig) -> int:
    """How many runs at a time this machine bears."""
    gpus = _gpus(config)
    if gpus:
        return len(gpus) * (int(1 / config.gpu_share) if config.gpu_share else 1)
    return max(1, len(os.sched_getaffinity(0)))


def _gpus(config: ResearchConfig) -> tuple[int, ...]:
    if config.device == "cpu":
        return ()
    import torch

    _, _, number = config.device.partition(":")
    if number:
        return (int(number),)
    return tuple(range(torch.cuda.device_count()))


def _engine(config: ResearchConfig, workers: int) -> Engine:
    if config.engine == "ray":
        from hotlap.research.engines.ray_engine import RayEngine

        return RayEngine(config.address or "local", workers)
    return LocalEngine(workers, gpus=_gpus(config))


def _night(
    config: ResearchConfig,
    study: Study,
    folder: Path,
    engine: Engine,
    say: Callable[[str], None],
    publisher: Publisher | None,
) -> Night:
    on_gpu = bool(_gpus(config))
    limits = {
        "time_limit": config.time_limit,
        "memory_limit": int(config.memory_limit * 1e9),
        "heartbeat_limit": config.idle_limit,
        "gpu": (config.gpu_share or 1.0) if on_gpu else 0.0,
    }
    settings = study.space.fixed | config.training() | {"device": "cuda" if on_gpu else "cpu"}
    command = TRIAL if config.trainer is None else tuple(shlex.split(config.trainer))
    night = Night(
        study, folder, engine, command, limits, settings, say, publisher, config.hours,
        config.cooldown,
    )  # fmt: skip

    def on_finish(plan: Plan, record: dict[str, Any]) -> None:
        save_champion(study, folder)

    night.on_finish = on_finish
    return night


def _tell_certificate(certificate: dict[str, Any] | None, say: Callable[[str], None]) -> None:
    if certificate is None:
        return
    say("on untouched seeds:")
    for row in certificate["finalists"]:
        claimed = "-" if row["claimed"] is None else f"{row['claimed']:.2f}"
        optimism = "" if row["optimism"] is None else f", optimism {row['optimism']:+.2f}"
        within = "" if row["low"] is None else f" [{row['low']:.2f}, {row['high']:.2f}]"
        seeds = "one seed" if row["runs"] == 1 else f"{row['runs']} seeds"
        say(
            f"  {'champion' if row['champion'] else 'finalist'} {row['config']}: claimed "
            f"{claimed}, tested {row['tested']:.2f}{within} on {seeds}{optimism}"
        )


def _show(
    config: ResearchConfig, study: Study, folder: Path, say: Callable[[str], None]
) -> dict[str, Any] | None:
    """Let the champion drive where it never was; what that gave, written down once."""
    model = folder / FOLDER / MODEL
    ours = config.trainer is None and config.task.startswith("donkey")
    if not ours or not model.is_dir():
        return None
    written = study.book.records("shown")
    if written and written[-1]["after"] == len(study.finished):
        return written[-1]
    try:
        tables, film = _drive_at_home_and_away(config, folder)
    except Exception as error:  # the night's results do not hang on a film
        say(f"the champion could not be shown: {type(error).__name__}: {error}")
        study.book.append("note", text=f"the champion could not be shown: {error}")
        return None
    gap = tables["trained"]["mean_return"] - tables["unseen"]["mean_return"]
    print(f"gap between trained and unseen tracks: {gap:.2f}", flush=True)
    return study.book.append(
        "shown", after=len(study.finished), gap=gap, film=None if film is None else film.name,
        **tables,
    )  # fmt: skip


def _drive_at_home_and_away(
    config: ResearchConfig, folder: Path
) -> tuple[dict[str, Any], Path | None]:
    """How the champion drives on the tracks of its training and on others, and the film of it."""
    trained = config.track or ("generated_track",)
    unseen = config.unseen or tuple(track for track in UNSEEN if track not in trained)
    film = folder / "champion.mp4" if config.video else None
    tables = {}
    for name, tracks in (("trained", trained), ("unseen", unseen)):
        print(f"\nthe champion on {name} tracks: {', '.join(tracks)}", flush=True)
        tables[name] = _drive(
            folder / FOLDER / MODEL,
            tracks,
            config.eval_episodes * len(tracks),
            film if name == "trained" else None,
        )
    return tables, film


def _drive(
    model: Path, tracks: tuple[str, ...], episodes: int, film: Path | None
) -> dict[str, Any]:
    from hotlap.research.commands import evaluate

    answer = evaluate(
        EvaluateConfig(
            str(model), track=tracks, episodes=episodes, seed=30_000, video=film, device="cpu"
        )
    )
    return {name: value for name, value in answer.items() if name != "episodes"}


def _answer(
    study: Study,
    folder: Path,
    reason: str,
    certificate: dict[str, Any] | None,
    shown: dict[str, Any] | None,
) -> dict[str, Any]:
    claim = study.claim()
    tested = [row for row in (certificate or {}).get("finalists", []) if row["champion"]]
    states = [record["run_status"] for record in study.book.records("trial")]
    return {
        "study": str(folder),
        "trials": len(states),
        "statuses": {state: states.count(state) for state in sorted(set(states))},
        "reason": reason,
        "champion": study.champion_params(),
        "claimed": None if claim is None else claim.mean,
        "interval": None if claim is None else list(claim.interval()),
        "tested": tested[0]["tested"] if tested else None,
        "optimism": tested[0]["optimism"] if tested else None,
        "model": str(folder / FOLDER / MODEL) if (folder / FOLDER / MODEL).is_dir() else None,
        "lap_rate": None if shown is None else shown["trained"]["lap_rate"],
        "unseen_lap_rate": None if shown is None else shown["unseen"]["lap_rate"],
        "gap": None if shown is None else shown["gap"],
        "video": None if shown is None or shown["film"] is None else str(folder / shown["film"]),
    }
