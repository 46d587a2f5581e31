"""Files that a script writes from here-documents before it launches: `cat > FILE <<END`, `tee FILE <<END`."""

import posixpath
from collections.abc import Sequence

from reconciler.launch.shell.ast import Redirection, ShellError, SimpleCommand, Word
from reconciler.launch.shell.expansion import UNKNOWN, Expander, Field
from reconciler.launch.shell.parser import parse

_APPENDS = frozenset({">>", "&>>"})
_EDITORS = frozenset({"sed", "yq", "perl"})  # they can edit a file in place
_QUOTE = '"'
_ESCAPED_QUOTE = r"\""


class WrittenFiles:
    """The files that a script has written, by path. A file whose content is not certain is None."""

    def __init__(self) -> None:
        self._texts: dict[str, str | None] = {}

    def note(self, node: SimpleCommand, fields: Sequence[Field], expander: Expander) -> None:
        """Note the file that a command writes from a here-document, writes otherwise, or edits."""
        if fields and fields[0].text in _EDITORS and any(_edits_in_place(field.text) for field in fields[1:]):
            for field in fields[1:]:
                self._add(field.text, None)
        outputs = [one for one in node.redirections if one.operator in {">", ">|", *_APPENDS}]
        targets = [expander.scalar(one.target).text for one in outputs]
        if fields and fields[0].text == "tee":
            targets = [field.text for field in fields[1:] if not field.text.startswith("-")]
        document = next((one for one in node.redirections if one.body is not None), None)
        copies = bool(fields) and (fields[0].text == "tee" or (fields[0].text == "cat" and len(fields) == 1))
        appends = any(one.operator in _APPENDS for one in outputs) or "-a" in {field.text for field in fields}
        text = None if document is None or not copies or appends else _expanded(document, expander)
        for target in targets:
            self._add(target, text)

    def _add(self, target: str, text: str | None) -> None:
        if UNKNOWN in target or target.startswith("/dev/"):
            return
        path = posixpath.normpath(target)
        self._texts[path] = text if self._texts.get(path, text) == text else None

    def changes(self, path: str) -> bool:
        """Return whether the script writes or edits a file."""
        return posixpath.normpath(path) in self._texts

    def read(self, path: str) -> bytes | None:
        """Return the content that the script writes into a file; None where that is not certain."""
        text = self._texts.get(posixpath.normpath(path))
        return None if text is None else text.encode(errors="replace")


def _edits_in_place(flag: str) -> bool:
    return flag.startswith(("-i", "--in-place", "--inplace", "-pi"))


def _expanded(document: Redirection, expander: Expander) -> str | None:
    """Return the text of a here-document; None where a quote in it is escaped, or an expansion is not valid."""
    body = document.body or ""
    if document.quoted:
        return body
    if _ESCAPED_QUOTE in body:
        return None
    quoted = body.replace(_QUOTE, _ESCAPED_QUOTE)
    try:
        script = parse(f"text={_QUOTE}{quoted}{_QUOTE}")
    except ShellError:
        return None
    for command in script:
        if isinstance(command, SimpleCommand) and isinstance(value := command.assignments[0].value, Word):
            return expander.scalar(value).text
    return None
