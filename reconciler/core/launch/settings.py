"""What a script is told, by name: flags of the line over overrides over a configuration file."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from reconciler.core.documents.reader import read
from reconciler.core.launch.facts import Diagnostic, Fact
from reconciler.core.launch.options import Option
from reconciler.core.launch.place import Place, shown
from reconciler.core.launch.shell.expansion import Field
from reconciler.core.launch.shell.variables import UNKNOWN

FileReader = Callable[[str], bytes | None]
"""Gives the bytes of a file of the repository by the path that a line names; None where there is none."""

_MAX_DEPTH = 8


class Setting(Struct, frozen=True, gc=False):
    """One value, and the flag or the file that gives it."""

    text: str
    fact: Fact
    why: str = ""
    texts: tuple[str, ...] = ()


class Settings:
    """Finds values by their names; the last flag of a name wins."""

    __slots__ = ("_known", "_made", "place")

    def __init__(self, place: Place, options: Iterable[Option]) -> None:
        self.place = place
        self._known: dict[str, Option | Setting] = {option.name: option for option in options}
        self._made: dict[str, Setting] = {}

    def add_file(self, values: Mapping[str, str], origin: str) -> None:
        """Add what a file says; what is known already stays."""
        for name, text in values.items():
            if name not in self._known:
                fact = Fact(value=text, snippet=f"{name}: {shown(text)}", origin=origin)
                self._known[name] = Setting(text, fact, "", tuple(text.split(",")))

    def add_word(self, name: str, text: str, field: Field) -> None:
        """Add an override: `name=value` among the words, or a word that stands for something by its position."""
        if isinstance(self._known.get(name), Option):
            return
        written, span = self.place.told((field,))
        self._known[name] = Setting(
            text, Fact(value=text, snippet=written, span=span), field.why, tuple(text.split(","))
        )

    def has(self, name: str) -> bool:
        """Tell whether a value is given."""
        return name in self._known

    def find(self, names: Iterable[str]) -> Setting | None:
        """Return the value of the first of the names that is given."""
        known = self._known
        for name in names:
            if (found := known.get(name)) is not None:
                return found if isinstance(found, Setting) else self._made.get(name) or self._of_option(found)
        return None

    def text(self, *names: str) -> str:
        """Return the value of the first of the names that is given and known; empty for none."""
        found = self.find(names)
        return "" if found is None or UNKNOWN in found.text else found.text

    def _of_option(self, option: Option) -> Setting:
        place, values = self.place, option.values
        words = (option.flag, *values)
        written, span = place.told(words)
        if values and not place.script:
            span = place.span(values[0])
        text = option.value
        texts = tuple(text.split(",")) if option.joined is not None else tuple([field.text for field in values])
        why = "" if UNKNOWN not in text else next((field.why for field in words if field.why), "")
        setting = Setting(text, Fact(value=text, snippet=written, span=span), why, texts)
        self._made[option.name] = setting
        return setting


def read_file(path: str, files: FileReader, what: str) -> tuple[dict[str, str], Diagnostic | None]:
    """Read a YAML or JSON file of settings, flattened (`train.micro_batch_size`); or say why not."""
    if UNKNOWN in path:
        return {}, Diagnostic(rule="launch.file", message=f"the path of the {what} is not known", hint="write it out")
    raw = files(path)
    if raw is None:
        message = f"the {what} `{shown(path)}` is not in the repository, so that what it sets is not known"
        return {}, Diagnostic(
            rule="launch.file", message=message, hint="put it into the repository, or set the values by flags"
        )
    data, problem = _parsed(path, raw)
    if problem:
        message = f"the {what} `{shown(path)}` cannot be read: {problem}"
        return {}, Diagnostic(rule="launch.file", message=message, hint="correct the file")
    return flat(data), None


def _parsed(path: str, raw: bytes) -> tuple[dict[str, Any], str]:
    if path.endswith(".json"):
        try:
            data = msgspec.json.decode(raw)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            return {}, str(error)
        return (data, "") if isinstance(data, dict) else ({}, "it is no mapping")
    reading = read(path, raw)
    if reading.problems:
        return {}, reading.problems[0].message
    return (reading.documents[0].data, "") if reading.documents else ({}, "it is empty")


def flat(data: Mapping[str, Any], prefix: str = "", depth: int = 0) -> dict[str, str]:
    """Return scalars by their dotted names; lists of scalars are joined by commas; null is as if it were not there."""
    values: dict[str, str] = {}
    for key, value in data.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            if depth < _MAX_DEPTH:
                values |= flat(value, f"{name}.", depth + 1)
        elif isinstance(value, list):
            values[name] = ",".join(_scalar(item) for item in value if not isinstance(item, dict | list))
        elif value is not None:
            values[name] = _scalar(value)
    return values


def _scalar(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)
