"""A source file with changed documents: only what changed differs, and the result is read again to make sure."""

import json
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from reconciler.core.documents import Document, read
from reconciler.core.documents.parser import Limits, MappingNode, ScalarNode, SequenceNode, YamlNode, compose, split
from reconciler.core.documents.tree import child
from reconciler.core.objects import FieldPath
from reconciler.core.problems import Problem
from reconciler.core.sized.draft import same
from reconciler.core.sized.inplace.cuts import CannotSplice, applied
from reconciler.core.sized.inplace.walk import Walk

_GENEROUS = Limits(depth=1_000, nodes=3_000_000)
"""The document was read before, within the caller's limits."""
_MARK = "\ufeff"


class EditedSource(Struct, frozen=True, kw_only=True):
    """A file's new bytes; those of documents that could not be edited are as before, and `problems` say why."""

    content: bytes
    problems: tuple[Problem, ...] = ()


def edit_source(raw: bytes, changes: Sequence[tuple[Document, dict[str, Any]]]) -> EditedSource:
    """Make each document of the file `raw` read as its new data.

    Scalars are changed where they stand, in their quotes and blocks; entries are added behind their neighbours. Every
    document is read again: one that does not mean exactly its new data is left alone, with a problem (`sizing.write`,
    `sizing.shared` where an alias shares what had to change).
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
    root = compose(chunk.text, _GENEROUS)
    if root is None:
        return _problem(document, "sizing.write", "the file has changed since it was read", "run it again")
    why = ""
    for words in (True, False):
        walk = Walk(text, int(text.startswith(_MARK)), as_json=_is_json(text), words=words)
        try:
            walk.change(_descend(root, document.root), document.data, data)
            new = applied(text, walk.cuts)
        except CannotSplice as problem:
            why = why or str(problem)
            continue
        content = b"".join(new.encode() if other is chunk else other.text for other in chunks)
        if not raw.endswith(b"\n"):
            content = content.removesuffix(b"\n")
        if _means(content, document, data):
            return content
    if _has_shared(root):
        hint = "write the shared part out where it is used, so that each place can have its own value"
        return _problem(document, "sizing.shared", "an alias (*name) shares a value that has to change", hint)
    hint = "make the change by hand; `reconciler size` prints it"
    return _problem(document, "sizing.write", f"cannot be edited in place{': ' if why else ''}{why}", hint)


def _problem(document: Document, rule: str, message: str, hint: str) -> Problem:
    return Problem(rule=rule, place=document.source, message=message, hint=hint)


def _means(content: bytes, document: Document, data: dict[str, Any]) -> bool:
    """Whether the document, read again, is exactly its new data."""
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
    if text.lstrip(_MARK + " \t\r\n")[:1] != "{":
        return False
    try:
        json.loads(text.lstrip(_MARK))
    except (ValueError, RecursionError):
        return False
    return True


def _has_shared(root: YamlNode) -> bool:
    """Whether some node is reached twice, which only an alias can do."""
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
