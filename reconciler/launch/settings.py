"""Settings of a program by name, from its flags and configuration files.

Flags are parsed as argparse does: `--name value`, `--name=value`, `-n value`, bare flags.
"""

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from reconciler.kube.secrets import mask_text
from reconciler.kube.values import NOT_JSON
from reconciler.kube.yaml.reader import read
from reconciler.launch.container import SourceMap, shorten
from reconciler.launch.facts import Diagnostic, Fact
from reconciler.launch.shell.expansion import UNKNOWN, Field

FileReader = Callable[[str], bytes | None]
"""Returns the bytes of a repository file by the path that a line names; None where it does not exist."""

_MAX_DEPTH = 8
_NEGATIVE_NUMBER = re.compile(r"-\.?[0-9]")  # no flag for argparse


class Option(Struct, frozen=True, gc=False):
    """One flag: `name` without dashes and with underscores, its own word, the words of its values.

    `joined` is the text after `=`, or None.
    """

    name: str
    flag: Field
    values: tuple[Field, ...] = ()
    joined: str | None = None

    @property
    def value(self) -> str:
        """The value, or the first of several; empty for a bare flag."""
        if self.joined is not None:
            return self.joined
        return self.values[0].text if self.values else ""


class Arguments(Struct, frozen=True):
    """The flags in order, the positional words, the words that may be any flags, and where parsing stopped."""

    options: tuple[Option, ...] = ()
    words: tuple[Field, ...] = ()
    unknown: tuple[Field, ...] = ()
    stop: int = 0


def is_flag(text: str) -> bool:
    """Return whether argparse takes a word for a flag; negative numbers are values."""
    return text[:1] == "-" and len(text) > 1 and (text[1] == "-" or not _NEGATIVE_NUMBER.match(text))


def flag_name(text: str) -> str:
    """Return a flag's name as Python programs store it: `--nproc-per-node` is `nproc_per_node`."""
    return text.lstrip("-").replace("-", "_")


def launcher_arguments(fields: Sequence[Field], start: int, switches: frozenset[str]) -> Arguments:
    """Parse flags up to the first positional word; `switches` take no value, all other flags one."""
    options: list[Option] = []
    unknown: list[Field] = []
    at = start
    while at < len(fields):
        field = fields[at]
        text = field.text
        if field.may_split and text[0] == UNKNOWN:
            unknown.append(field)
            at += 1
            continue
        if text == "--":
            at += 1
            break
        if not is_flag(text):
            break
        name, separator, joined = text.partition("=")
        name = flag_name(name)
        if separator:
            options.append(Option(name, field, (), joined))
        elif name in switches or at + 1 == len(fields) or is_flag(fields[at + 1].text):
            options.append(Option(name, field))
        else:
            at += 1
            options.append(Option(name, field, (fields[at],)))
        at += 1
    return Arguments(tuple(options), (), tuple(unknown), at)


def script_arguments(fields: Sequence[Field], start: int, *, single: bool = False) -> Arguments:
    """Parse all flags; each takes the words up to the next flag, or with `single` at most one."""
    options: list[Option] = []
    words: list[Field] = []
    unknown: list[Field] = []
    at, count = start, len(fields)
    while at < count:
        field = fields[at]
        text = field.text
        at += 1
        if text == "--":
            continue
        if not is_flag(text):
            (unknown if field.may_split and text[0] == UNKNOWN else words).append(field)
            continue
        name, separator, joined = text.partition("=")
        name = flag_name(name)
        if separator:
            options.append(Option(name, field, (), joined))
            continue
        first = at
        while at < count and not is_flag(fields[at].text) and not (at > first and (single or fields[at].may_split)):
            at += 1
        options.append(Option(name, field, tuple(fields[first:at])))
    return Arguments(tuple(options), tuple(words), tuple(unknown), count)


class Setting(Struct, frozen=True, gc=False):
    """One value, with the flag or file that sets it. `reason` explains an unknown value; `texts` are its items."""

    text: str
    fact: Fact
    reason: str = ""
    texts: tuple[str, ...] = ()


