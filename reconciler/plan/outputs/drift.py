"""Drifted fields as lines, and edits of source files as a diff."""

import json
from collections.abc import Iterable, Iterator
from difflib import unified_diff
from typing import Any

from reconciler.plan import Drift


def render_drift(drift: Iterable[Drift]) -> Iterator[str]:
    """Yield two lines for each field, or object that is gone or not ours: what becomes of it, and who changed it."""
    for one in drift:
        live, git = _value(one.live, exists=one.has_live), _value(one.git, exists=one.has_git)
        field = f"{one.field}: " if one.field else ""
        yield f"{one.key} on {one.cluster}: {field}{live} (Git: {git}): {one.action}\n"
        written = f"last written by {one.who}" if one.has_live else "deleted by somebody"
        details = [f"changed by {one.who}" if one.field else written]
        details += [f"from {one.source}"] if one.source is not None else []
        details += [f"through {one.expires}"] if one.expires else []
        details += [one.reason] if one.reason else []
        yield f"  {'; '.join(details)}\n"


def _value(value: Any, *, exists: bool) -> str:
    if not exists:
        return "(absent)"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def render_diff(path: str, before: bytes, after: bytes) -> Iterator[str]:
    """Yield the lines of a unified diff of one file."""
    old, new = (text.decode(errors="replace").splitlines(keepends=True) for text in (before, after))
    for line in unified_diff(old, new, path if before else "/dev/null", path):
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
