"""Settings of one run: flags override the environment, which overrides `spec.defaults` in `reconciler.yaml`.

Each setting has one name in four spellings: the flag `--cache-dir`, the variable `RECONCILER_CACHE_DIR`, the key
`cache-dir` in `spec.defaults`, and the attribute `cache_dir`. An unknown variable that starts with `RECONCILER_` is an
error, so that a misspelled setting is not ignored.
"""

import datetime as dt
import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from reconciler.errors import ConfigError
from reconciler.outputs import output_names

PREFIX = "RECONCILER_"
# Read by the tests of this project only.
_RESERVED = ("RECONCILER_TEST_",)


class Settings(Struct, frozen=True, kw_only=True):
    """The settings of one run.

    base: revision to compare with (empty: merge base with the upstream's default branch, else HEAD).
    revision: revision to read (empty: the working tree with its uncommitted changes).
    cluster: name of the only cluster to process (empty: all clusters).
    output: output format; each command supports some of them.
    color: when to color the output; `auto`: on a terminal or with FORCE_COLOR, unless NO_COLOR is set.
    width: width of text output in columns (0: width of the terminal, else 100).
    date: date at which exceptions and approvals expire (empty: date of the head commit; `today`: not in a file).
    cache: use of the cache.
    cache_dir: cache folder (empty: the user's cache folder).
    processes: maximum number of worker processes (0: one per CPU).
    log_level: lowest level to log.
    log_format: format of log messages on standard error.
    inventory_namespace: namespace on each cluster that keeps the inventory and the records of applied plans.
    server_patience: seconds to ask a busy or restarting API server again.
    decision_log: file that applied plans are recorded in (empty: `decisions.jsonl` in the user's state folder).
    """

    base: str = ""
    revision: str = ""
    cluster: str = ""
    output: str = "text"
    color: str = "auto"
    width: int = 0
    date: str = ""
    cache: str = "on"
    cache_dir: str = ""
    processes: int = 0
    log_level: str = "warning"
    log_format: str = "text"
    decision_log: str = ""
    inventory_namespace: str = "gpu-reconciler"
    server_patience: int = 30


CHOICES: Mapping[str, tuple[str, ...]] = {
    "output": output_names(),
    "color": ("auto", "always", "never"),
    "cache": ("on", "off"),
    "log_level": ("debug", "info", "warning", "error"),
    "log_format": ("text", "json"),
}
_NUMBERS = {"width": (0, 1000), "processes": (0, 256), "server_patience": (0, 3600)}
CONFIG_FILE = "reconciler.yaml"
TODAY = "today"
"""The date of the run: for pipelines on a schedule. Not in a file, so that the same commit gives the same plan."""
_DATE = "%Y-%m-%d"
NOT_IN_FILE = frozenset({"cache_dir", "revision", "decision_log"})
"""A repository must not choose where the user's files are written, nor which revision is read."""
NAMES = Settings.__struct_fields__


def resolve(flags: Mapping[str, Any], environ: Mapping[str, str], defaults: Mapping[str, str]) -> Settings:
    """Merge the three sources; a flag that is None was not given. Raises `ConfigError` for an invalid value."""
    values: dict[str, Any] = {}
    for name, text in defaults.items():
        attribute = name.replace("-", "_")
        where = f"{CONFIG_FILE}: spec.defaults.{name}"
        if attribute not in NAMES or attribute in NOT_IN_FILE:
            allowed = [known.replace("_", "-") for known in NAMES if known not in NOT_IN_FILE]
            raise _unknown(where, name, allowed)
        values[attribute] = _parse(attribute, text, where)
    for name, text in environ.items():
        if not name.startswith(PREFIX) or name.startswith(_RESERVED) or name in _OTHER_VARIABLES:
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
"""Variable with the bearer token of the REST sizing engine. Not a setting: a secret belongs in no file and no flag."""

SIZING_HOST = "RECONCILER_SIZING_HOST"
"""Variable with the server that the token is for. Not a setting: the repository must not choose who gets the token."""

ALERT_WEBHOOKS = "RECONCILER_ALERT_WEBHOOKS"
"""Variable with the folder of a mounted Secret of webhooks, for the controller."""

DEEP_RUNS = "RECONCILER_DEEP_RUNS"
"""Variable with image, namespace and service account of deep runs as JSON, for the controller."""

FORGE_TOKEN = "RECONCILER_FORGE_TOKEN"  # noqa: S105 - the name of the variable that holds it
"""Variable with the token of the forge. Not a setting, as all of these: the repository must not choose who gets it."""

FORGE_HOST = "RECONCILER_FORGE_HOST"
"""Variable with the host that the token is for, if it is not that of the remote or the pipeline."""

FORGE_APP = "RECONCILER_FORGE_APP"
"""Variable with the client id of a GitHub App, instead of a token."""

FORGE_APP_KEY = "RECONCILER_FORGE_APP_KEY"
"""Variable with the file of the App's private key."""

FORGE_CA = "RECONCILER_FORGE_CA"
"""Variable with a file of certificate authorities, for a forge of your own."""

FORGE_PROXY = "RECONCILER_FORGE_PROXY"
"""Variable with the proxy to the forge, HOST:PORT."""

_FORGE = (FORGE_TOKEN, FORGE_HOST, FORGE_APP, FORGE_APP_KEY, FORGE_CA, FORGE_PROXY)
# Variables that are not settings: the first two are read before the settings are.
_OTHER_VARIABLES = frozenset(
    {"RECONCILER_REPO", "RECONCILER_DEBUG", SIZING_TOKEN, SIZING_HOST, ALERT_WEBHOOKS, DEEP_RUNS, *_FORGE}
)


def _unknown(where: str, name: str, known: list[str]) -> ConfigError:
    near = get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"known settings: {', '.join(known)}"
    return ConfigError(f"{where}: unknown setting", hint=hint)


def _parse(name: str, text: str, where: str) -> Any:
    parser = _PARSERS.get(name)
    return parser(name, text, where) if parser else text


def _choice(name: str, text: str, where: str) -> str:
    if text not in CHOICES[name]:
        raise ConfigError(f"{where}: {text!r} is not allowed", hint=f"allowed values: {', '.join(CHOICES[name])}")
    return text


def _number(name: str, text: str, where: str) -> int:
    low, high = _NUMBERS[name]
    if not re.fullmatch(r"[0-9]{1,6}", text) or not low <= int(text) <= high:
        raise ConfigError(f"{where}: {text!r} is not a whole number from {low} to {high}")
    return int(text)


def _date(_: str, text: str, where: str) -> str:
    if not text:
        return text
    if text == TODAY and not where.startswith(CONFIG_FILE):
        return dt.datetime.now(dt.UTC).date().isoformat()
    try:
        return dt.datetime.strptime(text, _DATE).date().isoformat()  # noqa: DTZ007 - a date has no time zone
    except ValueError as error:
        raise ConfigError(f"{where}: {text!r} is not a date", hint="write it as 2026-01-31") from error


_PARSERS: Mapping[str, Callable[[str, str, str], Any]] = {
    **dict.fromkeys(CHOICES, _choice),
    **dict.fromkeys(_NUMBERS, _number),
    "date": _date,
}