class SettingTable:
    """Settings by name; the last flag of a name wins, and flags win over files."""

    __slots__ = ("_entries", "_fixed", "_read", "_settings", "source")

    def __init__(self, source: SourceMap, options: Iterable[Option]) -> None:
        self.source = source
        self._entries: dict[str, Option | Setting] = {option.name: option for option in options}
        self._settings: dict[str, Setting] = {}
        self._read: set[str] = set()
        self._fixed: set[str] = set()  # names that `override` has set

    def add_file(self, values: Mapping[str, str], origin: str) -> None:
        """Add the values of a file; existing settings stay."""
        for name, text in values.items():
            if name not in self._entries:
                fact = Fact(value=text, snippet=mask_text(f"{name}: {shorten(text)}"), origin=origin)
                self._entries[name] = Setting(text, fact, "", tuple(text.split(",")))

    def add_json(self, setting: Setting, prefix: str = "") -> bool:
        """Add the values of a JSON mapping that a flag holds; return whether it is one."""
        try:
            data = msgspec.json.decode(setting.text)
        except NOT_JSON:
            return False
        if isinstance(data, dict):
            for name, text in flatten(data, prefix).items():
                self._entries.setdefault(name, replace(setting, text=text, texts=tuple(text.split(","))))
        return isinstance(data, dict)

    def override(self, name: str, text: str) -> None:
        """Set a value that wins over flags and files; an empty one is a bare flag."""
        fact = Fact(value=text, snippet=f"{name}: {text}", origin="a change of the line")
        self._entries[name] = Setting(text, fact, "", tuple(text.split(",")))
        self._fixed.add(name)

    def add_word(self, name: str, text: str, field: Field) -> None:
        """Add a positional word, or a `name=value` word, unless a flag sets the name."""
        if isinstance(self._entries.get(name), Option) or name in self._fixed:
            return
        snippet, span = self.source.locate((field,))
        fact = Fact(value=text, snippet=snippet, span=span)
        self._entries[name] = Setting(text, fact, field.reason, tuple(text.split(",")))

    def has(self, name: str) -> bool:
        """Return whether a setting is given."""
        self._read.add(name)
        return name in self._entries

    def holds(self, *names: Iterable[str]) -> bool:
        """Return whether of each of several settings one name is given; none of them counts as read."""
        return all(any(name in self._entries for name in spelled) for spelled in names)

    def unread(self) -> Iterator[tuple[str, str, Fact]]:
        """Return the settings that nobody asked for: name, value (`true` for a bare flag) and words."""
        for name, entry in self._entries.items():
            if name not in self._read:
                setting = entry if isinstance(entry, Setting) else self._from_option(entry)
                is_bare = isinstance(entry, Option) and not entry.values and entry.joined is None
                yield name, "true" if is_bare else setting.text, setting.fact

    def under(self, prefix: str) -> list[tuple[str, str]]:
        """Return the names and values of the settings of files below a prefix; they count as read."""
        names = [name for name, entry in self._entries.items() if name.startswith(prefix)]
        self._read.update(names)
        return [(name, self.text(name)) for name in names]

    def find(self, names: Iterable[str]) -> Setting | None:
        """Return the setting of the first name that is given. The others count as read, too."""
        found: Option | Setting | None = None
        for name in names:
            if (entry := self._entries.get(name)) is not None:
                self._read.add(name)
                found = entry if found is None else found
        if found is None or isinstance(found, Setting):
            return found
        return self._settings.get(found.name) or self._from_option(found)

    def text(self, *names: str) -> str:
        """Return the value of the first name that is given; empty if there is none or its value is unknown."""
        setting = self.find(names)
        return "" if setting is None or UNKNOWN in setting.text else setting.text

    def _from_option(self, option: Option) -> Setting:
        source, values = self.source, option.values
        words = (option.flag, *values)
        snippet, span = source.locate(words)
        if values and not source.script:
            span = source.span(values[0])
        text = option.value
        texts = tuple(text.split(",")) if option.joined is not None else tuple([field.text for field in values])
        reason = "" if UNKNOWN not in text else next((field.reason for field in words if field.reason), "")
        setting = Setting(text, Fact(value=text, snippet=snippet, span=span), reason, texts)
        self._settings[option.name] = setting
        return setting


