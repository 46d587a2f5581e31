"""Templates of users: rendered in a sandbox, in a process with limits, to the document of one workload."""

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from reconciler.errors import InvalidInput
from reconciler.kube.objects import SourceRef
from reconciler.kube.problems import Problem
from reconciler.kube.yaml import Document, read
from reconciler.processes import ChildCommand, ChildProcess, ProcessUnavailable, without_credentials
from reconciler.submit.go_templates import is_go_template, to_jinja

SECONDS = 10.0
_MEMORY_BYTES = 256 << 20
_MAX_BYTES = 3 << 20


class TemplateInput(Struct, frozen=True, kw_only=True):
    """The values that a template may use; the names are those of Kaiwo's templates (`names`)."""

    meta: Mapping[str, Any]
    scheduling: Mapping[str, Any]
    entrypoint: str = ""
    serve_config: str = ""
    queue: str = ""
    custom: Any = None

    def names(self) -> dict[str, Any]:
        """Return the values by their names in a template."""
        return {
            "Meta": dict(self.meta),
            "Scheduling": dict(self.scheduling),
            "Workload": {"Entrypoint": self.entrypoint, "Serveconfig": self.serve_config},
            "WorkloadMeta": {"Queue": self.queue, "Name": self.meta.get("Name", "")},
            "Custom": self.custom,
        }


def render_template(path: str, raw: bytes, given: TemplateInput) -> Document:
    """Return the document that a template renders. One in Go's syntax is converted first, as far as that is possible.

    Raises `InvalidInput` with the line of the template that cannot be rendered.
    """
    template = raw.decode("utf-8", "replace")
    if is_go_template(template):
        template = to_jinja(path, template)
    rendered = _render(path, template, given.names())
    reading = read(path, rendered.encode())
    if reading.problems:
        raise InvalidInput(reading.problems, where=f"in what {path} renders")
    if len(reading.documents) != 1:
        raise _wrong(path, 1, f"renders {len(reading.documents)} documents", "render exactly one")
    return reading.documents[0]


def _render(path: str, template: str, names: Mapping[str, Any]) -> str:
    command = ChildCommand(
        name="the template",
        argv=(sys.executable, "-m", "reconciler.submit.template_child"),
        folder=Path("/"),
        environ=without_credentials(os.environ),
        memory_bytes=_MEMORY_BYTES,
        file_bytes=1,
    )
    child = ChildProcess(command, interactive=True)
    try:
        asked = json.dumps({"template": template, "context": names}).encode() + b"\n"
        answer = json.loads(child.exchange(asked, seconds=SECONDS, max_bytes=_MAX_BYTES))
    except ProcessUnavailable as error:
        raise _wrong(path, 1, error.message, "make it smaller: a template is for values, not for work") from error
    finally:
        child.end()
    if "error" in answer:
        raise _wrong(path, answer["line"], answer["error"], "the names are in docs/submitting.md")
    return str(answer["text"])


def _wrong(path: str, line: int, message: str, hint: str) -> InvalidInput:
    place = SourceRef(path=path, line=line, column=1)
    return InvalidInput([Problem(rule="submit.template", place=place, message=message, hint=hint)], where=f"in {path}")
