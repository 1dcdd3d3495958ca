"""Settings in and out of files: TOML presets are read, resolved settings are written as JSON.

A table becomes a frozen dataclass by field name, a table inside a table the dataclass inside it.
Fields may be `bool`, `int`, `float`, `str`, `Path`, `Literal[...]`, `None`, a dataclass, or a
`tuple`, `dict[str, ...]` or union of these. Where a field may hold one of several dataclasses, the
key `kind` names the class. What cannot be understood is a `ValueError` naming the file and the key.
"""

import dataclasses
import json
import math
import tomllib
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

from hotlap.config.naming import nearest

Config = TypeVar("Config")

SHIPPED = Path(__file__).parent.parent / "presets"
"""The presets that come with the package."""

RECIPES = "recipes"
"""The folder of those that hold a whole command."""

KIND = "kind"
"""The key that chooses among several dataclasses."""


def load_preset(cls: type[Config], name: str | Path, folder: Path = SHIPPED) -> Config:
    """Read settings from a shipped preset, by its name, or from a TOML file of your own."""
    path = Path(name)
    if path.suffix != ".toml":
        names = [str(p.relative_to(folder).with_suffix("")) for p in folder.rglob("*.toml")]
        if str(name) not in names:
            raise KeyError(nearest(str(name), names, "preset"))
        path = folder / f"{name}.toml"
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"{path}: there is no such preset file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: cannot be read: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path}: not valid TOML: {error}") from None
    return from_table(cls, table, str(path))


def load_recipe(cls: type[Config], name: str, folder: Path = SHIPPED) -> Config:
    """Read the settings of a whole command from a shipped recipe, or from a file of your own."""
    if name.endswith(".toml"):
        return load_preset(cls, name, folder)
    names = sorted(path.stem for path in (folder / RECIPES).glob("*.toml"))
    if name not in names:
        raise KeyError(nearest(name, names, "recipe"))
    return load_preset(cls, f"{RECIPES}/{name}", folder)


def dump_json(config: object) -> str:
    """Write settings as JSON text, every field included; `load_json` gives back an equal object."""
    return json.dumps(to_table(config), indent=2, allow_nan=False) + "\n"


def load_json(cls: type[Config], text: str, source: str = "JSON") -> Config:
    """Read settings written by `dump_json`; `source` is named when something is wrong."""
    try:
        table = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{source}: not valid JSON: {error}") from None
    return from_table(cls, table, source)


def from_table(cls: type[Config], table: object, source: str) -> Config:
    """Build the dataclass `cls` from a table; `source` is named when something is wrong."""
    return typing.cast(Config, _build(cls, table, source, f"{source}: "))


def to_table(config: object) -> dict[str, Any]:
    """Turn settings into tables, lists, strings, numbers and None."""
    hints = typing.get_type_hints(type(config))
    return {
        field.name: _plain(getattr(config, field.name), hints[field.name])
        for field in dataclasses.fields(config)  # type: ignore[arg-type]
        if field.init
    }


def _build(cls: type, table: object, where: str, prefix: str) -> object:
    """Build a dataclass; `where` names its table, `prefix` goes before the name of a key in it."""
    if not isinstance(table, Mapping):
        raise ValueError(f"{where}: expected a table for {cls.__name__}, got {table!r}")
    fields = {field.name: field for field in dataclasses.fields(cls) if field.init}
    for key in table:
        if key not in fields:
            raise ValueError(f"{where}: {nearest(key, fields, f'setting of {cls.__name__}')}")
    for name, field in fields.items():
        if name not in table and field.default is field.default_factory is dataclasses.MISSING:
            raise ValueError(f"{prefix}{name} is missing, and {cls.__name__} has no default for it")
    hints = typing.get_type_hints(cls)
    values = {key: _convert(value, hints[key], f"{prefix}{key}") for key, value in table.items()}
    try:
        return cls(**values)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error


def _convert(value: object, hint: Any, where: str) -> Any:
    """Turn a value read from a file into what the field is annotated with."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if _is_union(hint):
        return _convert_union(value, args, where)
    if dataclasses.is_dataclass(hint):
        return _build(typing.cast(type, hint), value, where, f"{where}.")
    if origin is Literal:
        for choice in args:
            if value == choice and type(value) is type(choice):
                return choice
    elif origin is tuple and isinstance(value, list):
        inner = _arguments((hint,), tuple, len(value))
        if len(inner) == len(value):
            pairs = enumerate(zip(value, inner, strict=True))
            return tuple(_convert(item, kind, f"{where}[{i}]") for i, (item, kind) in pairs)
    elif origin is dict and isinstance(value, Mapping):
        return {key: _convert(item, args[1], f"{where}.{key}") for key, item in value.items()}
    elif hint is Path and isinstance(value, str):
        return Path(value)
    elif hint is float and (type(value) in (int, float) or value in ("inf", "-inf")):
        number = float(value)  # type: ignore[arg-type]
        if not math.isnan(number):
            return number
    elif type(value) is hint:
        return value
    raise ValueError(f"{where} must be {_describe(hint)}, got {value!r}")


def _convert_union(value: object, members: tuple[Any, ...], where: str) -> Any:
    if value is None and type(None) in members:
        return None
    classes = {str(m.__name__): m for m in members if hasattr(m, "__dataclass_fields__")}
    if isinstance(value, Mapping) and classes:
        if len(classes) == 1:
            return _convert(value, next(iter(classes.values())), where)
        if KIND not in value:
            raise ValueError(f"{where}.{KIND} is missing; available: {', '.join(classes)}")
        table = dict(value)
        name = table.pop(KIND)
        if name not in classes:
            raise ValueError(f"{where}.{KIND}: {nearest(str(name), classes, 'kind')}")
        return _convert(table, classes[name], where)
    # An exact match first, so that 1 stays an int where a field takes int | float.
    for member in sorted(members, key=lambda member: member is not type(value)):
        try:
            return _convert(value, member, where)
        except ValueError:
            continue
    choices = " or ".join(map(_describe, members))
    raise ValueError(f"{where} must be {choices}, got {value!r}")


def _plain(value: Any, hint: Any) -> Any:
    """Undo `_convert`."""
    members = typing.get_args(hint) if _is_union(hint) else (hint,)
    if dataclasses.is_dataclass(value):
        table = to_table(value)
        ambiguous = sum(dataclasses.is_dataclass(member) for member in members) > 1
        return {KIND: type(value).__name__} | table if ambiguous else table
    if isinstance(value, tuple):
        inner = _arguments(members, tuple, len(value))
        return [_plain(item, kind) for item, kind in zip(value, inner, strict=True)]
    if isinstance(value, Mapping):
        _, inside = _arguments(members, dict, 2)
        return {key: _plain(item, inside) for key, item in value.items()}
    if isinstance(value, Path):
        return value.as_posix()
    if isinstance(value, float) and math.isinf(value):
        return str(value)  # JSON has no infinity
    return value


def _arguments(members: tuple[Any, ...], container: type, length: int) -> tuple[Any, ...]:
    """The annotations of what is inside the container among the members of a union."""
    hint = next(member for member in members if typing.get_origin(member) is container)
    args = typing.get_args(hint)
    return args[:1] * length if args[1:] == (...,) else args


def _is_union(hint: Any) -> bool:
    return typing.get_origin(hint) in (typing.Union, types.UnionType)


def _describe(hint: Any) -> str:
    if typing.get_origin(hint) is Literal:
        return "one of " + ", ".join(map(repr, typing.get_args(hint)))
    if hint is type(None):
        return "None"
    return str(hint) if typing.get_args(hint) else str(hint.__name__)