def read_file(path: str, read_bytes: FileReader, title: str) -> tuple[dict[str, str], Diagnostic | None]:
    """Read a YAML, JSON or TOML file, flattened (`train.micro_batch_size`), or return why it cannot be read."""
    if UNKNOWN in path:
        message, hint = f"the path of the {title} is unknown", "write the path out"
        return {}, Diagnostic(rule="launch.file", message=message, hint=hint)
    raw = read_bytes(path)
    if raw is None:
        message = f"the {title} `{shorten(path)}` was not found, so its values are unknown"
        hint = "add the file, or set the values by flags"
        return {}, Diagnostic(rule="launch.file", message=message, hint=hint, missing=title, path=path)
    data, problem = _parse(path, raw)
    if problem:
        message = f"the {title} `{shorten(path)}` cannot be read: {problem}"
        return {}, Diagnostic(rule="launch.file", message=message, hint="correct the file")
    return flatten(data), None


def _parse(path: str, raw: bytes) -> tuple[dict[str, Any], str]:
    if path.endswith(".toml"):
        try:
            return tomllib.loads(raw.decode()), ""
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
            return {}, str(error)
    if path.endswith(".json") or (raw.lstrip()[:1] == b"{" and not path.endswith((".yaml", ".yml"))):
        try:
            data = msgspec.json.decode(raw)
        except NOT_JSON as error:
            return {}, str(error)
        return (data, "") if isinstance(data, dict) else ({}, "it is not a mapping")
    reading = read(path, raw)
    if reading.problems:
        return {}, reading.problems[0].message
    return (reading.documents[0].data, "") if reading.documents else ({}, "it is empty")


def flatten(data: Mapping[str, Any], prefix: str = "", depth: int = 0) -> dict[str, str]:
    """Return scalars by their dotted names. Lists of scalars are joined by commas, null is left out."""
    values: dict[str, str] = {}
    for key, value in data.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            if depth < _MAX_DEPTH:
                values |= flatten(value, f"{name}.", depth + 1)
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


def resolve_file(written: str, paths: Iterable[str], near: str) -> str | None:
    """Return the repository path of a file that a launch line names by its path in the container.

    Of the files with the same name, the one with the longest common path suffix wins, then the one in the job's own
    folder (`near` is the job's path). None if there is none, or if two match equally well.
    """
    target = [part for part in written.split("/") if part not in {"", ".", ".."}]
    if not target:
        return None
    by_score: dict[tuple[int, bool], list[str]] = {}
    folder = near.rpartition("/")[0]
    for path in paths:
        parts = path.split("/")
        if parts[-1] == target[-1]:
            score = (_common_suffix(parts, target), path.rpartition("/")[0] == folder)
            by_score.setdefault(score, []).append(path)
    best = by_score[max(by_score)] if by_score else []
    return best[0] if len(best) == 1 else None


def _common_suffix(left: list[str], right: list[str]) -> int:
    count = 0
    for one, other in zip(reversed(left), reversed(right), strict=False):
        if one != other:
            break
        count += 1
    return count


_TRUE = frozenset({"", "true", "yes", "y", "t", "1", "on", "auto"})
_FALSE = frozenset({"false", "no", "n", "f", "0", "off", "none", "null"})


def parse_boolean(text: str) -> bool | None:
    """Return the boolean that a word means; None for any other word."""
    word = text.strip().lower()
    return True if word in _TRUE else False if word in _FALSE else None


def is_true(setting: Setting | None) -> bool:
    """Return whether a setting is given and means true."""
    return setting is not None and parse_boolean(setting.text) is True


def setting_from_env(env: Mapping[str, str | None], name: str) -> Setting | None:
    """Return a variable of the started program as a setting; None where it is not set."""
    if name not in env:
        return None
    value = env[name]
    fact = Fact(value=value or "", snippet=f"{name}={value}", origin=f"env {name}")
    if value is None:
        return Setting(UNKNOWN, fact, f"`{name}` is set from a source outside the repository")
    return Setting(value, fact)
