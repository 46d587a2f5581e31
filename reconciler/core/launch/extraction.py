"""The facts of one launch line while they are extracted: checked values, unresolved values, defaults."""

from collections.abc import Mapping
from functools import cache

from msgspec.structs import replace

from reconciler.core.launch.facts import Diagnostic, Fact, Span
from reconciler.core.launch.framework import Framework
from reconciler.core.launch.launch import LaunchLine
from reconciler.core.launch.settings import Arguments, FileReader, Setting, SettingTable, read_file, script_arguments
from reconciler.core.launch.shell.expansion import UNKNOWN

MAX_NUMBER = 100_000_000
"""Larger than any batch, length, rank or number of processes; beyond it, the number is a typing error."""

_TRUE = frozenset({"", "true", "yes", "y", "t", "1", "on", "auto"})
_FALSE = frozenset({"false", "no", "n", "f", "0", "off", "none", "null"})
_DECIDED_LATER = frozenset({"auto", "gpu", "cpu", "xpu", "-1"})
_MAX_DIGITS = 30


class Extraction:
    """The line, its settings, and the facts read so far.

    `script` holds the settings of the script (flags, then files), `launcher` those of the launcher. A fact is in
    `facts`, in `unresolved` (set to a value that is unknown or invalid), in `defaults`, or in none of them.
    """

    def __init__(self, line: LaunchLine, framework: Framework, read: FileReader) -> None:
        invocation = line.invocation
        self.line = line
        self.invocation = invocation
        self.framework = framework
        self.read_bytes = read
        self.arguments: Arguments = script_arguments(
            invocation.fields, invocation.program + 1, single=framework.single_values
        )
        self.launcher = SettingTable(line.source, invocation.arguments.options)
        self.script = SettingTable(line.source, self.arguments.options)
        self.facts: dict[str, Fact] = {}
        self.unresolved: dict[str, Diagnostic] = {}
        self.defaults: dict[str, Fact] = {}
        self.diagnostics: list[Diagnostic] = []

    def find(self, fact: str) -> Setting | None:
        """Return the script's setting for a fact, by the framework's names."""
        return self.script.find(self.framework.settings.get(fact, ()))

    def resolve(self, name: str, setting: Setting | None) -> Setting | None:
        """Return the setting if its value is known; else record why the fact is unresolved."""
        if setting is None or UNKNOWN not in setting.text:
            return setting
        self.unresolved[name] = Diagnostic(
            rule="launch.unknown-value",
            message=f"the value of `{setting.fact.snippet}` is unknown: {setting.reason or 'it is set at run time'}",
            hint="write the value out, or give the variable a literal value in the script or in the container's env",
            span=setting.fact.span,
        )
        return None

    def add(self, name: str, setting: Setting, value: str) -> None:
        """Add a fact with the words of a setting and a value of our own."""
        self.facts[name] = replace(setting.fact, value=value)

    def add_text(self, name: str, setting: Setting | None) -> None:
        """Add the text of a setting, unless it is empty."""
        setting = self.resolve(name, setting)
        if setting is not None and setting.text:
            self.facts[name] = setting.fact

    def add_number(self, name: str, setting: Setting | None) -> int | None:
        """Add a positive whole number; return it."""
        setting = self.resolve(name, setting)
        if setting is None:
            return None
        text = setting.text.strip()
        if text.lower() in _DECIDED_LATER:
            self.unresolved[name] = Diagnostic(
                rule="launch.decided-later",
                message=f"`{setting.fact.snippet}` is resolved only when the job runs",
                hint="write the number out",
                span=setting.fact.span,
            )
            return None
        value = int(text) if text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS else 0
        if not 0 < value <= MAX_NUMBER:
            message = f"`{setting.fact.snippet}`: expected a whole number from 1 to {MAX_NUMBER:,}"
            self.reject(name, message, setting.fact.span)
            return None
        self.add(name, setting, str(value))
        return value

    def add_boolean(self, name: str, setting: Setting | None, *, invert: bool = False) -> None:
        """Add a boolean; a bare flag is true."""
        setting = self.resolve(name, setting)
        if setting is None:
            return
        value = parse_boolean(setting.text)
        if value is None:
            self.reject(name, f"`{setting.fact.snippet}`: expected true or false", setting.fact.span)
        else:
            self.add(name, setting, "true" if value ^ invert else "false")

    def reject(self, name: str, message: str, span: Span | None, hint: str = "correct the value") -> None:
        """Record an invalid value."""
        self.unresolved[name] = Diagnostic(rule="launch.value", message=message, hint=hint, span=span)
        self.diagnostics.append(self.unresolved[name])

    def discard(self, name: str) -> None:
        """Remove everything known about a fact."""
        for table in (self.facts, self.unresolved, self.defaults):
            table.pop(name, None)

    def set_default(self, name: str, value: str, origin: str) -> None:
        """Set a default of a fact that nothing has set."""
        if name not in self.facts and name not in self.unresolved and name not in self.defaults:
            self.defaults[name] = _default(value, origin)

    def set_framework_default(self, name: str, value: str) -> None:
        """Set a default that the framework documents."""
        self.set_default(name, value, f"default of {self.framework.source}")

    def number(self, name: str) -> int | None:
        """Return a number that the line or a default sets."""
        fact = self.facts.get(name) or self.defaults.get(name)
        return int(fact.value) if fact is not None and fact.value.isdecimal() else None

    def load(self, table: SettingTable, path: Setting, title: str, prefix: str = "") -> Diagnostic | None:
        """Add the values of a configuration file to a table, or return why it cannot be read."""
        values, diagnostic = read_file(path.text, self.read_bytes, title)
        table.add_file({prefix + name: value for name, value in values.items()}, f"file {path.text}")
        if diagnostic is None:
            return None
        diagnostic = replace(diagnostic, span=path.fact.span)
        self.diagnostics.append(diagnostic)
        return diagnostic


@cache
def _default(value: str, origin: str) -> Fact:
    """Return a default; the same few are shared by all launch lines."""
    return Fact(value=value, snippet="", origin=origin)


def parse_boolean(text: str) -> bool | None:
    """Return the boolean that a word means; None for any other word."""
    word = text.strip().lower()
    return True if word in _TRUE else False if word in _FALSE else None


def is_true(setting: Setting | None) -> bool:
    """Whether a setting is given and means true."""
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
