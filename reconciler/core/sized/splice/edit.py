"""Edit the file of changed documents: only what changed differs, and the result is parsed again as a check."""

import json
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from reconciler.core.documents import Document, read
from reconciler.core.documents.parser import Limits, MappingNode, ScalarNode, SequenceNode, YamlNode, compose, split
from reconciler.core.documents.tree import child
from reconciler.core.objects import FieldPath
from reconciler.core.problems import Problem
from reconciler.core.sized.patch import same
from reconciler.core.sized.splice.diff import SpliceBuilder
from reconciler.core.sized.splice.scalars import CannotSpliceError, apply_splices

_LIMITS = Limits(depth=1_000, nodes=3_000_000)
"""The document has been parsed before, within the limits of the caller."""
_BYTE_ORDER_MARK = "\ufeff"


class EditedSource(Struct, frozen=True, kw_only=True):
    """The new content of a file. Documents that could not be edited are unchanged; `problems` say why."""

    content: bytes
    problems: tuple[Problem, ...] = ()


def edit_source(raw: bytes, changes: Sequence[tuple[Document, dict[str, Any]]]) -> EditedSource:
    """Edit the file `raw` so that each document has its new data.

    Scalars change in place, in their quotes and blocks; entries are added after their neighbours. Every document is
    parsed again: one that does not have exactly its new data stays unchanged, with a problem (`sizing.write`, or
    `sizing.shared` if an alias shares a value that has to change).
    """
    problems: list[Problem] = []
    for document, data in changes:
        edited = _edited(raw, document, data)
        if isinstance(edited, Problem):
            problems.append(edited)
        else:
            raw = edited
    return EditedSource(content=raw, problems=tuple(problems))


def _edited(raw: bytes, document: Document, data: dict[str, Any]) -> bytes | Problem:
    chunks = split(raw)
    chunk = chunks[document.index]
    text = chunk.text.decode("utf-8")
    root = compose(chunk.text, _LIMITS)
    if root is None:
        return _problem(document, "sizing.write", "the file has changed since it was read", "run the command again")
    why = ""
    for words in (True, False):
        builder = SpliceBuilder(text, int(text.startswith(_BYTE_ORDER_MARK)), as_json=_is_json(text), words=words)
        try:
            builder.change(_descend(root, document.root), document.data, data)
            new = apply_splices(text, builder.splices)
        except CannotSpliceError as problem:
            why = why or str(problem)
            continue
        content = b"".join(new.encode() if other is chunk else other.text for other in chunks)
        if not raw.endswith(b"\n"):
            content = content.removesuffix(b"\n")
        if _has_data(content, document, data):
            return content
    if _has_shared(root):
        hint = "replace the alias by a copy of the value"
        return _problem(document, "sizing.shared", "a value that has to change is shared by an alias (*name)", hint)
    hint = "edit the file by hand; `reconciler size show` prints the numbers"
    return _problem(document, "sizing.write", f"cannot be edited in place{': ' if why else ''}{why}", hint)


def _problem(document: Document, rule: str, message: str, hint: str) -> Problem:
    return Problem(rule=rule, place=document.source, message=message, hint=hint)


def _has_data(content: bytes, document: Document, data: dict[str, Any]) -> bool:
    """Return whether the document has exactly its new data when it is parsed again."""
    found = [
        other
        for other in read(document.source.path, content).documents
        if (other.index, other.root) == (document.index, document.root)
    ]
    return len(found) == 1 and same(found[0].data, data)


def _descend(node: YamlNode, path: FieldPath) -> YamlNode:
    for part in path:
        step = child(node, part)
        node = step[1] if step is not None else node
    return node


def _is_json(text: str) -> bool:
    if text.lstrip(_BYTE_ORDER_MARK + " \t\r\n")[:1] != "{":
        return False
    try:
        json.loads(text.lstrip(_BYTE_ORDER_MARK))
    except (ValueError, RecursionError):
        return False
    return True


def _has_shared(root: YamlNode) -> bool:
    """Return whether a node is reached twice, which only an alias can cause."""
    seen: set[int] = set()
    pending = [root]
    while pending:
        node = pending.pop()
        if id(node) in seen:
            return True
        seen.add(id(node))
        if type(node) is SequenceNode:
            pending += node.value
        elif type(node) is MappingNode:
            pending += [part for pair in node.value for part in pair]
        elif type(node) is not ScalarNode:
            return False
    return False
