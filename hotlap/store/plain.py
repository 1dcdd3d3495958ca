"""Plain values as JSON, exactly, and the word for a file that is not what was written.

Apart from `formats`, which brings torch: two seconds that nothing which only counts has need of.
"""

import json
from pathlib import Path
from typing import Any, NoReturn


class DamagedFile(ValueError):
    """A file is not what was written."""


def damaged(path: Path, expected: str, found: str) -> DamagedFile:
    """The error for a file that is not what was written."""
    remedy = "it was cut off or changed: restore it from a copy, or make it again"
    return DamagedFile(f"{path} is damaged: expected {expected}, found {found}; {remedy}")


def pack_json(value: dict[str, Any], indent: int | None = None) -> bytes:
    """A dictionary as JSON, refused with ValueError unless the very same comes back."""
    try:
        text = json.dumps(value, allow_nan=False, indent=indent)
        same = json.loads(text) == value
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"cannot be written as JSON: {error}; {_JSON_RULE}") from error
    if not same:
        raise ValueError(f"would come back from JSON changed; {_JSON_RULE}: {value!r:.200}")
    return text.encode()


def unpack_json(data: bytes, path: Path) -> dict[str, Any]:
    """Undo `pack_json`; the path is for the error."""
    try:
        value = json.loads(data, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise damaged(path, "JSON", f"{type(error).__name__}: {error}") from error
    if not isinstance(value, dict):
        raise damaged(path, "a JSON object", f"{value!r:.50}")
    return value


_JSON_RULE = "use text as keys, lists for tuples, plain finite numbers and None where there is none"


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number in JSON")
