"""The JSON output, as `schemas/gpureconciler.io/v1alpha1/plan.json` defines it. `reconciler show` reads it back."""

import json
from collections.abc import Iterator
from typing import Any

import msgspec

from reconciler.outputs import DEFAULTS, RenderOptions
from reconciler.plan import Plan
from reconciler.plan.codec import fields, plan_checksum


def render_json(plan: Plan) -> str:
    """Render the plan as one text."""
    return "".join(stream_json(plan))


def stream_json(plan: Plan, _: RenderOptions = DEFAULTS) -> Iterator[str]:
    """Yield the plan as indented JSON with keys in the order of the schema: whole lines, one change at a time."""
    yield "{\n"
    for name, value in fields(plan):
        if isinstance(value, Iterator):
            yield from _list(name, value)
        else:
            yield f"  {_json(name)}: {_indented(value, 1)},\n"
    yield f'  "checksum": {_json(plan_checksum(plan))}\n}}\n'


def _list(name: str, items: Iterator[Any]) -> Iterator[str]:
    shown = (f"    {_indented(item, 2)}" for item in items)
    last = next(shown, None)
    if last is None:
        yield f"  {_json(name)}: [],\n"
        return
    yield f"  {_json(name)}: [\n"
    for item in shown:
        yield f"{last},\n"
        last = item
    yield f"{last}\n  ],\n"


def _indented(value: Any, depth: int) -> str:
    """Return JSON for a place `depth` levels deep. No string of JSON contains a line break of its own."""
    return _json(value).replace("\n", "\n" + "  " * depth)


def _json(value: Any) -> str:
    try:
        return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    except UnicodeEncodeError:  # a file name that is not UTF-8
        return json.dumps(msgspec.to_builtins(value), indent=2, ensure_ascii=False)
