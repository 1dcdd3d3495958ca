"""The command line: one verb, one frozen config, one call.

Exit codes: 0, it did what was asked; 2, the words were wrong, and the answer says what to write
instead; 1, it failed, and the answer says where the evidence is. Heavy modules are imported inside
the verbs, so that asking for help is quick.
"""

import dataclasses
import inspect
import io
import itertools
import json
import os
import sys
import tempfile
import time
import traceback
import typing
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hotlap import __version__
from hotlap.config.blending import BlendConfig
from hotlap.config.commands import (
    BenchFirstLapConfig,
    BenchSimConfig,
    BenchTrainConfig,
    Command,
    ReportConfig,
    TracksConfig,
    WatchConfig,
)
from hotlap.config.judging import EvaluateConfig
from hotlap.config.naming import nearest
from hotlap.config.racing import RaceConfig
from hotlap.config.research import ChampionConfig, ResearchConfig
from hotlap.config.research_bench import BenchResearchConfig
from hotlap.config.serving import ServeConfig
from hotlap.config.training import TrainConfig
from hotlap.config.zoo import ZooAddConfig, ZooConfig

REFUSE_WORDS = (
    "hotlap.config.",
    "hotlap.sim.tracks.",
    "hotlap.sim.carracing.",
    "hotlap.tasks.bridges.",
    "hotlap.tasks.registry",
    "hotlap.tasks.memory",
    "hotlap.tasks.drivers",
    "hotlap.tasks.interface",
    "hotlap.evaluation.watching",
    "hotlap.evaluation.carracing_film",
    "hotlap.learning.augmentation",
    "hotlap.learning.augmentation_loss",
    "hotlap.learning.augmentation_mirror",
    "hotlap.learning.factory",
    "hotlap.learning.driver",
    "hotlap.learning.knowing",
    "hotlap.learning.policy_choice",
    "hotlap.learning.ramps",
    "hotlap.learning.roster",
    "hotlap.learning.zips",
    "hotlap.store.run_folder",
    "hotlap.report.forgetting",
    "hotlap.research.blending",
    "hotlap.research.carracing_judging",
    "hotlap.research.carracing_race",
    "hotlap.research.carracing_watching",
    "hotlap.research.champions",
    "hotlap.research.commands",
    "hotlap.research.contestants",
    "hotlap.research.earlier",
    "hotlap.research.engines.ray_engine",
    "hotlap.research.head_to_head",
    "hotlap.research.insight",
    "hotlap.research.lessons",
    "hotlap.research.models",
    "hotlap.research.optimiser",
    "hotlap.research.over_the_wire",
    "hotlap.research.overnight",
    "hotlap.research.samplers",
    "hotlap.research.space",
    "hotlap.research.teachers",
    "hotlap.research.trackers",
    "hotlap.research.worlds",
    "hotlap.research.zoo",
    "hotlap.wire.server.serving",
)
"""A `ValueError` raised in one of these modules is about what the user wrote."""

Answer = dict[str, Any]
"""What a verb found out, in plain JSON values."""


def tracks(cfg: TracksConfig) -> Answer:
    """Print a table of tracks; draw a map of each if asked."""
    from hotlap.evaluation.track_maps import draw_map, facts, fast_line, print_table
    from hotlap.sim.tracks.catalogue import find_track
    from hotlap.sim.tracks.named import NAMES
    from hotlap.sim.tracks.selection import chosen_tracks

    chosen = [find_track(name) for name in chosen_tracks(cfg.names or NAMES)]
    rows = [facts(track) for track in chosen]
    print_table(rows)
    answer: Answer = {"tracks": rows}
    if cfg.draw is not None:
        maps = [draw_map(t, cfg.draw / f"{t.name}.png", *fast_line(t)) for t in chosen]
        print(f"{len(maps)} maps in {cfg.draw}")
        answer["maps"] = [str(path) for path in maps]
    if cfg.sheet is not None:
        from hotlap.config.presets import load_preset
        from hotlap.config.tasks import DonkeyConfig
        from hotlap.evaluation.contact_sheet import draw_sheet

        answer["sheet"] = str(draw_sheet(chosen, cfg.sheet, load_preset(DonkeyConfig, cfg.preset)))
        print(f"sheet: {cfg.sheet}")
    return answer


