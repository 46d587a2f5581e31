"""Generate `docs/reference/` from `--help`, schemas, rules, settings and exit codes: `make docs`.

A test fails if a page is out of date.
"""

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from reconciler import errors
from reconciler.adapters import bundle
from reconciler.cli.main import COMMANDS, reconciler
from reconciler.core.documents import read
from reconciler.core.policy.references import RULES
from reconciler.core.schemas import Catalogue
from reconciler.settings import CHOICES, NAMES, PREFIX, Settings

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "reference"
_NOTE = "<!-- Written by `make docs`; edits are lost. -->\n"
_GROUPS = ("gpureconciler.io", "torchrun.ai")


def pages() -> dict[str, str]:
    """Return every page by its file name."""
    return {
        "cli.md": _cli(),
        "exit-codes.md": _exit_codes(),
        "kinds.md": _kinds(),
        "rules.md": _rules(),
        "settings.md": _settings(),
    }


def _cli() -> str:
    parts = [_NOTE, "# Commands\n", _help(reconciler, "reconciler", None)]
    root = click.Context(reconciler, info_name="reconciler", **reconciler.context_settings)
    for verb in COMMANDS:
        command = reconciler.get_command(root, verb)
        if command is not None:
            parts.append(f"\n## {verb}\n\n{_help(command, verb, root)}")
            for name, below in getattr(command, "commands", {}).items():
                above = click.Context(command, info_name=verb, parent=root)
                parts.append(f"\n### {verb} {name}\n\n{_help(below, name, above)}")
    return "\n".join(parts)


def _help(command: click.Command, name: str, parent: click.Context | None) -> str:
    settings: dict[str, Any] = {**reconciler.context_settings, "terminal_width": 100, "max_content_width": 100}
    context = click.Context(command, info_name=name, parent=parent, **settings)
    return f"```text\n{command.get_help(context)}\n```"


def _exit_codes() -> str:
    lines = [_NOTE, "# Exit codes\n", "| Code | Means | Raised as |", "|---|---|---|", "| 0 | done | |"]
    lines.append("| 1 | changes pending; only with `--exit-code` | |")
    family = [
        kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.ReconcilerError)
    ]
    for code in sorted({kind.exit_code for kind in family}):
        kinds = [kind for kind in family if kind.exit_code == code]
        meaning = "a bug" if code == errors.ReconcilerError.exit_code else _first_line(kinds[0].__doc__)
        names = "" if code == errors.ReconcilerError.exit_code else ", ".join(f"`{kind.__name__}`" for kind in kinds)
        lines.append(f"| {code} | {meaning} | {names} |")
    lines.append("| 130 | interrupted by Ctrl-C | |")
    lines.append("| 141 | whoever read the output has left, as `head` does | |")
    lines.append("| 143 | ended by SIGTERM | |")
    return "\n".join(lines) + "\n"


def _first_line(docstring: str | None) -> str:
    text = " ".join((docstring or "").split("\n\n")[0].split())
    return text[:1].lower() + text[1:].split(". ")[0].rstrip(".")


def _settings() -> str:
    meanings = dict(re.findall(r"^\s*(\w+(?:, \w+)?): (.+?)$", Settings.__doc__ or "", re.MULTILINE))
    lines = [
        _NOTE,
        "# Settings\n",
        "A flag wins over its variable, which wins over `spec.defaults` in `reconciler.yaml`.",
        "A variable that starts with `RECONCILER_` and is not listed here is an error.\n",
        "| Setting | Variable | Allowed | Default |",
        "|---|---|---|---|",
    ]
    for name in NAMES:
        allowed = ", ".join(f"`{choice}`" for choice in CHOICES.get(name, ()))
        default = getattr(Settings(), name)
        shown = f"`{default}`" if default != "" else ""
        lines.append(f"| `{name.replace('_', '-')}` | `{PREFIX}{name.upper()}` | {allowed} | {shown} |")
    lines += ["", *(f"- **{name}**: {meaning}" for name, meaning in meanings.items())]
    lines += ["", "`RECONCILER_REPO` names the repository, as `--repo` does; `RECONCILER_DEBUG=1` shows traces."]
    return "\n".join(lines) + "\n"


