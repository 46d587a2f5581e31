"""Read the documents of a file. Everything that is wrong becomes a problem; `read` raises nothing.

Values have the types that kubectl reads. What kubectl or the API server would silently change or ignore is an error:
duplicate keys, tags, text after `...`. An invalid document does not affect the others in its file.
"""

import json
import math
import re
from collections.abc import Container, Iterable, Iterator
from typing import Any

from msgspec.structs import replace

from reconciler.kube.objects import FieldPath, OversizedContent, SourceRef, format_path
from reconciler.kube.patterns import later
from reconciler.kube.problems import Problem
from reconciler.kube.yaml.document import Document, Reading
from reconciler.kube.yaml.libyaml import MarkedYAMLError, YAMLError
from reconciler.kube.yaml.parser import (
    COLLECTION,
    PLAIN,
    QUOTED,
    Chunk,
    LimitExceeded,
    Limits,
    MappingNode,
    ScalarNode,
    SequenceNode,
    YamlNode,
    compose,
    split,
)
from reconciler.kube.yaml.scalars import is_ambiguous, key_text, resolve
from reconciler.kube.yaml.tree import ambiguous_scalars, bare_tags, child, is_merge, key_name, paths_to

# Build plain values from a node tree: Kubernetes' types, merge keys, duplicates and limits.


_TAGS = {
    "tag:yaml.org,2002:str": ScalarNode,
    "tag:yaml.org,2002:map": MappingNode,
    "tag:yaml.org,2002:seq": SequenceNode,
}

_MEMO_SIZE = 50_000

_MEMO_TEXT = 64

_MAX_SHOWN = 60

# Caches of `resolve` and `key_text` for unambiguous scalars; emptied when they grow too large.
_values: dict[str, Any] = {}

_keys: dict[str, str] = {}


