"""Settings that a line names by file or by position: YAML recipes, `name=value` words, JSON of fms-hf-tuning."""

import base64
import binascii
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from reconciler.core.launch.facts import Diagnostic, Fact
from reconciler.core.launch.gathering import Gathering
from reconciler.core.launch.settings import FileReader, Setting, Settings, flat, read_file
from reconciler.core.launch.shape import from_env
from reconciler.core.launch.shell.variables import UNKNOWN

if TYPE_CHECKING:
    from reconciler.core.launch.dialects import Dialect
    from reconciler.core.launch.options import Arguments
    from reconciler.core.launch.search import LaunchLine

_FILES = (".yaml", ".yml", ".json")
_FMS_PATH = "SFT_TRAINER_CONFIG_JSON_PATH"
_FMS_TEXT = "SFT_TRAINER_CONFIG_JSON_ENV_VAR"
_MAX_TEXT = 1 << 17


def add_configuration(  # noqa: PLR0917 - what a line is made of
    line: "LaunchLine",
    dialect: "Dialect",
    arguments: "Arguments",
    settings: Settings,
    launcher: Settings,
    gathering: Gathering,
    files: FileReader,
) -> None:
    """Add to the script's settings what its files and words say; files of fms-hf-tuning speak to the launcher too."""
    _add_words(dialect, arguments, settings)
    path = _path(dialect, arguments, settings)
    if path is not None and not _is_named_recipe(dialect, path):
        values, diagnostic = read_file(path.text, files, f"{dialect.name or 'training'} configuration".lstrip())
        if diagnostic is not None:
            gathering.diagnostics.append(replace(diagnostic, span=path.fact.span))
        settings.add_file(values, f"file {path.text}")
    if dialect.name == "fms-hf-tuning":
        _add_fms(line, settings, launcher, gathering, files)


def _path(dialect: "Dialect", arguments: "Arguments", settings: Settings) -> Setting | None:
    """Return the file that is named by a flag, or by the first word (transformers takes one only if it is alone)."""
    if dialect.config and (named := settings.find(dialect.config)) is not None:
        return named
    for field in arguments.words[:1]:
        if field.text.endswith(_FILES) or (UNKNOWN in field.text and dialect.family in {"axolotl", "llama-factory"}):
            fact = Fact(value=field.text, snippet=settings.place.written((field,)), span=settings.place.span(field))
            return Setting(field.text, fact, field.why)
    return None


def _is_named_recipe(dialect: "Dialect", path: Setting) -> bool:
    """Tell whether torchtune would find the recipe in its own package: it does without an ending."""
    return dialect.name == "torchtune" and not path.text.endswith(_FILES) and UNKNOWN not in path.text


def _add_words(dialect: "Dialect", arguments: "Arguments", settings: Settings) -> None:
    """Add `name=value` overrides (torchtune, LLaMA-Factory) and LitGPT's checkpoint folder."""
    words = arguments.words
    if dialect.family in {"torchtune", "llama-factory"}:
        for field in words:
            name, separator, text = field.text.partition("=")
            if separator and UNKNOWN not in name:
                settings.add_word(name, text, field)
    elif dialect.family == "litgpt":
        folders = [field for field in words if field.text not in {"lora", "full", "adapter", "adapter_v2"}]
        if folders and not settings.has("checkpoint_dir"):
            settings.add_word("checkpoint_dir", folders[0].text, folders[0])


def _add_fms(
    line: "LaunchLine", settings: Settings, launcher: Settings, gathering: Gathering, files: FileReader
) -> None:
    """fms-hf-tuning takes a JSON file, or base64 of one, from its environment; flags are then not looked at."""
    if (path := from_env(line.env, _FMS_PATH)) is not None:
        values, diagnostic = read_file(path.text, files, "fms-hf-tuning configuration")
        origin = f"file {path.text}"
    elif (text := from_env(line.env, _FMS_TEXT)) is not None:
        values, diagnostic = _decoded(text)
        origin = f"env {_FMS_TEXT}"
    else:
        return
    if diagnostic is not None:
        gathering.diagnostics.append(diagnostic)
    prefix = "accelerate_launch_args."
    launcher.add_file({name.removeprefix(prefix): v for name, v in values.items() if name.startswith(prefix)}, origin)
    settings.add_file(values, origin)


def _decoded(text: Setting) -> tuple[dict[str, str], Diagnostic | None]:
    try:
        data = msgspec.json.decode(base64.b64decode(text.text[:_MAX_TEXT].encode("ascii"), validate=True))
    except (binascii.Error, msgspec.DecodeError, UnicodeError, RecursionError):
        message = f"{_FMS_TEXT} is not base64 of JSON (a pickled object is never opened)"
        return {}, Diagnostic(rule="launch.file", message=message, hint=f"encode JSON, or name a file by {_FMS_PATH}")
    if not isinstance(data, dict):
        return {}, Diagnostic(rule="launch.file", message=f"{_FMS_TEXT} holds no mapping", hint="encode a JSON object")
    return flat(data), None
