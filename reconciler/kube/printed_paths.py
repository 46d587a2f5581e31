"""Printed paths, such as `spec.containers[name=trainer].image`, back to the values that they name."""

import re
from collections.abc import Iterator
from typing import Any

from reconciler.kube.items import ListKeys, find_item
from reconciler.kube.objects import FieldPath
from reconciler.kube.patterns import later

ORDER = " (order)"
"""The end of a path that names the order of a list's items."""

_STEP = later(r'\.?([^.\[\]"]+)|\["((?:[^"\\]|\\.)*)"\]|\[((?:"(?:[^"\\]|\\.)*"|[^\]"])*)\]')
_ESCAPE = later(r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8})|(.))")
_LETTERS = {"n": "\n", "r": "\r", "t": "\t"}


def find_path(body: Any, text: str, list_keys: ListKeys) -> tuple[FieldPath, str]:
    """Return the path that `text` names in an object, and the rest of the text that names nothing there."""
    text = text.removesuffix(ORDER)
    path: FieldPath = ()
    node, position = body, 0
    while position < len(text):
        match = _STEP.match(text, position)
        step = None if match is None else _step(path, node, match, list_keys)
        if match is None or step is None:
            return path, text[position:]
        path, node, position = (*path, step), node[step], match.end()
    return path, ""


def _step(path: FieldPath, node: Any, match: re.Match[str], list_keys: ListKeys) -> str | int | None:
    plain, quoted, label = match.groups()
    if isinstance(node, list):
        name = label if quoted is None else f'"{quoted}"'
        return None if name is None else _item(path, node, name, list_keys)
    if not isinstance(node, dict) or label is not None:
        return None
    key = plain if quoted is None else _unescape(quoted)
    return key if key in node else None


def _item(path: FieldPath, items: list[Any], label: str, list_keys: ListKeys) -> int | None:
    """Return the position of an item: as a plan names it, or else by any field, as people write it."""
    found = find_item(path, items, label, list_keys)
    if found is not None or "=" not in label:
        return found
    key, _, value = label.partition("=")
    if value.startswith('"') and value.endswith('"'):
        value = _unescape(value[1:-1])
    return next((at for at, item in enumerate(items) if isinstance(item, dict) and str(item.get(key)) == value), None)


def _unescape(text: str) -> str:
    return "".join(_unescaped(text))


def _unescaped(text: str) -> Iterator[str]:
    position = 0
    for match in _ESCAPE.finditer(text):
        yield text[position : match.start()]
        *codes, letter = match.groups()
        code = next((code for code in codes if code), "")
        yield chr(int(code, 16)) if code else _LETTERS.get(letter, letter)
        position = match.end()
    yield text[position:]
