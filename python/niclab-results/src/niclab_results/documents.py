"""The documents of a run, read and checked: text in, plain values out."""

import json
import math
import tomllib
from pathlib import Path
from typing import Any

from niclab_results.errors import Damaged, Newer

#: Largest whole number that a data frame holds.
WHOLE_MAX = 2**63 - 1
#: Version of the documents that this package reads.
SCHEMA = 1


def parse_json(path: Path, text: bytes, line: int | None = None) -> dict[str, Any]:
    """A JSON object; numbers are finite."""
    try:
        document = json.loads(text.decode(), parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise Damaged(path, f"no JSON ({error})", line) from error
    if not isinstance(document, dict):
        raise Damaged(path, "not an object", line)
    return document


def parse_toml(path: Path, text: bytes) -> dict[str, Any]:
    """A TOML document."""
    try:
        return tomllib.loads(text.decode())
    except (ValueError, RecursionError) as error:
        raise Damaged(path, f"no TOML ({error})") from error


def check_schema(
    path: Path, document: dict[str, Any], program: str, line: int | None = None
) -> None:
    """Refuses a document of a later version, and one that says none."""
    found = document.get("schema")
    if not isinstance(found, int) or isinstance(found, bool) or found < 1:
        raise Damaged(path, "it says no schema", line)
    if found > SCHEMA:
        raise Newer(path, found, SCHEMA, program)


class Reader:
    """Fields of an object, each of the type that it has to have."""

    def __init__(self, path: Path, document: dict[str, Any], line: int | None = None) -> None:
        self._path, self._document, self._line = path, document, line

    def text(self, name: str, default: str | None = None) -> str:
        """A text."""
        return self._of(name, str, default)

    def whole(self, name: str) -> int:
        """A whole number, 0 to `WHOLE_MAX`."""
        number = self._of(name, int, None)
        if isinstance(number, bool) or not 0 <= number <= WHOLE_MAX:
            raise self.wrong(f"`{name}` is no whole number")
        return number

    def table(self, name: str) -> dict[str, Any]:
        """An object; empty where there is none."""
        return self._of(name, dict, {})

    def listed(self, name: str) -> list[Any]:
        """A list; empty where there is none."""
        return self._of(name, list, [])

    def quantity(self, name: str, value: Any) -> tuple[float, str]:
        """A number with its unit."""
        if not isinstance(value, dict) or not isinstance(value.get("unit"), str):
            raise self.wrong(f"`{name}` is no number with a unit")
        return self.number(name, value.get("value")), value["unit"]

    def number(self, name: str, value: Any) -> float:
        """A finite number."""
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        try:
            number = float(value) if is_number else math.nan
        except OverflowError:
            number = math.nan
        if not math.isfinite(number):
            raise self.wrong(f"`{name}` is no number")
        return number

    def wrong(self, reason: str) -> Damaged:
        """The error of this document."""
        return Damaged(self._path, reason, self._line)

    def _of(self, name: str, kind: type, default: Any) -> Any:
        value = self._document.get(name, default)
        if not isinstance(value, kind):
            raise self.wrong(f"`{name}` is missing or of another type")
        return value


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is no number")