class Builder:
    """Builds the values of one file's documents, with one budget of nodes for all of them.

    `problems` and `has_ambiguous` are those of the last document. The problems have no `field` yet: a path is only
    computed for the node of a problem.
    """

    def __init__(self, path: str, limits: Limits) -> None:
        self.limits = limits
        self._max_depth, self._max_nodes = limits.depth, limits.nodes
        self._path, self._line = path, 0
        self.nodes = 0
        self.problems: list[tuple[YamlNode, Problem]] = []
        self.has_ambiguous = False
        """Whether the document has an ambiguous plain scalar."""

    def start(self, line: int) -> None:
        """Start a document that has `line` lines before it."""
        self._line = line
        self.problems, self.has_ambiguous = [], False

    def place(self, node: YamlNode) -> SourceRef:
        """Return the place of a node in the file."""
        mark = node.start_mark
        return SourceRef(path=self._path, line=mark.line + 1 + self._line, column=mark.column + 1)

    def add(self, rule: str, node: YamlNode, message: str, hint: str) -> None:
        """Add a problem at a node."""
        self.problems.append((node, Problem(rule=rule, place=self.place(node), message=message, hint=hint)))

    def add_tag(self, node: YamlNode, tag: str) -> None:
        """Refuse a tag: kubectl silently ignores most of them."""
        hint = "remove the tag; allowed tags: !!str, !!map, !!seq"
        is_password = tag.startswith("!") and len(tag) > 1  # perhaps: `password: !x1 y` without quotes
        name = "this tag" if is_password else f"the tag {_shown(tag)}"
        self.add("yaml.tag", node, f"{name} is not allowed", hint)

    def build(self, node: YamlNode, depth: int = 0) -> Any:
        """Return the value of a node. Raises LimitExceeded."""
        tag = node.tag
        if tag is PLAIN:
            try:
                return _values[node.value]
            except KeyError:  # a value that was not seen before
                return self._plain(node)
        if tag is QUOTED:
            return node.value
        if tag is not COLLECTION and _TAGS.get(tag) is not type(node):
            self.add_tag(node, tag)
            return None
        if type(node) is ScalarNode:
            return node.value
        return self._mapping(node, depth) if type(node) is MappingNode else self._sequence(node, depth)

    def _exceed(self, node: YamlNode, depth: int) -> None:
        raise LimitExceeded("depth" if depth >= self.limits.depth else "nodes", node.start_mark)

    def _sequence(self, node: YamlNode, depth: int) -> list[Any]:
        self.nodes += 1 + len(node.value)
        if depth >= self._max_depth or self.nodes > self._max_nodes:
            self._exceed(node, depth)
        depth += 1
        build, mapping = self.build, self._mapping
        return [
            mapping(item, depth) if item.tag is COLLECTION and type(item) is MappingNode else build(item, depth)
            for item in node.value
        ]

    def _mapping(self, node: YamlNode, depth: int) -> dict[str, Any]:  # noqa: C901 - inlined: this is half of the reading time
        self.nodes += 1 + len(node.value)
        if depth >= self._max_depth or self.nodes > self._max_nodes:
            self._exceed(node, depth)
        depth += 1
        data: dict[str, Any] = {}
        for key_node, value_node in node.value:
            try:
                name = _keys[key_node.value] if key_node.tag is PLAIN else _quoted_key(key_node)
            except KeyError:
                uncached = self._resolve_key(key_node)
                if uncached is None:
                    if is_merge(key_node):
                        self._merge(data, value_node, depth)
                    continue
                name = uncached
            tag = value_node.tag
            if tag is PLAIN:
                try:
                    data[name] = _values[value_node.value]
                except KeyError:
                    data[name] = self._plain(value_node)
            elif tag is QUOTED:
                data[name] = value_node.value
            elif tag is COLLECTION and type(value_node) is MappingNode:
                data[name] = self._mapping(value_node, depth)
            else:
                data[name] = self.build(value_node, depth)
        if len(data) != len(node.value):
            self._find_duplicates(node)
        return data

    def _plain(self, node: YamlNode) -> Any:
        """Resolve a plain scalar that is not in the cache."""
        text = node.value
        value = resolve(text)
        if isinstance(value, float) and not math.isfinite(value):
            hint = "write a finite number, or quote it"
            self.add("yaml.number", node, f"{_shown(text)} is not a valid JSON number", hint)
        elif is_ambiguous(text):
            self.has_ambiguous = True
        elif len(text) <= _MEMO_TEXT:
            if len(_values) >= _MEMO_SIZE:
                _values.clear()
            _values[text] = value
        return value

    def _resolve_key(self, node: YamlNode) -> str | None:
        """Return the text of a key that is not in the cache, or None for a merge key or an invalid one."""
        if node.tag is not PLAIN:
            return self._tagged_key(node)
        text = node.value
        if is_merge(node):
            return None
        name = key_text(text)
        if name is None:
            hint = f"quote it: {_shown(text)}" if text else "write the key before the colon"
            self.add("yaml.key", node, f"{_shown(text)} is not a string and cannot be a key", hint)
            return None
        if name != text or is_ambiguous(text):
            message = f"YAML parsers disagree about the key {_shown(text)}"
            if name != text:
                message += f", and Kubernetes reads {_shown(name)}"
            self.add("yaml.ambiguous-key", node, message, f"quote it: {_shown(text)}")
        elif len(text) <= _MEMO_TEXT:
            if len(_keys) >= _MEMO_SIZE:
                _keys.clear()
            _keys[text] = name
        return name

    def _tagged_key(self, node: YamlNode) -> str | None:
        if type(node) is not ScalarNode:
            hint = "keys are strings; if this is a template placeholder, quote it or render the template first"
            kind = "mapping" if type(node) is MappingNode else "list"
            self.add("yaml.key", node, f"a {kind} cannot be a key", hint)
            return None
        value = self.build(node)
        return value if isinstance(value, str) else None

    def _merge(self, data: dict[str, Any], node: YamlNode, depth: int) -> None:
        """Merge as go-yaml v2 does: immediately, over earlier keys; the first mapping of a list wins."""
        sources = node.value if type(node) is SequenceNode else [node]
        for source in reversed(sources):
            if type(source) is not MappingNode:
                hint = "use an alias of a mapping, or a list of aliases"
                self.add("yaml.merge", node, "the value of << must be a mapping or a list of mappings", hint)
                return
        merged: dict[str, Any] = {}
        for source in reversed(sources):
            merged.update(self.build(source, depth) or {})
        for name, value in merged.items():
            if name in data and data[name] != value:
                message = f"this << overrides the key {_shown(name)} in Kubernetes, but not in other YAML parsers"
                self.add("yaml.merge-override", node, message, "write << before the other keys")
        data.update(merged)

    def _find_duplicates(self, node: YamlNode) -> None:
        first: dict[str, YamlNode] = {}
        for key_node, _ in node.value:
            name = key_name(key_node)
            if name is None:
                continue
            if name in first:
                place = self.place(first[name])
                message = f"the key {_shown(name)} is already set at {place.line}:{place.column}"
                self.add("yaml.duplicate-key", key_node, message, "keep one of the two")
            else:
                first[name] = key_node