def train(cfg: TrainConfig) -> Answer:
    """Train a driver."""
    from hotlap.research import commands

    return commands.train(cfg)


def evaluate(cfg: EvaluateConfig) -> Answer:
    """Judge a driver."""
    from hotlap.research import commands

    return commands.evaluate(cfg) | {"asked": cfg.asked()}


def watch(cfg: WatchConfig) -> Answer:
    """Drive, and film it."""
    if cfg.model.startswith("scripted:"):
        from hotlap.evaluation import watching

        return watching.watch(cfg)
    from hotlap.research import commands

    return commands.watch(cfg, cfg.trust)


def race(cfg: RaceConfig) -> Answer:
    """Race two drivers."""
    from hotlap.research import head_to_head

    return head_to_head.race(cfg)


def research(cfg: ResearchConfig) -> Answer:
    """Lead a study, and write its report."""
    from hotlap.report.study_report import write_report
    from hotlap.research import overnight

    answer = overnight.research(cfg, write_report)
    print(f"report: {answer['report']}")
    return answer


def report(cfg: ReportConfig) -> Answer:
    """Say how a run or a study went, from its files."""
    from hotlap.report.forgetting import table_lines, tracks_report
    from hotlap.report.study_report import write_report

    if (cfg.folder / "ledger.jsonl").exists():
        answer: Answer = {"report": str(write_report(cfg.folder))}
        print(f"report: {answer['report']}")
        return answer
    answer = tracks_report(cfg.folder, cfg.picture)
    print("\n".join(table_lines(answer["tracks"])))
    print(f"picture: {answer['picture']}")
    return answer


def champion(cfg: ChampionConfig) -> Answer:
    """Show the holder of the title."""
    from hotlap.research import overnight

    return overnight.champion(cfg)


def blend(cfg: BlendConfig) -> Answer:
    """Average two models."""
    from hotlap.research import blending

    return blending.blend(cfg)


def zoo(cfg: ZooConfig) -> Answer:
    """Tell of the champions that come along."""
    from hotlap.research import zoo

    return zoo.zoo(cfg)


def zoo_add(cfg: ZooAddConfig) -> Answer:
    """Add a champion."""
    from hotlap.research import zoo_adding

    return zoo_adding.add(cfg)


def serve(cfg: ServeConfig) -> Answer:
    """Stand in for the DonkeyCar simulator."""
    from hotlap.wire.server import serving

    return serving.serve(cfg)


def bench_sim(cfg: BenchSimConfig) -> Answer:
    """Measure the simulator."""
    from hotlap.evaluation import sim_benchmark

    return sim_benchmark.bench_sim(cfg)


def bench_train(cfg: BenchTrainConfig) -> Answer:
    """Measure the learners."""
    from hotlap.learning import train_benchmark

    return train_benchmark.bench_train(cfg)


def bench_first_lap(cfg: BenchFirstLapConfig) -> Answer:
    """Time first laps."""
    from hotlap.research import first_lap

    return first_lap.bench_first_lap(cfg)


def bench_research(cfg: BenchResearchConfig) -> Answer:
    """Measure proposers and champions."""
    from hotlap.research import research_benchmark

    return research_benchmark.bench_research(cfg)


@dataclasses.dataclass(frozen=True)
class Verb:
    """A word (or two) of the command line."""

    config: type[Command]
    action: Callable[[Any], Answer]
    positional: tuple[str, ...] = ()
    """Fields given by their place instead of by a flag."""

    @property
    def summary(self) -> str:
        """The first line of the documentation."""
        return (self.config.__doc__ or "").splitlines()[0]


