"""What to say about text that is no YAML: the parser's complaint with its place, and what usually is the cause."""

import re

from yaml import MarkedYAMLError

from reconciler.core.documents.parser import Chunk
from reconciler.core.objects import SourceRef
from reconciler.core.problems import Problem

# What YAML 1.2 calls non-printable, and U+FEFF, which is allowed as the first character of a file only
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ufeff\ufffe\uffff]")
# Unicode's explicit directional formatting characters: they make text read differently than it is (CVE-2021-42574)
_BIDI = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")

_DIRECTIVE = re.compile(rb"(?:\A(?:\xef\xbb\xbf)?|\n\.\.\.[^\n]*\n)(?:[ \t]*(?:#[^\n]*)?\r?\n)*%")

_HINTS = (
    ("found another document", "start each document with a line `---`; kubectl drops what follows `...`"),
    ("mapping values are not allowed", "check the indentation, or quote a value that holds `: `"),
    ("could not find expected ':'", "add the colon after the key, or quote or indent the text"),
    ("did not find expected key", "line this key up with the others of its mapping"),
    ("did not find expected '-' indicator", "line this item up with the others of its list"),
    ("duplicate anchor", "give each anchor of a document its own name"),
    ("undefined alias", "define the anchor (&name) above, or quote a text that starts with `*`"),
    ("block collections are not allowed", "put the list or mapping on its own lines"),
    ("block sequence entries are not allowed", "put the list on its own lines"),
    ("unknown escape character", 'write a backslash as `\\\\` in "double quotes", or use single quotes'),
    ("Unicode character escape", "write the character itself, or its \\U escape with eight digits"),
    ("unexpected end of stream", "close the quote or bracket"),
    ("expected ',' or", "close the bracket, or separate the entries by commas"),
    ("undefined tag handle", "remove the tag"),
    ("tab character", "indent with spaces"),
)


def syntax_problem(path: str, chunk: Chunk, error: MarkedYAMLError) -> Problem:
    """Turn the parser's error into a problem at the place where it was noticed."""
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line, mark.column) if mark is not None else (0, 0)
    complaint = error.problem or error.context or "not YAML"
    message = complaint
    context = error.context_mark
    if error.context and context is not None and context.line != line:
        message += f" ({error.context} that starts on line {context.line + 1 + chunk.line})"
    rule = "yaml.syntax"
    hint = next((hint for part, hint in _HINTS if part in complaint), "")
    sign = _sign(chunk.text, line, column)
    if "found another document" in complaint:
        rule, message = "yaml.separator", "a document starts without a line `---`"
    elif "duplicate anchor" in (error.context or ""):
        rule, message = "yaml.anchor", "this anchor is already defined in the document"
        hint = "give each anchor of a document its own name"
    elif "expected <document start>" in complaint:
        message, hint = "this text comes after the end of the document's value", "quote the value, or indent this line"
        if b"\n..." in chunk.text or chunk.text.lstrip()[:1] == b"{":
            rule, message = "yaml.separator", "a document starts without a line `---`"
            hint = "start each document with a line `---`; kubectl drops what follows `...`"
    elif sign == "\t":
        hint = "indent with spaces, not with tabs"
    elif sign in {"@", "`", "%"}:
        hint = (
            f"quote a value that starts with `{sign}`" if sign != "`" else "quote a value that starts with a backtick"
        )
    place = SourceRef(path=path, line=line + 1 + chunk.line, column=column + 1)
    return Problem(rule=rule, place=place, message=message, hint=hint)


def _sign(text: bytes, line: int, column: int) -> str:
    """Return the character at a place; empty where there is none."""
    lines = text.splitlines()
    if line >= len(lines):
        return ""
    return lines[line].decode("utf-8", "replace")[column : column + 1]


def directive_line(text: bytes) -> int | None:
    """Return the line (from 0) of a %directive, which stands before a document or after `...`; None without one."""
    found = _DIRECTIVE.search(text) if b"%" in text else None
    return None if found is None else text.count(b"\n", 0, found.end())


def bad_character(text: bytes) -> tuple[str, int, int, str, str] | None:
    """Find the first character that no manifest may hold: rule, line and column from 0, message and hint."""
    try:
        decoded = text.decode("utf-8")
    except UnicodeDecodeError as error:
        line, column = _place(text[: error.start].decode("utf-8"))
        message = f"byte 0x{text[error.start]:02x} is not UTF-8 text"
        return "yaml.encoding", line, column, message, "save the file as UTF-8"
    found = _CONTROL.search(decoded, 1 if decoded.startswith("\ufeff") else 0)
    if found:
        line, column = _place(decoded[: found.start()])
        message = f"the control character U+{ord(found[0]):04X} is not allowed"
        return "yaml.control-character", line, column, message, 'remove it, or write it as an escape in "double quotes"'
    found = _BIDI.search(decoded)
    if found:
        line, column = _place(decoded[: found.start()])
        message = f"the invisible character U+{ord(found[0]):04X} makes text look different from what it is"
        return "yaml.bidirectional", line, column, message, "remove it"
    return None


def _place(before: str) -> tuple[int, int]:
    return before.count("\n"), len(before) - before.rfind("\n") - 1