def _kinds() -> str:
    catalogue = Catalogue(bundle)
    parts = [
        _NOTE,
        "# Kinds\n",
        "`reconciler schema KIND` prints each as JSON Schema, for editors.\n",
    ]
    for name in catalogue.kinds():
        schema = catalogue.json_schema(name.kind)
        if name.group in _GROUPS and schema is not None and name.kind != "Plan":
            parts += [f"## {name.kind}\n", f"`{name.group}/{name.version}`. {_cell(schema.get('description', ''))}\n"]
            parts += ["| Field | Type | Default | Meaning |", "|---|---|---|---|"]
            parts += [*_fields(schema, schema, ""), ""]
    return "\n".join(parts).rstrip() + "\n"


def _fields(schema: Mapping[str, Any], root: Mapping[str, Any], path: str, depth: int = 0) -> Iterator[str]:
    schema = _resolved(schema, root)
    required = set(schema.get("required", ()))
    for name, raw in schema.get("properties", {}).items():
        inner = _resolved(raw, root)
        field = f"{path}{name}"
        default = f"`{inner['default']}`" if "default" in inner else "**required**" if name in required else ""
        if field not in {"apiVersion", "kind", "metadata"}:
            yield f"| `{field}` | {_type(inner)} | {default} | {_cell(inner.get('description', ''))} |"
            if depth < _DEEPEST:
                yield from _fields(inner, root, f"{field}.", depth + 1)
                if isinstance(inner.get("items"), dict):
                    yield from _fields(inner["items"], root, f"{field}[].", depth + 1)
                if isinstance(inner.get("additionalProperties"), dict):
                    yield from _fields(inner["additionalProperties"], root, f"{field}.*.", depth + 1)


_DEEPEST = 6


def _resolved(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    reference = schema.get("$ref")
    if not isinstance(reference, str):
        return schema
    node: Any = root
    for part in reference.removeprefix("#/").split("/"):
        node = node[part]
    return {**node, **{key: value for key, value in schema.items() if key != "$ref"}}


def _type(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return " ".join(f"`{value}`" for value in schema["enum"])
    kind = schema.get("type", "")
    return " or ".join(kind) if isinstance(kind, list) else str(kind)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _rules() -> str:
    parts = [_NOTE, "# Rules\n", "Switch a rule off, or change its action or parameters, under `spec.rules` in"]
    parts.append("`reconciler.yaml`; allow one object for a while by a `PolicyException`.\n")
    parts.append("## About one object\n\nEach is a `ValidatingAdmissionPolicy` that an API server takes unchanged.\n")
    for path in bundle.walk("policies"):
        if path.count("/") == 2 and path.endswith("rule.yaml"):  # noqa: PLR2004 - policies/<rule>/rule.yaml
            parts += _policy(path)
    parts.append("## About all objects together\n")
    for rule, about in sorted(RULES.items()):
        parts += [f"### {rule}\n", f"{about.title} ({about.action.value}): {about.reason}.\n"]
    return "\n".join(parts).rstrip() + "\n"


def _policy(path: str) -> Iterator[str]:
    documents = read(path, bundle.read(path)).documents
    notes = documents[0].metadata.get("annotations", {})
    actions = [
        document.data["spec"].get("validationActions", []) for document in documents if "Binding" in document.kind
    ]
    action = ", ".join(str(one) for each in actions for one in each)
    yield f"### {documents[0].key.name}\n"
    yield f"{notes.get('gpureconciler.io/title', '')} ({action.lower()}). {notes.get('gpureconciler.io/reason', '')}\n"
    yield f"*What to do:* {notes.get('gpureconciler.io/hint', '')}\n"
    parameters = [document for document in documents if document.kind == "ConfigMap"]
    for document in parameters:
        for name, value in document.data.get("data", {}).items():
            yield f"*Parameter* `{name}`: `{value}` unless set.\n"


def main() -> int:
    """Write all pages."""
    FOLDER.mkdir(exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