VERBS = {
    "train": Verb(TrainConfig, train, positional=("task",)),
    "research": Verb(ResearchConfig, research, positional=("task",)),
    "champion": Verb(ChampionConfig, champion, positional=("study",)),
    "report": Verb(ReportConfig, report, positional=("folder",)),
    "evaluate": Verb(EvaluateConfig, evaluate, positional=("model",)),
    "tracks": Verb(TracksConfig, tracks, positional=("names",)),
    "watch": Verb(WatchConfig, watch, positional=("model",)),
    "race": Verb(RaceConfig, race, positional=("a", "b")),
    "blend": Verb(BlendConfig, blend, positional=("a", "b")),
    "zoo": Verb(ZooConfig, zoo, positional=("name",)),
    "zoo show": Verb(ZooConfig, zoo, positional=("name",)),
    "zoo add": Verb(ZooAddConfig, zoo_add, positional=("name", "run")),
    "serve": Verb(ServeConfig, serve),
    "bench sim": Verb(BenchSimConfig, bench_sim),
    "bench train": Verb(BenchTrainConfig, bench_train),
    "bench first-lap": Verb(BenchFirstLapConfig, bench_first_lap),
    "bench research": Verb(BenchResearchConfig, bench_research),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Do what the words say; return the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal without ± shall end nothing
            stream.reconfigure(errors="replace")
    # The compiler's advice on a GPU: where float32 is asked for, it is meant.
    warnings.filterwarnings("ignore", message="TensorFloat32 tensor cores")
    if words[:1] == ["--version"]:
        print(f"hotlap {__version__}")
        return 0
    if not words or words[0] in ("-h", "--help"):
        print(overview(VERBS), file=sys.stdout if words else sys.stderr)
        return 0 if words else 2
    try:
        return run(words)
    except KeyboardInterrupt:
        print("hotlap: stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader of our output left (`hotlap tracks | head`); there is nobody to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def run(words: list[str]) -> int:
    """Find the verb, read its config, act on it, and answer."""
    as_json = "--json" in words
    try:
        verb, rest = split_verb(words)
        cfg = read_config(verb, rest)
    except (KeyError, ValueError) as error:
        return complain(error.args[0], 2, as_json)
    except SystemExit as stop:  # tyro has printed its help, or what it did not understand
        code = int(stop.code or 0)
        if code and as_json:
            print(json.dumps({"error": "wrong words; see standard error", "exit_code": code}))
        return code
    try:
        answer = VERBS[verb].action(cfg)
        if as_json:
            print(json.dumps(answer, allow_nan=False))
        sys.stdout.flush()
        return 0
    except BrokenPipeError:
        raise
    except Exception as error:
        if cfg.debug:
            traceback.print_exception(error)
        if is_about_words(error):
            return complain(error.args[0], 2, as_json)
        evidence = keep_traceback(error, words, cfg.root)
        message = f"{type(error).__name__}: {error}; the traceback is in {evidence}"
        return complain(message, 1, as_json)


def split_verb(words: list[str]) -> tuple[str, list[str]]:
    """Part the verb, of one word or two, from what it is told."""
    for count in (2, 1):
        if (verb := " ".join(words[:count])) in VERBS:
            return verb, words[count:]
    group = {name: verb for name, verb in VERBS.items() if name.startswith(f"{words[0]} ")}
    if group and words[1:2] in (["-h"], ["--help"]):
        print(overview(group))
        raise SystemExit(0)
    tried = " ".join(words[:2]) if group else words[0]
    raise KeyError(nearest(tried, group or VERBS, "verb") + "; see hotlap --help")


def read_config(name: str, words: list[str]) -> Command:
    """Turn flags into the verb's frozen config; exits with 2 where they do not fit."""
    import tyro

    verb = VERBS[name]
    hints = typing.get_type_hints(verb.config)
    fields = {field.name: field for field in dataclasses.fields(verb.config)}
    # config/ knows only the standard library, so tyro's mark for "by its place" is put on here.
    by_place: Any = tyro.conf.Positional
    placed = [
        (place, by_place[hints[place]], dataclasses.field(default=fields[place].default))
        for place in verb.positional
    ]
    form = dataclasses.make_dataclass(f"hotlap {name}", placed, bases=(verb.config,), frozen=True)
    base = read_recipe(verb.config, words)
    default = None if base is None else form(**{name: getattr(base, name) for name in fields})
    marks = [tyro.conf.PositionalMetavarFromFieldName]
    if base is None:  # on top of a recipe, yes and no may both be meant
        marks.append(tyro.conf.FlagCreatePairsOff)
    parsed: Any = tyro.cli(
        form,
        default=default,
        prog=f"hotlap {name}",
        description=inspect.cleandoc(verb.config.__doc__ or ""),
        args=words,
        config=marks,
    )
    config = verb.config(**{name: getattr(parsed, name) for name in fields})
    usual = _usual_recipe(config)
    return config if usual is None else read_config(name, [*words, "--recipe", usual])


def _usual_recipe(config: Command) -> str | None:
    """The recipe that comes with a task, where none was named."""
    from hotlap.config.training import TrainConfig

    # Asked twice, since looking for a GPU means importing PyTorch.
    if not isinstance(config, TrainConfig) or config.usual_recipe(on_gpu=True) is None:
        return None
    from hotlap.tasks.devices import choose_device

    return config.usual_recipe(on_gpu=choose_device(config.device)[0] != "cpu")


def read_recipe(config: type[Command], words: list[str]) -> Command | None:
    """What flags come on top of, where the words name a recipe."""
    from hotlap.config.presets import load_recipe

    names = [after for flag, after in itertools.pairwise(words) if flag == "--recipe"]
    names += [word.partition("=")[2] for word in words if word.startswith("--recipe=")]
    if not names or "recipe" not in {field.name for field in dataclasses.fields(config)}:
        return None
    base = load_recipe(config, names[-1])
    if getattr(base, "recipe", None) is not None:
        raise ValueError(f"{names[-1]}: a recipe cannot name another one; leave recipe out of it")
    return base


def overview(verbs: dict[str, Verb]) -> str:
    """Say which verbs there are."""
    lines = [f"  hotlap {name:17}{verb.summary}" for name, verb in verbs.items()]
    return "\n".join(
        [
            "usage: hotlap VERB [...]",
            "",
            *lines,
            "",
            "hotlap VERB --help says what a verb can be told; every verb takes --json and --debug.",
        ]
    )


def is_about_words(error: Exception) -> bool:
    """True where the user can put it right by writing something else.

    That is an unknown name (a failed lookup elsewhere carries the bare key, never this sentence)
    or a value refused by one of the modules in `REFUSE_WORDS`.
    """
    if isinstance(error, KeyError):
        return str(error.args[0]).startswith("unknown ")
    if isinstance(error, ValueError | ImportError | MemoryError):
        *_, (frame, _line) = traceback.walk_tb(error.__traceback__)
        return str(frame.f_globals["__name__"]).startswith(REFUSE_WORDS)
    return False


def keep_traceback(error: Exception, words: list[str], root: Path) -> str:
    """Write down how it failed, and say where."""
    from hotlap.research.publishing import without_secrets

    name = f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.txt"
    lines = traceback.format_exception(error)
    text = without_secrets(f"hotlap {__version__}: hotlap {' '.join(words)}\n\n{''.join(lines)}")
    for folder in (root / "failures", Path(tempfile.gettempdir())):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
        except OSError:
            continue
        return str(folder / name)
    return "nowhere, as no file can be written; --debug prints it"


def complain(message: object, code: int, as_json: bool) -> int:
    """Say what is wrong, to people and, if asked, to scripts."""
    print(f"hotlap: error: {message}", file=sys.stderr)
    if as_json:
        print(json.dumps({"error": str(message), "exit_code": code}))
    return code
