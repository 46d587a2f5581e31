"""Argument lists as argparse splits them: `--name value`, `--name=value`, `-n value`, bare flags."""

import re
from collections.abc import Sequence

from msgspec import Struct

from reconciler.core.launch.shell.expansion import Field
from reconciler.core.launch.shell.variables import UNKNOWN

_NEGATIVE_NUMBER = re.compile(r"-\.?[0-9]")


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
    """Whether argparse takes a word for a flag; negative numbers are values."""
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
