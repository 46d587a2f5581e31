"""Collects facts one by one: checks values, keeps what is doubtful as diagnostics, fills in documented defaults."""

from msgspec.structs import replace

from reconciler.core.launch.facts import Diagnostic, Fact, Span
from reconciler.core.launch.settings import Setting
from reconciler.core.launch.shell.variables import UNKNOWN

MAX_NUMBER = 100_000_000
"""No batch, length, rank or number of processes comes near; beyond, it is a slip of the hand."""

_YES = frozenset({"", "true", "yes", "y", "t", "1", "on", "auto"})
_NO = frozenset({"false", "no", "n", "f", "0", "off", "none", "null"})
_NOT_YET = frozenset({"auto", "gpu", "cpu", "xpu", "-1"})
_MAX_DIGITS = 30


class Gathering:
    """Facts under construction."""

    def __init__(self) -> None:
        self.facts: dict[str, Fact] = {}
        self.unsure: dict[str, Diagnostic] = {}
        self.diagnostics: list[Diagnostic] = []

    def known(self, name: str, setting: Setting | None) -> Setting | None:
        """Return the setting if its value is known; else note why the fact is not."""
        if setting is None or UNKNOWN not in setting.text:
            return setting
        message = (
            f"the value of `{setting.fact.snippet}` is not known: {setting.why or 'only a running shell could tell'}"
        )
        hint = "write the value out, or give the variable a literal value in the script or in the container's env"
        self.unsure[name] = Diagnostic(rule="launch.unknown-value", message=message, hint=hint, span=setting.fact.span)
        return None

    def text(self, name: str, setting: Setting | None, value: str = "") -> None:
        """Take a value as it is, or as `value` says it in our words."""
        found = self.known(name, setting)
        if found is not None and (value or found.text):
            self.facts[name] = replace(found.fact, value=value) if value else found.fact

    def number(self, name: str, setting: Setting | None) -> int | None:
        """Take a whole number above zero."""
        found = self.known(name, setting)
        if found is None:
            return None
        text = found.text.strip()
        if text.lower() in _NOT_YET:
            self.unsure[name] = _decided_later(found.fact)
            return None
        value = int(text) if text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS else 0
        if not 0 < value <= MAX_NUMBER:
            self.refuse(
                name, f"`{found.fact.snippet}`: a whole number from 1 to {MAX_NUMBER:,} is expected", found.fact.span
            )
            return None
        self.facts[name] = found.fact if found.fact.value == str(value) else replace(found.fact, value=str(value))
        return value

    def flag(self, name: str, setting: Setting | None, *, invert: bool = False) -> bool | None:
        """Take yes or no; a bare flag is yes."""
        found = self.known(name, setting)
        if found is None:
            return None
        value = truth(found.text)
        if value is None:
            self.refuse(name, f"`{found.fact.snippet}`: true or false is expected", found.fact.span)
            return None
        value ^= invert
        self.facts[name] = replace(found.fact, value="true" if value else "false")
        return value

    def refuse(self, name: str, message: str, span: Span | None, hint: str = "correct it") -> None:
        """Note a value that cannot be meant."""
        self.unsure[name] = Diagnostic(rule="launch.value", message=message, hint=hint, span=span)
        self.diagnostics.append(self.unsure[name])


def truth(text: str) -> bool | None:
    """Return what people mean by a boolean word; None for any other."""
    word = text.strip().lower()
    return True if word in _YES else False if word in _NO else None


def _decided_later(fact: Fact) -> Diagnostic:
    message = f"`{fact.snippet}` is decided where the job runs"
    return Diagnostic(
        rule="launch.decided-later", message=message, hint="write the number out to have it counted", span=fact.span
    )