def _quoted_key(node: YamlNode) -> str:
    if node.tag is QUOTED:
        text: str = node.value
        return text
    raise KeyError


def _shown(text: str) -> str:
    """Quote text from a file for a message, shortened."""
    short = text if len(text) <= _MAX_SHOWN else text[:_MAX_SHOWN] + "..."
    return json.dumps(short) if text else "an empty value"


Ambiguous = tuple[FieldPath, str]

_DEFAULT = Limits()

_SEPARATOR = later(rb"---[ \t\r]*(?:#|\n|$)")

_UTF16_OR_32 = (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")

_MAYBE_BARE_TAG = later(rb"[\s\[{,]!\s")

_SIZE_UNIT = 1024 * 1024

_NOT_AN_OBJECT = "write an object, or move the file out of the source folders"

# The first lines of a pointer: github.com/git-lfs/git-lfs/blob/main/docs/spec.md
_LFS_POINTER = later(rb"version https://git-lfs\.github\.com/spec/v1\r?\n(?:ext-[^\n]*\n)*oid sha256:")

# Non-printable characters of YAML 1.2, and U+FEFF, which is only allowed at the start of a file
_CONTROL = later("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ufeff\ufffe\uffff]")

# Unicode's directional formatting characters: text looks different from what it is (CVE-2021-42574)
_BIDI = later("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")

CONFLICT = later(rb"^<{7}(?: |$)", re.MULTILINE)
"""The line that starts a merge conflict in a file."""

_DIRECTIVE = later(rb"(?:\A(?:\xef\xbb\xbf)?|\n\.\.\.[^\n]*\n)(?:[ \t]*(?:#[^\n]*)?\r?\n)*%")

_SEPARATOR_HINT = "start each document with a `---` line; kubectl ignores what follows `...`"

_SYNTAX_HINTS = (
    ("found another document", _SEPARATOR_HINT),
    ("mapping values are not allowed", "check the indentation, or quote a value that contains `: `"),
    ("could not find expected ':'", "add the colon after the key, or quote or indent the text"),
    ("did not find expected key", "align this key with the other keys of its mapping"),
    ("did not find expected '-' indicator", "align this item with the other items of its list"),
    ("duplicate anchor", "use a different name for each anchor of a document"),
    ("undefined alias", "define the anchor (&name) above, or quote a text that starts with `*`"),
    ("block collections are not allowed", "start the list or mapping on its own line"),
    ("block sequence entries are not allowed", "start the list on its own line"),
    ("unknown escape character", 'write a backslash as `\\\\` in "double quotes", or use single quotes'),
    ("Unicode character escape", "write the character itself, or its \\U escape with eight digits"),
    ("unexpected end of stream", "close the quote or bracket"),
    ("expected ',' or", "close the bracket, or separate the entries with commas"),
    ("undefined tag handle", "remove the tag"),
    ("tab character", "indent with spaces"),
)


def read(path: str, raw: bytes, limits: Limits = _DEFAULT) -> Reading:
    """Read all documents of a file. `documents` contains those without problems.

    Not for several threads at one time: they share one parser.
    """
    size = raw.size if isinstance(raw, OversizedContent) else len(raw)
    if size > limits.file_bytes or isinstance(raw, OversizedContent):
        maximum = f"{limits.file_bytes / _SIZE_UNIT:g} MiB"
        message = f"the file has {size / _SIZE_UNIT:.1f} MiB, the maximum is {maximum}"
        return Reading(problems=(_problem(path, "yaml.file-size", message, "split it into several files"),))
    if raw.startswith(_UTF16_OR_32) or raw[:2].count(b"\0") == 1:
        message = "the file is binary, or UTF-16 or UTF-32 text"
        return Reading(problems=(_problem(path, "yaml.encoding", message, "save it as UTF-8"),))
    if _LFS_POINTER.match(raw):
        message = "the file is a Git LFS pointer, and its content is not in the repository"
        hint = "store it in Git: `git lfs untrack`, or `git lfs migrate export --include=PATH`"
        return Reading(problems=(_problem(path, "git.lfs-pointer", message, hint),))
    count = raw.count(b"\n---")
    if count > limits.documents:
        message = f"the file has {count} documents, the maximum is {limits.documents}"
        return Reading(problems=(_problem(path, "yaml.document-count", message, "split it into several files"),))
    file = _File(path, raw, Builder(path, limits))
    for chunk in split(raw):
        file.read(chunk)
        if file.exhausted:
            break
    problems = tuple(sorted(dict.fromkeys(file.problems), key=lambda problem: problem.sort_key))
    return Reading(documents=tuple(file.documents), problems=problems)


def read_written(path: str, raw: bytes) -> Reading:
    """Read a file that people write: one without content is a problem, because it looks like a lost file."""
    if not isinstance(raw, OversizedContent) and not raw.strip():
        hint = "delete the file, or restore its content; a file that contains only comments is allowed"
        return Reading(problems=(_problem(path, "yaml.empty", "the file is empty", hint),))
    return read(path, raw)


def _problem(path: str, rule: str, message: str, hint: str) -> Problem:
    return Problem(rule=rule, place=SourceRef(path=path), message=message, hint=hint)


class _File:
    """The state of reading one file."""

    def __init__(self, path: str, raw: bytes, builder: Builder) -> None:
        self.path = path
        self.raw = raw
        self.builder = builder
        self.documents: list[Document] = []
        self.problems: list[Problem] = []
        self.exhausted = False
        """Whether a limit was exceeded. The rest of the file is not read: it may cost as much again."""

    def read(self, chunk: Chunk) -> None:
        """Read one document."""
        text = chunk.text
        if text.startswith(b"---") and not _SEPARATOR.match(text):
            message = "only a comment is allowed after `---`"
            self._add("yaml.separator", chunk, 0, 3, message, "start the document on the next line")
            return
        directive = _directive_line(text)
        if directive is not None:
            self._add("yaml.directive", chunk, directive, 0, "directives are not allowed", "remove the line")
            return
        if not text.isascii() and self._refuse_characters(chunk):
            return
        try:
            node = compose(text, self.builder.limits)
        except LimitExceeded as error:
            self._add_limit(chunk, error)
            return
        except MarkedYAMLError as error:
            self.problems.append(_syntax_problem(self.path, chunk, error))
            return
        except (YAMLError, UnicodeError, RecursionError) as error:
            if not self._refuse_characters(chunk):
                self._add("yaml.syntax", chunk, 0, 0, f"the parser failed: {type(error).__name__}", "check the file")
            return
        if node is not None:
            self._build(chunk, node)

    def _build(self, chunk: Chunk, node: YamlNode) -> None:
        builder = self.builder
        builder.start(chunk.line)
        try:
            data = builder.build(node)
        except (LimitExceeded, RecursionError) as error:
            data = None
            too_deep = LimitExceeded("depth", node.start_mark)
            self._add_limit(chunk, error if isinstance(error, LimitExceeded) else too_deep)
        else:
            if data is None and not builder.problems:
                return  # only comments, or an explicit null, which kubectl skips too
            if type(node) is not MappingNode:
                message = "a document must be a mapping with apiVersion and kind"
                builder.add("yaml.not-a-mapping", node, message, _NOT_AN_OBJECT)
        if b"!" in chunk.text and _MAYBE_BARE_TAG.search(chunk.text):
            for tagged in bare_tags(node, chunk.text.decode("utf-8")):
                builder.add_tag(tagged, "!")
        if builder.problems:
            paths = paths_to(node, (target for target, _ in builder.problems))
            for target, problem in builder.problems:
                self.problems.append(replace(problem, field=format_path(paths.get(id(target), ()))))
        elif isinstance(data, dict):
            self._add_documents(chunk, node, data)

    def _add_documents(self, chunk: Chunk, node: YamlNode, data: dict[str, Any]) -> None:
        items = dict(_expand_list(data, ()))
        ambiguous = _by_root(ambiguous_scalars(node), items) if self.builder.has_ambiguous else {}
        for root, item in items.items():
            place = self.builder.place(_descend(node, root))
            if isinstance(item, dict):
                scalars = tuple(ambiguous.get(root, ()))
                self.documents.append(
                    Document(source=place, data=item, text=self.raw, index=chunk.index, root=root, ambiguous=scalars)
                )
            else:
                message = "an item of a list must be a mapping with apiVersion and kind"
                self.problems.append(
                    Problem(
                        rule="yaml.not-a-mapping",
                        place=place,
                        message=message,
                        field=format_path(root),
                        hint=_NOT_AN_OBJECT,
                    )
                )

    def _refuse_characters(self, chunk: Chunk) -> bool:
        bad = _find_bad_character(chunk.text)
        if bad is not None:
            rule, line, column, message, hint = bad
            self._add(rule, chunk, line, column, message, hint)
        return bad is not None

    def _add_limit(self, chunk: Chunk, error: LimitExceeded) -> None:
        self.exhausted = True
        limits = self.builder.limits
        if error.limit == "depth":
            message = f"the document is nested deeper than {limits.depth} levels"
            hint = "flatten it; an alias inside its own anchor is infinite"
        else:
            message = f"the file has more than {limits.nodes} values after expanding aliases"
            hint = "split it into several files, or use fewer aliases"
        line, column = (error.mark.line, error.mark.column) if error.mark is not None else (0, 0)
        self._add(f"yaml.{error.limit}", chunk, line, column, message, hint)

    def _add(self, rule: str, chunk: Chunk, line: int, column: int, message: str, hint: str) -> None:  # noqa: PLR0917 - a place is two of them
        place = SourceRef(path=self.path, line=line + 1 + chunk.line, column=column + 1)
        self.problems.append(Problem(rule=rule, place=place, message=message, hint=hint))


def _expand_list(data: Any, root: FieldPath) -> Iterator[tuple[FieldPath, Any]]:
    """Yield a document, or the items of a `List` kind recursively, each with its path.

    Items of a typed list (`ConfigMapList`) may omit apiVersion and kind, as in responses of the API server.
    """
    if not isinstance(data, dict) or not _is_list(data):
        yield root, data
        return
    kind, version = data["kind"].removesuffix("List"), data.get("apiVersion")
    for position, item in enumerate(data["items"]):
        if kind and isinstance(item, dict) and "kind" not in item:
            item = {"apiVersion": version, "kind": kind} | item  # noqa: PLW2901 - the same item with its type
        yield from _expand_list(item, (*root, "items", position))


def _is_list(data: dict[str, Any]) -> bool:
    kind = data.get("kind")
    return isinstance(kind, str) and kind.endswith("List") and isinstance(data.get("items"), list)


def _descend(node: YamlNode, path: FieldPath) -> YamlNode:
    for part in path:
        step = child(node, part)
        if step is None:
            break
        node = step[1]
    return node


def _by_root(scalars: Iterable[Ambiguous], roots: Container[FieldPath]) -> dict[FieldPath, list[Ambiguous]]:
    """Group ambiguous scalars by the document that contains them, with their paths in it."""
    grouped: dict[FieldPath, list[Ambiguous]] = {}
    for path, text in scalars:
        for size in range(len(path)):
            if path[:size] in roots:
                grouped.setdefault(path[:size], []).append((path[size:], text))
                break
    return grouped


# --- text that is not YAML --------------------------------------------------------------------------------------------


def _syntax_problem(path: str, chunk: Chunk, error: MarkedYAMLError) -> Problem:
    """Convert the parser's error into a problem."""
    if (conflict := CONFLICT.search(chunk.text)) is not None:
        place = SourceRef(path=path, line=chunk.text.count(b"\n", 0, conflict.start()) + 1 + chunk.line, column=1)
        hint = "resolve them, and remove the lines that start with <<<<<<<, ======= and >>>>>>>"
        return Problem(rule="yaml.conflict", place=place, message="the file has merge conflicts", hint=hint)
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line, mark.column) if mark is not None else (0, 0)
    complaint = message = error.problem or error.context or "invalid YAML"
    context = error.context_mark
    if error.context and context is not None and context.line != line:
        message += f" ({error.context} that starts on line {context.line + 1 + chunk.line})"
    rule = "yaml.syntax"
    hint = next((hint for part, hint in _SYNTAX_HINTS if part in complaint), "")
    character = _character(chunk.text, line, column)
    if "found another document" in complaint:
        rule, message = "yaml.separator", "a document starts without a `---` line"
    elif "duplicate anchor" in (error.context or ""):
        rule, message = "yaml.anchor", "this anchor is already defined in the document"
        hint = "use a different name for each anchor of a document"
    elif "expected <document start>" in complaint:
        message, hint = "unexpected text after the end of the document", "quote the value, or indent this line"
        if b"\n..." in chunk.text or chunk.text.lstrip()[:1] == b"{":
            rule, message = "yaml.separator", "a document starts without a `---` line"
            hint = _SEPARATOR_HINT
    elif character == "\t":
        hint = "indent with spaces, not with tabs"
    elif character in {"@", "`", "%"}:
        hint = f"quote a value that starts with {'a backtick' if character == '`' else f'`{character}`'}"
    place = SourceRef(path=path, line=line + 1 + chunk.line, column=column + 1)
    return Problem(rule=rule, place=place, message=message, hint=hint)


