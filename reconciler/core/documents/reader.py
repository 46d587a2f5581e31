"""Bytes of a file in, documents and problems out; never an exception.

Reads what kubectl reads, with its types, and refuses what kubectl or the API server would silently change or drop:
duplicate keys, tags, text after `...`. One broken document hides none of the others in its file.
"""

import re
from collections.abc import Container, Iterable, Iterator
from typing import Any

from yaml import MarkedYAMLError, YAMLError

from reconciler.core.documents.builder import Builder, Flaw, ambiguous_scalars, bad_tag, child, lone_tags, paths_to
from reconciler.core.documents.document import Document, Reading
from reconciler.core.documents.parser import Chunk, LimitExceeded, Limits, MappingNode, Node, compose, split
from reconciler.core.documents.syntax import bad_character, directive_line, syntax_problem
from reconciler.core.objects import FieldPath, SourceRef, format_path
from reconciler.core.problems import Problem

Odd = tuple[FieldPath, str]
_DEFAULT = Limits()
_SEPARATOR = re.compile(rb"---[ \t\r]*(?:#|\n|$)")
_UTF16_OR_32 = (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")
_MAYBE_LONE_TAG = re.compile(rb"[\s\[{,]!\s")
_SIZE_UNIT = 1024 * 1024
_NO_OBJECT = "write it as one, or move it out of the source folders"
# Two lines of github.com/git-lfs/git-lfs/blob/main/docs/spec.md, the first of them always first.
_LFS_POINTER = re.compile(rb"version https://git-lfs\.github\.com/spec/v1\r?\n(?:ext-[^\n]*\n)*oid sha256:")


def read(path: str, raw: bytes, limits: Limits = _DEFAULT) -> Reading:
    """Read all documents of a file. Problems are complete and in order; `documents` holds those without any."""
    if len(raw) > limits.file_bytes:
        allowed = f"{limits.file_bytes / _SIZE_UNIT:g} MiB are allowed"
        message = f"the file has {len(raw) / _SIZE_UNIT:.1f} MiB, {allowed}"
        return Reading(problems=(_problem(path, "yaml.file-size", message, "split it into several files"),))
    if raw.startswith(_UTF16_OR_32) or raw[:2].count(b"\0") == 1:
        message = "the file is UTF-16 or UTF-32 text, or binary"
        return Reading(problems=(_problem(path, "yaml.encoding", message, "save it as UTF-8"),))
    if _LFS_POINTER.match(raw):
        message = "the file is a Git LFS pointer, its content is not in this repository"
        hint = "keep it in Git itself: `git lfs untrack`, or `git lfs migrate export --include=PATH`"
        return Reading(problems=(_problem(path, "git.lfs-pointer", message, hint),))
    count = raw.count(b"\n---")
    if count > limits.documents:
        message = f"the file has {count} documents, {limits.documents} are allowed"
        return Reading(problems=(_problem(path, "yaml.document-count", message, "split it into several files"),))
    file = _File(path, raw, Builder(limits))
    for chunk in split(raw):
        file.read(chunk)
        if file.exhausted:
            break
    problems = tuple(sorted(dict.fromkeys(file.problems), key=lambda problem: problem.sort_key))
    return Reading(documents=tuple(file.documents), problems=problems)


def _problem(path: str, rule: str, message: str, hint: str) -> Problem:
    return Problem(rule=rule, place=SourceRef(path=path), message=message, hint=hint)


class _File:
    """One file while it is read."""

    def __init__(self, path: str, raw: bytes, builder: Builder) -> None:
        self.path = path
        self.raw = raw
        self.builder = builder
        self.documents: list[Document] = []
        self.problems: list[Problem] = []
        self.exhausted = False
        """Whether a limit was met: what would follow may cost as much again, so it is not read."""

    def read(self, chunk: Chunk) -> None:
        """Read one document's text."""
        text = chunk.text
        if text.startswith(b"---") and not _SEPARATOR.match(text):
            message = "kubectl takes nothing but a comment after `---`"
            self._add("yaml.separator", chunk, 0, 3, message, "start the document on the next line")
            return
        directive = directive_line(text)
        if directive is not None:
            self._add("yaml.directive", chunk, directive, 0, "%directives are not allowed", "remove the line")
            return
        if not text.isascii() and self._refuse_characters(chunk):
            return
        try:
            node = compose(text, self.builder.limits)
        except LimitExceeded as error:
            self._exceeded(chunk, error)
            return
        except MarkedYAMLError as error:
            self.problems.append(syntax_problem(self.path, chunk, error))
            return
        except (YAMLError, UnicodeError, RecursionError) as error:
            if not self._refuse_characters(chunk):
                self._add("yaml.syntax", chunk, 0, 0, f"the parser gave up: {type(error).__name__}", "check the file")
            return
        if node is not None:
            self._build(chunk, node)

    def _build(self, chunk: Chunk, node: Node) -> None:
        builder = self.builder
        builder.flaws, builder.odd = [], False
        try:
            data = builder.build(node)
        except LimitExceeded as error:
            data = None
            self._exceeded(chunk, error)
        except RecursionError:
            data = None
            self._exceeded(chunk, LimitExceeded("depth", node))
        else:
            if data is None and not builder.flaws:
                return  # nothing but comments, or an explicit null, which kubectl skips as well
            if type(node) is not MappingNode:
                message = "a document is a mapping with apiVersion and kind"
                self._at_node("yaml.not-a-mapping", chunk, node, message, _NO_OBJECT)
        if b"!" in chunk.text and _MAYBE_LONE_TAG.search(chunk.text):
            builder.flaws += [bad_tag(tagged, "!") for tagged in lone_tags(node, chunk.text.decode("utf-8"))]
        paths = paths_to(node, (flaw.node for flaw in builder.flaws)) if builder.flaws else {}
        for flaw in builder.flaws:
            self.problems.append(self._from_flaw(chunk, flaw, paths.get(id(flaw.node), ())))
        if not builder.flaws and isinstance(data, dict):
            found = dict(_unfold(data, ()))
            odd = _by_root(ambiguous_scalars(node), found) if builder.odd else {}
            for root, item in found.items():
                self._keep(chunk, _descend(node, root), root, item, tuple(odd.get(root, ())))

    def _keep(self, chunk: Chunk, node: Node, root: FieldPath, data: Any, odd: tuple[Odd, ...]) -> None:
        mark = node.start_mark
        if not isinstance(data, dict):
            message = "an item of a list is a mapping with apiVersion and kind"
            self._add("yaml.not-a-mapping", chunk, mark.line, mark.column, message, _NO_OBJECT, format_path(root))
            return
        source = SourceRef(path=self.path, line=mark.line + 1 + chunk.line, column=mark.column + 1)
        self.documents.append(
            Document(source=source, data=data, text=self.raw, index=chunk.index, root=root, ambiguous=odd)
        )

    def _refuse_characters(self, chunk: Chunk) -> bool:
        found = bad_character(chunk.text)
        if found is None:
            return False
        rule, line, column, message, hint = found
        self._add(rule, chunk, line, column, message, hint)
        return True

    def _exceeded(self, chunk: Chunk, error: LimitExceeded) -> None:
        self.exhausted = True
        limits = self.builder.limits
        if error.limit == "depth":
            message = f"the document is nested deeper than {limits.depth} levels"
            hint = "flatten it; an alias inside of its own anchor never ends"
        else:
            message = f"the file holds more than {limits.nodes} values, aliases expanded"
            hint = "split it into several files, or use fewer aliases"
        mark = error.node.start_mark if error.node is not None else None
        line, column = (mark.line, mark.column) if mark is not None else (0, 0)
        self._add(f"yaml.{error.limit}", chunk, line, column, message, hint)

    def _from_flaw(self, chunk: Chunk, flaw: Flaw, path: FieldPath) -> Problem:
        message = flaw.message
        if flaw.other is not None:
            mark = flaw.other.start_mark
            message += f" at {mark.line + 1 + chunk.line}:{mark.column + 1}"
        mark = flaw.node.start_mark
        return Problem(
            rule=flaw.rule,
            place=SourceRef(path=self.path, line=mark.line + 1 + chunk.line, column=mark.column + 1),
            message=message,
            field=format_path(path),
            hint=flaw.hint,
        )

    def _at_node(self, rule: str, chunk: Chunk, node: Node, message: str, hint: str) -> None:
        self._add(rule, chunk, node.start_mark.line, node.start_mark.column, message, hint)

    def _add(  # noqa: PLR0917 - a place is two of them
        self, rule: str, chunk: Chunk, line: int, column: int, message: str, hint: str, field: str = ""
    ) -> None:
        place = SourceRef(path=self.path, line=line + 1 + chunk.line, column=column + 1)
        self.problems.append(Problem(rule=rule, place=place, message=message, field=field, hint=hint))


def _unfold(data: Any, root: FieldPath) -> Iterator[tuple[FieldPath, Any]]:
    """Yield a document, or the items of a `List` kind, which may be lists themselves.

    Items of a typed list (`ConfigMapList`) may leave out apiVersion and kind, as the API server itself does.
    """
    if not isinstance(data, dict) or not _is_list(data):
        yield root, data
        return
    kind, version = data["kind"].removesuffix("List"), data.get("apiVersion")
    for position, item in enumerate(data["items"]):
        if kind and isinstance(item, dict) and "kind" not in item:
            item = {"apiVersion": version, "kind": kind} | item  # noqa: PLW2901 - the same item, completed
        yield from _unfold(item, (*root, "items", position))


def _is_list(data: dict[str, Any]) -> bool:
    kind = data.get("kind")
    return isinstance(kind, str) and kind.endswith("List") and isinstance(data.get("items"), list)


def _descend(node: Node, path: FieldPath) -> Node:
    for part in path:
        step = child(node, part)
        if step is None:
            break
        node = step[1]
    return node


def _by_root(odd: Iterable[Odd], roots: Container[FieldPath]) -> dict[FieldPath, list[Odd]]:
    """Give each ambiguous scalar to the document that holds it, with its path from there."""
    found: dict[FieldPath, list[Odd]] = {}
    for path, text in odd:
        for size in range(len(path)):
            if path[:size] in roots:
                found.setdefault(path[:size], []).append((path[size:], text))
                break
    return found
