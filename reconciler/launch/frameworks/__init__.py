"""The registry of training frameworks: each is a TOML file in this folder, with code for what a table cannot say.

A file has the fields of `Framework`, and:

- `order`: when it is asked whether a line is its own (a row without one is another's `newer` version);
- `extends`: tables that begin as those of another file (`{settings = "transformers"}`);
- `newer`: the variable that selects another version's arguments, and the file of that version.

A function is named by its module and name, as an entry point is, relative to this folder (`.trl:read_words`). It is
imported when a line of the framework is read.
"""

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.resources import files
from importlib.resources.abc import Traversable
from operator import attrgetter
from typing import Any, get_origin

import msgspec
from msgspec.structs import replace

from reconciler.launch.framework import Framework, Invocation
from reconciler.launch.settings import script_arguments

_OTHER_CONFIG_KEYS = frozenset(
    (
        *("model_type", "architectures"),  # config.json of a model
        *("distributed_type", "compute_environment"),  # accelerate
        "zero_optimization",  # DeepSpeed
    )
)


def read_frameworks(folder: Traversable) -> tuple[Framework, ...]:
    """Return the frameworks of a folder in their order. Raises ValueError with the file and the key that is wrong."""
    contents: dict[str, dict[str, Any]] = {}
    for entry in folder.iterdir():
        stem, dot, extension = entry.name.rpartition(".")
        if dot and extension == "toml":
            try:
                contents[stem] = tomllib.loads(entry.read_text(encoding="utf-8"))
            except tomllib.TOMLDecodeError as error:
                raise ValueError(f"{entry.name}: {error}") from error
    ordered = sorted((data["order"], stem) for stem, data in contents.items() if "order" in data)
    return tuple(_read(stem, contents) for _, stem in ordered)


def _read(stem: str, contents: Mapping[str, Mapping[str, Any]]) -> Framework:
    data = {key: value for key, value in contents[stem].items() if key not in {"order", "extends", "newer"}}
    try:
        for table, base in _names(stem, "extends", contents).items():
            data[table] = _table(table, base, contents, (stem,)) | contents[stem].get(table, {})
        framework = msgspec.convert(data, Framework, dec_hook=_decode)
        newer = {name: _read(other, contents) for name, other in _names(stem, "newer", contents).items()}
        return replace(framework, newer=newer)
    except msgspec.ValidationError as error:
        raise ValueError(f"{stem}.toml: {_wrong_entry(data)}{error}") from error


def _wrong_entry(data: Mapping[str, Any]) -> str:
    """Return the first entry of a table that is wrong, which the error itself shows as `[...]`."""
    entries = [
        (key, name, entry) for key, table in data.items() if type(table) is dict for name, entry in table.items()
    ]
    for key, name, entry in entries:
        try:
            msgspec.convert({"name": "", key: {name: entry}}, Framework, dec_hook=_decode)
        except msgspec.ValidationError as error:
            if "[...]" in str(error):
                return f"{key}.{name}: "
    return ""


def _names(stem: str, key: str, contents: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Return the files that a file names, by table or variable."""
    names: Any = contents[stem].get(key, {})
    if not isinstance(names, dict) or not all(isinstance(name, str) for name in names.values()):
        raise ValueError(f"{stem}.toml: expected names of files - at `$.{key}`")
    if missing := next((name for name in names.values() if name not in contents), None):
        raise ValueError(f"{stem}.toml: there is no file {missing}.toml - at `$.{key}`")
    return names


def _table(table: str, stem: str, contents: Mapping[str, Mapping[str, Any]], above: Sequence[str]) -> dict[str, Any]:
    """Return a table with the entries of the one that it extends."""
    if stem in above:
        raise ValueError(f"{stem}.toml: extends itself - at `$.extends.{table}`")
    base = _names(stem, "extends", contents).get(table)
    inherited = _table(table, base, contents, (*above, stem)) if base else {}
    return {**inherited, **contents[stem].get(table, {})}


def _decode(kind: Any, text: Any) -> Any:
    """Return the expression, or the function, that a text stands for."""
    if not isinstance(text, str):
        raise TypeError(f"expected a text, not {text}")
    if kind is re.Pattern or get_origin(kind) is re.Pattern:
        return _expression(text)
    module, colon, name = text.partition(":")
    if not colon:
        raise ValueError(f"`{text}` is not `module:function`")
    return _function(module, name)


def _expression(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise ValueError(f"`{text}` is no regular expression: {error}") from error


def _function(module: str, name: str) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        return attrgetter(name)(import_module(module, __name__))(*arguments)

    return call


FRAMEWORKS = read_frameworks(files(__name__))
"""In the order in which they are tried. The last one matches every script."""


def find_framework(invocation: Invocation, frameworks: tuple[Framework, ...] = FRAMEWORKS) -> Framework:
    """Return the framework of an invocation: by its command or program, else by its script and flags."""
    if invocation.framework is not None:
        return invocation.framework
    name = invocation.name
    for framework in frameworks:
        if framework.programs is not None and framework.programs.fullmatch(name):
            return framework
    flags = {option.name for option in script_arguments(invocation.fields, invocation.program + 1).options}
    rows = (*frameworks, FRAMEWORKS[-1])
    return next(row for row in rows if any(match.fits(name, flags) for match in row.matches))


def is_configuration(data: Mapping[str, Any], frameworks: tuple[Framework, ...] = FRAMEWORKS) -> bool:
    """Return whether a document is a configuration file that launch lines name.

    Such files are not Kubernetes objects: they have no kind, and are read for sizing but never rendered.
    """
    return "apiVersion" not in data and "kind" not in data and not _config_keys(frameworks).isdisjoint(data)


@cache
def _config_keys(frameworks: tuple[Framework, ...]) -> frozenset[str]:
    return _OTHER_CONFIG_KEYS.union(*(framework.config_keys for framework in frameworks))
