"""What `hotlap research` and `hotlap champion` do."""

import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hotlap.config.judging import EvaluateConfig
from hotlap.config.naming import nearest
from hotlap.config.presets import SHIPPED
from hotlap.config.research import ChampionConfig, ResearchConfig
from hotlap.config.training import TrainConfig
from hotlap.records import brief, claim_in_words
from hotlap.research.book import Plan
from hotlap.research.champions import FOLDER, MODEL, find_study, read_champion, save_champion
from hotlap.research.earlier import read_earlier
from hotlap.research.engines.local import LocalEngine, sweep
from hotlap.research.night import Night, PatientBook, is_full, patiently
from hotlap.research.optimiser import describe, open_book
from hotlap.research.proposer import Seen
from hotlap.research.publishing import Publisher, without_secrets
from hotlap.research.space import Dimension, SearchSpace, apply, load_space
from hotlap.research.study import Study
from hotlap.sim.threads import usable_cores
from hotlap.store.atomic import read_folder
from hotlap.store.bundle import is_bundle, load_bundle
from hotlap.store.ledger import Ledger, read_ledger, repair_ledger

if TYPE_CHECKING:
    from hotlap.research.engines.ray_engine import RayEngine

UNSEEN = ("warehouse", "mini_monaco", "circuit_launch", "loop:7")
"""Tracks on which a champion is shown, apart from those it was trained on."""
SHOWN = 10
"""Most of the tracks it was trained on that it is shown on."""
TRIAL = (sys.executable, "-m", "hotlap.research.trial")


def research(
    config: ResearchConfig, report: Callable[[Path], Path] | None = None
) -> dict[str, Any]:
    """Lead a study to its end, or go on with it; `report` writes a page about its folder."""
    space = _space(config)
    if config.trainer is None:
        _refuse_what_cannot_train(config, space)
    else:
        _refuse_what_cannot_start(config)
    _refuse_missing_gpus(config)
    folder = config.folder
    if config.repair and (folder / "ledger.jsonl").exists():
        for line in repair_ledger(folder / "ledger.jsonl"):
            print(f"dropped line {line.number}: {line.problem}", flush=True)
    head = describe(space, config.study_config(1))
    head |= {"training": config.training(), "trainer": config.trainer}
    if not folder.exists():
        for path in config.earlier:  # refused, if so, before anything is written
            read_earlier(path, space, config.training())
    with open_book(folder, head) as ledger:
        say = Log(folder / "log.txt")
        for note in (*ledger.contents.notes, *sweep(folder / "trials")):
            say(note)
        earlier = _earlier(config, space, ledger, say)
        publisher = None
        if config.remote is not None:
            publisher = Publisher(folder, config.remote, config.push_every)
        try:
            with _engine(config) as engine:
                study_config = config.study_config(engine.capacity)
                study = Study(space, study_config, PatientBook(ledger), None, earlier, say)
                reason = _run_all(config, study, engine, say, publisher)
        except BaseException:
            if publisher is not None:
                publisher.close()
            raise
        answer = _conclude(config, study, reason, say, publisher, report)
    if not study.has_scored:
        why = brief(str(study.book.records("trial")[-1]["reason"])) if study.finished else "no run"
        raise RuntimeError(f"nothing has scored: {why}; see {folder / 'log.txt'}")
    return answer


def _run_all(
    config: ResearchConfig,
    study: Study,
    engine: "LocalEngine | RayEngine",
    say: Callable[[str], None],
    publisher: Publisher | None,
) -> str:
    """Make all runs there are to make, the last test too; why there are no more."""
    study.go_on()
    made = len(study.finished)
    say(
        f"study {config.name}: {len(study.space)} parameters, {engine.capacity} at a time, "
        + (f"going on after {made} trials" if made else f"in {config.folder}")
    )
    night = _night(config, study, engine, say, publisher)
    reason = night.run()
    say(f"stopped: {reason}")
    night.test()
    return reason


def _conclude(
    config: ResearchConfig,
    study: Study,
    reason: str,
    say: Callable[[str], None],
    publisher: Publisher | None,
    report: Callable[[Path], Path] | None,
) -> dict[str, Any]:
    """Say what the runs come to, show the champion, and write, push and return all of it."""
    folder = config.folder
    patiently(lambda: _keep_champion(study, folder, say))
    certificate = study.certify()
    _tell_certificate(certificate, say)
    shown = _show(config, study, folder, say)
    # Before the last push, which takes it along.
    page = None if report is None else patiently(lambda: report(folder))
    if publisher is not None:
        say(f"pushing the results to {without_secrets(config.remote or '')}")
        for record in publisher.finish(len(study.finished)):
            study.book.append("push", **record)
            if not record["ok"]:
                say(f"push failed: {record['reason']}")
    answer = _answer(study, folder, reason, certificate, shown)
    return answer | {"report": None if page is None else str(page)}


def _keep_champion(study: Study, folder: Path, say: Callable[[str], None]) -> None:
    """Put the champion in its place; what a trainer left there to copy must not end the night."""
    try:
        save_champion(study, folder)
    except Exception as error:
        if is_full(error):
            raise
        text = f"the champion could not be kept: {type(error).__name__}: {error!s:.300}"
        if text not in [note.get("text") for note in study.book.records("note")]:
            study.book.append("note", text=text)
            say(text)


