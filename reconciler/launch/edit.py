"""Sets flags on a launch line byte for byte: only the tokens of those flags differ afterwards."""

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from reconciler.launch.container import SourceMap
from reconciler.launch.facts import Span
from reconciler.launch.framework import CONFIG_EXTENSIONS, Overrides
from reconciler.launch.launch import Launch
from reconciler.launch.settings import Option, flag_name
from reconciler.launch.shell.expansion import Field

_NEEDS_NO_QUOTES = re.compile(r"(?:[A-Za-z0-9_./:=,+@%-]|\$[A-Za-z_][A-Za-z0-9_]*|\$\{[A-Za-z_][A-Za-z0-9_]*\})*")


class NotEditable(ValueError):
    """The line cannot be edited; `Launch.not_editable` is the reason."""


class _Replacement(Struct, frozen=True):
    span: Span
    text: str
    inserts: tuple[str, ...] = ()  # items to insert after the item of `span` (argument lists)


def script_flag(launch: Launch, fact: str) -> str:
    """Return the framework's own name for a fact (`batch`, `accumulation`), as `edit_launch` takes it; empty: none.

    Names without dashes are `name=value` words (torchtune, configurations of LLaMA-Factory).
    """
    names = launch.framework.settings.get(fact, ())
    given = {option.name for option in launch.arguments.options}
    name = next((name for name in names if name in given), names[0] if names else "")
    overrides = launch.framework.overrides
    as_word = overrides is Overrides.ALWAYS or (
        overrides is Overrides.WITH_FILE
        and any(field.text.endswith(CONFIG_EXTENSIONS) for field in launch.arguments.words)
    )
    return name if as_word or not name else f"--{name}"


def edit_launch(
    launch: Launch, launcher_flags: Mapping[str, str], script_flags: Mapping[str, str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return `command` and `args` with flags of the launcher and of the script set. Raises NotEditable.

    A flag on the line gets the new value in place; a new one goes after the launcher's word or the script,
    written like its neighbours. In a shell script, values may refer to variables (`$NAME`); argument lists take them
    literally.
    """
    if launch.not_editable:
        raise NotEditable(launch.not_editable)
    invocation, source, arguments = launch.line.invocation, launch.line.source, launch.arguments
    fields, own = invocation.fields, invocation.arguments
    launcher = _Section(source, fields[invocation.head], fields[invocation.first_word_of_program - 1], own.options)
    launcher.has_unknown = bool(own.unknown)
    script = _Section(source, fields[invocation.program], fields[-1], arguments.options)
    script.has_unknown = bool(arguments.unknown)
    script.has_words = bool(arguments.words)
    script.words = tuple(fields[invocation.program + 1 :])
    replacements = [
        *launcher.replacements(launcher_flags, joined=_joins_values(own.options, arguments.options)),
        *script.replacements(script_flags, joined=_joins_values(arguments.options, own.options)),
    ]
    return _apply(launch.command, "command", replacements), _apply(launch.args, "args", replacements)


def _joins_values(options: Sequence[Option], others: Sequence[Option]) -> bool:
    """Return whether flags are written `--name=value` here; without an example, they are."""
    for section in (options, others):
        styles = [option.joined is not None for option in section if option.joined is not None or option.values]
        if styles:
            return 2 * sum(styles) >= len(styles)
    return True


class _Section:
    """The words of the launcher or of the script. New flags go after `first`, or after `last` to take precedence."""

    def __init__(self, source: SourceMap, first: Field, last: Field, options: Sequence[Option]) -> None:
        self.source = source
        self.first = first
        self.last = last
        self.options = options
        self.words: tuple[Field, ...] = ()
        self.has_unknown = False
        self.has_words = False  # positional words: a flag in front of them might take one for its value

    def replacements(self, flags: Mapping[str, str], *, joined: bool) -> list[_Replacement]:
        new: dict[bool, list[tuple[str, str]]] = {False: [], True: []}
        replacements: list[_Replacement] = []
        for flag, value in flags.items():
            text = _quote(value) if self.source.script else value
            replacement, at_end = self._replace(flag, text)
            if replacement is not None:
                replacements.append(replacement)
            else:
                new[at_end].append((flag, text))
        for at_end, items in new.items():
            if items:
                replacements.append(self._insert(items, at_end=at_end, joined=joined))
        return replacements

    def _replace(self, flag: str, text: str) -> tuple[_Replacement | None, bool]:
        """Return the replacement of a flag that stands on the line; else whether a new one must come last."""
        if not flag.startswith("-"):
            return self._replace_word(flag, text), True
        name = flag_name(flag)
        option = next((option for option in reversed(self.options) if option.name == name), None)
        if option is None or self.has_unknown:
            return None, option is not None or self.has_unknown or self.has_words
        word = option.values[0] if option.values else option.flag
        span = self.source.span(word)
        if span is None or self.source.span(option.flag) is None:
            return None, True
        spelling = option.flag.text.partition("=")[0]
        return _Replacement(span, text if option.values else f"{spelling}={text}"), False

    def _replace_word(self, name: str, text: str) -> _Replacement | None:
        word = next((word for word in reversed(self.words) if word.text.startswith(f"{name}=")), None)
        span = self.source.span(word) if word is not None else None
        return None if span is None else _Replacement(span, f"{name}={text}")

    def _insert(self, flags: Sequence[tuple[str, str]], *, at_end: bool, joined: bool) -> _Replacement:
        anchor = self.last if at_end else self.first
        # A written word that expanded to several still ends where it is written.
        span = self.source.span(replace(anchor, whole=True))
        if span is None:
            raise NotEditable("a variable holds the end of the line")
        items: list[str] = []
        for flag, text in flags:
            items += [f"{flag}={text}"] if joined or not flag.startswith("-") else [flag, text]
        span = replace(span, start=span.end)
        if not self.source.script:
            return _Replacement(span, "", tuple(items))
        return _Replacement(span, "".join(f" {item}" for item in items))


def _quote(value: str) -> str:
    """Quote a value for the shell: references to variables are expanded, everything else is literal."""
    if value and _NEEDS_NO_QUOTES.fullmatch(value):
        return value
    return "'" + value.replace("'", "'\\''") + "'"


def _apply(items: Sequence[str], field: str, replacements: Sequence[_Replacement]) -> tuple[str, ...]:
    cells = [[item] for item in items]
    in_field = [replacement for replacement in replacements if replacement.span.field == field]
    for replacement in sorted(in_field, key=lambda replacement: replacement.span, reverse=True):
        cell, span = cells[replacement.span.index], replacement.span
        cell[0] = cell[0][: span.start] + replacement.text + cell[0][span.end :]
        cell[1:1] = replacement.inserts
    return tuple(text for cell in cells for text in cell)