def _character(text: bytes, line: int, column: int) -> str:
    """Return the character at a place, or an empty string."""
    lines = text.splitlines()
    if line >= len(lines):
        return ""
    return lines[line].decode("utf-8", "replace")[column : column + 1]


def _directive_line(text: bytes) -> int | None:
    """Return the line (from 0) of a %directive before the document or after `...`, or None."""
    starts_line = b"%" in text and (b"\n%" in text or text.startswith((b"%", b"\xef\xbb\xbf%")))
    match = _DIRECTIVE.search(text) if starts_line else None
    return None if match is None else text.count(b"\n", 0, match.end())


def _find_bad_character(text: bytes) -> tuple[str, int, int, str, str] | None:
    """Return rule, line and column from 0, message and hint for the first character that is not allowed."""
    try:
        decoded = text.decode("utf-8")
    except UnicodeDecodeError as error:
        line, column = _position(text[: error.start].decode("utf-8"))
        message = f"byte 0x{text[error.start]:02x} is not valid UTF-8"
        return "yaml.encoding", line, column, message, "save the file as UTF-8"
    match = _CONTROL.search(decoded, 1 if decoded.startswith("\ufeff") else 0)
    if match:
        line, column = _position(decoded[: match.start()])
        message = f"the control character U+{ord(match[0]):04X} is not allowed"
        return "yaml.control-character", line, column, message, 'remove it, or write it as an escape in "double quotes"'
    match = _BIDI.search(decoded)
    if match:
        line, column = _position(decoded[: match.start()])
        message = f"the invisible character U+{ord(match[0]):04X} changes how the text is displayed"
        return "yaml.bidirectional", line, column, message, "remove it"
    return None


def _position(before: str) -> tuple[int, int]:
    return before.count("\n"), len(before) - before.rfind("\n") - 1