def champion(config: ChampionConfig) -> dict[str, Any]:
    """Show a study's champion; judge, film or copy it where that is asked for."""
    folder = find_study(config.study, config.root)
    manifest = read_champion(folder)
    if manifest is None:
        raise ValueError(f"{folder} has no champion yet: {_who_leads(folder)}; let it go on")
    print(f"champion of {folder}: trial {manifest['trial']}, {manifest['timestamp']}")
    for name, value in manifest["params"].items():
        print(f"  {name:26}{value}")
    if manifest["claimed"] is not None:
        low, high = manifest["interval"]
        claim = claim_in_words(manifest["claimed"], (low, high), manifest["fresh_seeds"])
        print(f"claimed {claim}; this model: {manifest['mean_reward']:.2f}")
    model = folder / FOLDER / MODEL
    print(f"model: {model if model.is_dir() else 'none'}", flush=True)
    found = str(model) if model.is_dir() else None
    answer: dict[str, Any] = {"study": str(folder), "model": found, **manifest}
    if not model.is_dir() and (config.export or config.track or config.video):
        raise ValueError(f"{folder} keeps no model of its champion, whose trainer left none")
    if config.export is not None:
        if config.export.exists():
            raise ValueError(f"{config.export} exists; name a new folder to export to")
        if is_bundle(model):
            load_bundle(model)  # which refuses a damaged one
        export = config.export
        read_folder(model, lambda found: shutil.copytree(found, export))
        print(f"exported to {config.export}")
        answer["export"] = str(config.export)
    if config.track or config.video is not None:
        answer["evaluation"] = _drive(model, config.track, config.episodes, config.video)
    return answer


def _who_leads(folder: Path) -> str:
    """Who may become champion, as far as a study has come."""
    ledger = read_ledger(folder / "ledger.jsonl")
    standing = ledger.records("standing")[-1:]
    leader = standing[0]["leader"] if standing else None
    if leader is None:
        return "nothing has scored"
    runs = [r for r in ledger.records("trial") if r["config"] == leader and r["role"] != "test"]
    expected = f"{standing[0]['expected']:.2f} expected after {len(runs)} runs"
    return f"a title takes runs on three fresh seeds, and {leader} leads, {expected}"


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
        try:
            print(text, flush=True)
        except BrokenPipeError:  # the reader left; the night goes on, and so must later prints
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except OSError:  # the screen may be a file on a full disk
            pass


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
    from hotlap.sim.tracks.selection import chosen_tracks

    params = space.decode(space.settle(np.zeros((1, len(space))))[0])
    train = apply(TrainConfig, space.fixed | config.training() | params, "settings")
    refuse_unknown_run(train.settle("cpu", False, known_tasks()), trust=False)
    for track in chosen_tracks(config.unseen):
        find_track(track)


def _refuse_what_cannot_start(config: ResearchConfig) -> None:
    """Stop now where the command of a trial is none on this machine."""
    program = config.trainer_words[0]
    if config.engine == "local" and shutil.which(program) is None:
        raise ValueError(f"trainer: there is no program {program!r} here")


def _refuse_missing_gpus(config: ResearchConfig) -> None:
    """Stop now where a GPU is asked for that is not there; what a cluster has, Ray knows."""
    if config.engine == "local" and config.device.startswith("cuda"):
        import torch

        have, wanted = torch.cuda.device_count(), int(config.device.partition(":")[2] or 0)
        if wanted >= have:
            raise ValueError(f"--device {config.device}: this machine has {have} GPUs")


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


def _engine(config: ResearchConfig) -> "LocalEngine | RayEngine":
    """Who runs the trials, as many at a time as there is room for."""
    if config.engine == "ray":
        from hotlap.research.engines.ray_engine import RayEngine

        return RayEngine(config.address or "local", config.workers or None)
    gpus = _gpus(config)
    room = usable_cores()
    if gpus:
        room = len(gpus) * (int(1 / config.gpu_share) if config.gpu_share else 1)
    return LocalEngine(config.workers or room, gpus=gpus)


def _gpus(config: ResearchConfig) -> tuple[int, ...]:
    """This machine's GPUs for trials, by number."""
    if config.device == "cpu":
        return ()
    import torch

    _, _, number = config.device.partition(":")
    if number:
        return (int(number),)
    return tuple(range(torch.cuda.device_count()))


def _night(
    config: ResearchConfig,
    study: Study,
    engine: "LocalEngine | RayEngine",
    say: Callable[[str], None],
    publisher: Publisher | None,
) -> Night:
    on_gpu = engine.has_gpus and config.device != "cpu"
    limits = {
        "time_limit": config.time_limit,
        "memory_limit": int(config.memory_limit * 1e9),
        "heartbeat_limit": config.idle_limit,
        # A command of one's own may never tell how far it is.
        "first_heartbeat_limit": config.time_limit if config.trainer is not None else 0.0,
        "gpu": (config.gpu_share or 1.0) if on_gpu else 0.0,
    }
    settings = study.space.fixed | config.training() | {"device": "cuda" if on_gpu else "cpu"}
    command = TRIAL if config.trainer is None else config.trainer_words
    night = Night(
        study, config.folder, engine, command, limits, settings, say, publisher, config.hours,
        config.cooldown,
    )  # fmt: skip

    def on_finish(plan: Plan, record: dict[str, Any]) -> None:
        _keep_champion(study, config.folder, say)

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
    from hotlap.sim.tracks.selection import chosen_tracks, some_of

    trained = some_of(chosen_tracks(config.track or ("generated_track",)), SHOWN)
    unseen = chosen_tracks(config.unseen or UNSEEN)
    if not config.unseen:
        unseen = tuple(track for track in unseen if track not in trained)
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
