"""New values as YAML text: in the style of what stands around them."""

import json
from collections.abc import Iterator
from typing import Any

from reconciler.core.documents import write

_FLOW_SIGNS = frozenset(",[]{}")


def block_entry(key: str, value: Any, indent: int, deeper: int) -> list[str]:
    """Return the lines of a mapping's entry; dashes stand `deeper` than the key of their list."""
    return [" " * indent + line if line else "" for line in _entry(key, value, deeper)]


def block_item(item: Any, indent: int, deeper: int) -> list[str]:
    """Return the lines of a list's item, its dash at `indent`."""
    return [" " * indent + line if line else "" for line in _item(item, deeper)]


def _entry(key: str, value: Any, deeper: int) -> Iterator[str]:
    name = inline(key, flow=False, as_json=False)
    if value and isinstance(value, dict):
        yield f"{name}:"
        for below, item in value.items():
            yield from _indented(_entry(below, item, deeper), 2)
    elif value and isinstance(value, list):
        yield f"{name}:"
        for item in value:
            yield from _indented(_item(item, deeper), deeper)
    else:
        yield from write({key: value}).decode().removesuffix("\n").split("\n")


def _item(item: Any, deeper: int) -> Iterator[str]:
    if item and isinstance(item, dict):
        lines = [line for key, value in item.items() for line in _entry(key, value, deeper)]
    elif item and isinstance(item, list):
        lines = [line for below in item for line in _item(below, deeper)]
    else:
        _, _, text = write({"x": [item]}).decode().partition("\n- ")
        lines = text.removesuffix("\n").split("\n")
        lines[1:] = [line.removeprefix("  ") for line in lines[1:]]
    yield f"- {lines[0]}"
    yield from _indented(iter(lines[1:]), 2)


def _indented(lines: Iterator[str], width: int) -> Iterator[str]:
    for line in lines:
        yield " " * width + line if line else ""


def inline(value: Any, *, flow: bool, as_json: bool) -> str:
    """Return a value on one line; in a flow collection or in JSON more has to be quoted."""
    if as_json:
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, dict):
        entries = (f"{_flow(key)}: {_flow(item)}" for key, item in value.items())
        return "{" + ", ".join(entries) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    text = write({"x": value}).decode().removeprefix("x: ").removesuffix("\n")
    plain = isinstance(value, str) and text == value
    if "\n" in text or (plain and flow and not _FLOW_SIGNS.isdisjoint(text)):
        return json.dumps(value, ensure_ascii=False)
    return text


def _flow(value: Any) -> str:
    return inline(value, flow=True, as_json=False)
