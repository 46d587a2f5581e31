"""The texts of change requests and comments: ours are found again by hidden lines, those of people are data. Pure."""

import re
from collections.abc import Sequence
from hashlib import sha256

from msgspec import Struct

from reconciler.console.printable import clip, printable
from reconciler.kube.secrets import mask_text
from reconciler.plan.outputs.markdown import code, prose, table_of

_MARKER = re.compile(
    r"<!-- gpu-reconciler:change cluster=(?P<cluster>[\w.-]*) key=(?P<key>[0-9a-f]{64}) text=(?P<text>[0-9a-f]{16})"
    r"(?P<closed> closed)? -->"
)
_END = "<!-- gpu-reconciler:end -->"
_HTML_COMMENT = re.compile(r"<!--.*?(?:-->|$)", re.DOTALL)
_TITLE = 120
_ROWS = 50


class Marker(Struct, frozen=True, kw_only=True):
    """The hidden line of a change request: cluster and key of its content, and a digest of our text.

    `is_closed`: we closed it, because it was no longer needed.
    """

    cluster: str
    key: str
    text: str
    is_closed: bool = False


def read_marker(body: str) -> Marker | None:
    """Return the hidden line of a body; None if it has none, or a person removed it."""
    found = _MARKER.search(body)
    if found is None:
        return None
    return Marker(cluster=found["cluster"], key=found["key"], text=found["text"], is_closed=found["closed"] is not None)


def change_text(reason: str, edits: Sequence[tuple[str, str]], title: str) -> str:
    """Return our part of a body: the reason, and each file with its own (path, reason)."""
    rows = [(code(path), prose(why or title)) for path, why in edits]
    said = prose(mask_text(reason)) or prose(title)
    told = (
        "Made by gpu-reconciler, which keeps it up to date. Close it to refuse it: it stays closed until its content "
        "changes, or it gets the label `reopen`. Once others commit to its branch, the branch is left to them."
    )
    return f"{said}\n\n{table_of(('File', 'Why'), rows, most=_ROWS)}\n\n<sub>{told}</sub>"


def with_text(body: str, text: str, *, cluster: str, key: str, closed: bool = False) -> str:
    """Replace our part of a body. What people wrote around it stays; so do their edits of it while ours is the same.

    A body without our part is left alone: a person removed it.
    """
    digest = sha256(text.encode()).hexdigest()[:16]
    ending = " closed" if closed else ""
    shown = re.sub(r"[^\w.-]", "-", cluster, flags=re.ASCII)
    line = f"<!-- gpu-reconciler:change cluster={shown} key={key} text={digest}{ending} -->"
    if not body.strip():
        return f"{line}\n\n{text}\n\n{_END}\n"
    body = body.replace("\r\n", "\n")
    found = _MARKER.search(body)
    if found is None:
        return body
    end = body.rfind(_END, found.end())  # a path of ours may contain the same words
    if found["text"] == digest or end < 0:
        return body[: found.start()] + line + body[found.end() :]
    return f"{body[: found.start()]}{line}\n\n{text}\n\n{body[end:]}"


def title_of(text: str) -> str:
    """Return a title on one line, which mentions nobody."""
    shown = clip(printable(" ".join(mask_text(text).split())), _TITLE)
    return re.sub(r"([@#!])(?=\w)", "\\1\u200b", shown)


def note_marker(name: str) -> str:
    """Return the hidden line of a comment of ours that is written once."""
    return f"<!-- gpu-reconciler:note:{name} -->"


def plain(text: str, limit: int = 500) -> str:
    """Return foreign text as one line without hidden comments, for a file or a message."""
    return clip(printable(" ".join(mask_text(_HTML_COMMENT.sub("", text)).split())), limit)


def is_same(one: str, other: str) -> bool:
    """Return whether two texts are the same to a forge, which changes line breaks and trims."""
    return one.replace("\r\n", "\n").strip() == other.replace("\r\n", "\n").strip()
