"""Where a word of a launch line stands in its file, to the line and column."""

from reconciler.core.objects import SourceRef
from reconciler.core.training.job import TrainingJob


def word_place(job: TrainingJob, field: str, index: int, start: int = 0) -> SourceRef:
    """Return the place of character `start` of item `index` of `command` or `args`.

    Exact in literal blocks (`|`) and where a scalar stands on one line without escapes before the word; elsewhere
    (folded text) it is where the scalar begins.
    """
    path = job.word_path(field, index)
    begins = job.document.at(path)
    value = job.get(*path)
    lines = job.document.text.decode("utf-8", "replace").split("\n")
    if not isinstance(value, str) or not 0 < begins.line <= len(lines):
        return begins
    written = lines[begins.line - 1][begins.column - 1 :]
    if written.startswith("|"):
        return _in_block(begins, lines, value, start)
    quote = 1 if written[:1] in {"'", '"'} else 0
    if written[quote:].startswith(value[: start + 1]):
        return SourceRef(path=begins.path, line=begins.line, column=begins.column + quote + start)
    return begins


def _in_block(begins: SourceRef, lines: list[str], value: str, start: int) -> SourceRef:
    """Return the place in a literal block: as many lines below its header as there are breaks before the word."""
    before = value[:start]
    number = begins.line + before.count("\n")
    text = value.split("\n")[before.count("\n")]
    source = lines[number].removesuffix("\r") if number < len(lines) else ""
    if not source.endswith(text):
        return begins
    column = len(source) - len(text) + start - (before.rfind("\n") + 1) + 1
    return SourceRef(path=begins.path, line=number + 1, column=column)
