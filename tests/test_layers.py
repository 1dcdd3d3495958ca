"""Imports point one way. The table says who may import whom; everything else is a mistake."""

import ast
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import hotlap

BASE = {"config", "records"}
WORLD = BASE | {"sim", "tasks"}
ALL = WORLD | {"tasks.bridges", "learning", "evaluation", "selfplay", "store", "research"}
ALL |= {"wire", "wire.server", "doctor", "report", "cli"}
MAY_IMPORT: dict[str, set[str]] = {
    "config": set(),
    "records": set(),
    "sim": {"config"},
    "store": BASE,
    "wire": BASE,
    "testing": WORLD,
    "tasks": BASE | {"sim", "tasks.bridges"},
    "tasks.bridges": WORLD | {"wire"},
    "wire.server": WORLD | {"wire"},
    "learning": WORLD,
    "evaluation": WORLD,
    "selfplay": WORLD | {"learning", "evaluation"},
    "research": WORLD | {"tasks.bridges", "learning", "evaluation", "selfplay", "store"},
    "report": BASE | {"store"},
    "doctor": BASE | {"store"},
    "cli": ALL,
    "__main__": {"cli"},
}
STANDARD_LIBRARY_ONLY = BASE


def mistakes(package: Path) -> list[str]:
    """Every import in the package that the table does not allow, unknown parts, and one cycle."""
    modules = {_name(path, package): path for path in sorted(package.rglob("*.py"))}
    found, needs = [], {}
    for module, path in modules.items():
        layer = _layer(module)
        if layer is None and module != package.name:
            found.append(f"{module} belongs to no layer of the table")
            continue
        needs[module] = set()
        for target, runs_at_import in _imports(path, modules):
            needs[module] |= {target} & set(modules) if runs_at_import else set()
            if not _allowed(layer, target, package.name):
                found.append(f"{module} must not import {target}")
    try:
        TopologicalSorter(needs).prepare()
    except CycleError as error:
        found.append(f"cycle: {' <- '.join(error.args[1])}")
    return found


def _name(path: Path, package: Path) -> str:
    parts = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _layer(module: str) -> str | None:
    """The longest entry of the table that the module lies in."""
    inside = module.partition(".")[2]
    holders = [layer for layer in MAY_IMPORT if f"{inside}.".startswith(f"{layer}.")]
    return max(holders, key=len, default=None)


def _allowed(layer: str | None, target: str, package: str) -> bool:
    root = target.partition(".")[0]
    if not root:  # a relative import: write the whole name
        return False
    if root != package:
        return layer not in STANDARD_LIBRARY_ONLY or root in sys.stdlib_module_names
    if target == package:  # the version, for whoever wants it
        return True
    other = _layer(target)
    return layer is not None and other in MAY_IMPORT[layer] | {layer}


def _imports(path: Path, modules: dict[str, Path]) -> Iterator[tuple[str, bool]]:
    """What a file imports, and whether it does so while it is being imported itself."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    lazy = {id(n) for f in ast.walk(tree) if isinstance(f, functions) for n in ast.walk(f)}
    lazy |= {id(n) for f in ast.walk(tree) if _only_for_types(f) for n in ast.walk(f)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, id(node) not in lazy) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            source = "." * node.level + (node.module or "")
            for alias in node.names:
                inner = f"{source}.{alias.name}"
                yield inner if inner in modules else source, id(node) not in lazy


def _only_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def test_imports_point_one_way() -> None:
    assert mistakes(Path(hotlap.__file__).parent) == []


@pytest.mark.parametrize(
    ("files", "mistake"),
    [
        ({"sim/a.py": "import torch\nimport hotlap.config"}, None),
        ({"cli.py": "def f():\n    from hotlap.report import pages"}, None),
        ({"tasks/bridges/a.py": "from hotlap.wire import client"}, None),
        ({"tasks/a.py": "from hotlap.wire import client"}, "tasks.a must not import hotlap.wire"),
        ({"sim/a.py": "from hotlap import tasks", "tasks/__init__.py": ""}, "import hotlap.tasks"),
        ({"learning/a.py": "def f():\n    import hotlap.evaluation"}, "import hotlap.evaluation"),
        ({"evaluation/a.py": "from hotlap.learning import ppo"}, "import hotlap.learning"),
        ({"report/a.py": "import hotlap.research"}, "import hotlap.research"),
        ({"config/a.py": "import numpy"}, "hotlap.config.a must not import numpy"),
        ({"sim/a.py": "from . import b"}, "hotlap.sim.a must not import ."),
        ({"helpers.py": ""}, "hotlap.helpers belongs to no layer"),
        ({"sim/a.py": "import hotlap.sim.b", "sim/b.py": "from hotlap.sim import a"}, "cycle"),
        ({"sim/a.py": "import hotlap.sim.b", "sim/b.py": "def f():\n import hotlap.sim.a"}, None),
    ],
)
def test_the_checker_catches(files: dict[str, str], mistake: str | None, tmp_path: Path) -> None:
    for name, text in files.items():
        path = tmp_path / "hotlap" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    found = mistakes(tmp_path / "hotlap")
    assert [mistake in line for line in found] == [True] if mistake else found == []
