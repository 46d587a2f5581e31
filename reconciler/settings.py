"""Settings of one run, frozen: flags over environment over `spec.defaults` of `reconciler.yaml` over what ships.

Every setting has one name in four spellings: `--cache-dir`, `RECONCILER_CACHE_DIR`, `cache-dir` under
`spec.defaults`, and the attribute `cache_dir`. A variable that starts with `RECONCILER_` and means nothing is an
error, since a misspelt setting must not pass in silence.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from reconciler.errors import ConfigError
from reconciler.outputs.registry import output_names

PREFIX = "RECONCILER_"
# Read by the tests of this project, not by the product.
_RESERVED = ("RECONCILER_TEST_",)


class Settings(Struct, frozen=True, kw_only=True):
    """What a run may be told besides its verb.

    base: revision to compare with (empty: the merge base with the upstream's default branch, else HEAD).
    revision: revision to read (empty: the working tree with its uncommitted changes).
    cluster: only this cluster (empty: all).
    output: how to print; the formats depend on the verb.
    color: `auto` (a terminal without NO_COLOR), `always`, `never`.
    width: columns of text output (0: those of the terminal, else 100).
    date: today, for exceptions that expire (empty: the date of the head commit).
    acknowledge: token that allows one plan to exceed its budgets.
    cache: `on` or `off`; cache_dir: where (empty: the user's cache folder).
    processes: how many files are compiled at once (0: one a processor).
    log_level, log_format: of messages on standard error.
    """

    base: str = ""
    revision: str = ""
    cluster: str = ""
    output: str = "text"
    color: str = "auto"
    width: int = 0
    date: str = ""
    acknowledge: str = ""
    cache: str = "on"
    cache_dir: str = ""
    processes: int = 0
    log_level: str = "warning"
    log_format: str = "text"


CHOICES: Mapping[str, tuple[str, ...]] = {
    "output": output_names(),
    "color": ("auto", "always", "never"),
    "cache": ("on", "off"),
    "log_level": ("debug", "info", "warning", "error"),
    "log_format": ("text", "json"),
}
_NUMBERS = {"width": (0, 1000), "processes": (0, 256)}
_DATE = re.compile(r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])")
# A repository must not decide where its reader writes, nor what its reviewer acknowledges.
_NOT_IN_FILE = frozenset({"acknowledge", "cache_dir", "revision"})
NAMES = Settings.__struct_fields__


def resolve(flags: Mapping[str, Any], environ: Mapping[str, str], defaults: Mapping[str, str]) -> Settings:
    """Merge the three sources; `flags` holds None for what was not given. Raises `ConfigError` naming the culprit."""
    values: dict[str, Any] = {}
    for name, text in defaults.items():
        attribute = name.replace("-", "_")
        where = f"spec.defaults.{name} in reconciler.yaml"
        if attribute not in NAMES or attribute in _NOT_IN_FILE:
            allowed = [known.replace("_", "-") for known in NAMES if known not in _NOT_IN_FILE]
            raise _unknown(where, name, allowed)
        values[attribute] = _parse(attribute, text, where)
    for name, text in environ.items():
        if not name.startswith(PREFIX) or name.startswith(_RESERVED) or name in _ELSEWHERE:
            continue
        attribute = name.removeprefix(PREFIX).lower()
        if attribute not in NAMES:
            raise _unknown(name, name, [PREFIX + known.upper() for known in NAMES])
        values[attribute] = _parse(attribute, text, name)
    for name, value in flags.items():
        if value is not None:
            values[name] = _parse(name, str(value), f"--{name.replace('_', '-')}")
    return replace(Settings(), **values)


SIZING_TOKEN = "RECONCILER_SIZING_TOKEN"  # noqa: S105 - the name of the variable that holds it
"""The bearer token of the REST sizing engine: no setting, since a secret belongs into no file and no flag."""

# The others are read before the settings can be, since they say where the settings lie.
_ELSEWHERE = frozenset({"RECONCILER_REPO", "RECONCILER_DEBUG", SIZING_TOKEN})


def _unknown(where: str, name: str, known: list[str]) -> ConfigError:
    from difflib import get_close_matches  # noqa: PLC0415 - only on the way to an error

    near = get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"known are: {', '.join(known)}"
    return ConfigError(f"{where} is not a setting", hint=hint)


def _parse(name: str, text: str, where: str) -> Any:
    parser = _PARSERS.get(name)
    return parser(name, text, where) if parser else text


def _choice(name: str, text: str, where: str) -> str:
    if text not in CHOICES[name]:
        raise ConfigError(f"{where} is {text!r}", hint=f"allowed are: {', '.join(CHOICES[name])}")
    return text


def _number(name: str, text: str, where: str) -> int:
    low, high = _NUMBERS[name]
    if not re.fullmatch(r"[0-9]{1,6}", text) or not low <= int(text) <= high:
        raise ConfigError(f"{where} is {text!r}", hint=f"give a whole number from {low} to {high}")
    return int(text)


def _date(_: str, text: str, where: str) -> str:
    if text and not _DATE.fullmatch(text):
        raise ConfigError(f"{where} is {text!r}", hint="give a date as 2026-01-31")
    return text


_PARSERS: Mapping[str, Callable[[str, str, str], Any]] = {
    **dict.fromkeys(CHOICES, _choice),
    **dict.fromkeys(_NUMBERS, _number),
    "date": _date,
}
