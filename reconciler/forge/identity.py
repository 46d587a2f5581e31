"""Proposals: their identity, the branch that is their own, and the decision about each. Pure.

A proposal is the same as long as its branch is: kind, cluster and name. Its content is the same as long as its key is:
the lines that it removes and adds. A forge accepts one open change request from a branch, so that two controllers
cannot open two, whatever their contents are.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from difflib import SequenceMatcher
from enum import StrEnum
from hashlib import sha256

from msgspec import Struct

from reconciler.forge import ChangeRequest, RequestState
from reconciler.forge.bodies import read_marker

REOPEN = "reopen"
"""The label that lets a change request that a person closed be opened again."""

_SLUG = re.compile(r"[^A-Za-z0-9_-]+")
_MAX_NAME = 60
_SHORT = 8
_MAX_LINES = 4_000


class EditedFile(Struct, frozen=True, kw_only=True):
    """The content of a file before and after (None: there is none), and why it changes."""

    path: str
    before: bytes | None
    after: bytes | None
    reason: str = ""


class ProposedChange(Struct, frozen=True, kw_only=True, eq=False):
    """Something to be reviewed: edits, and the words about them. `requester` (`NAME <MAIL>`) is named as a co-author.

    `own_branch`: that of somebody who pushes it; else the branch is the reconciler's alone.
    """

    kind: str
    name: str
    title: str
    reason: str
    edits: tuple[EditedFile, ...]
    cluster: str = ""
    requester: str = ""
    own_branch: str = ""

    @property
    def branch(self) -> str:
        """The name of the branch: stable, and readable."""
        if self.own_branch:
            return self.own_branch
        identity = sha256(f"{self.kind}\0{self.cluster}\0{self.name}".encode("utf-8", "surrogateescape"))
        name = "-".join(filter(None, (_slug(self.cluster), _slug(self.name)))) or "change"
        return f"{folder_of(self.kind)}{name}-{identity.hexdigest()[:_SHORT]}"

    @property
    def key(self) -> str:
        """The digest of its content."""
        return key_of(self.kind, self.cluster, self.name, self.edits)


def folder_of(kind: str) -> str:
    """Return the start of the branches of all proposals of a kind."""
    return f"reconciler/{_slug(kind)}/"


def _slug(text: str) -> str:
    return _SLUG.sub("-", text).strip("-")[:_MAX_NAME].strip("-")


def key_of(kind: str, cluster: str, name: str, edits: Iterable[EditedFile]) -> str:
    """Return the digest of what a proposal changes: edits of other lines of its files do not make it another one."""
    digest = sha256()
    for part in (kind, cluster, name):
        digest.update(_framed(part.encode("utf-8", "surrogateescape")))
    for edit in sorted(edits, key=lambda one: one.path):
        if edit.before == edit.after:
            continue
        digest.update(_framed(edit.path.encode("utf-8", "surrogateescape")))
        digest.update(b"new" if edit.before is None else b"gone" if edit.after is None else b"edit")
        old, new = (side.splitlines(keepends=True) if side else [] for side in (edit.before, edit.after))
        if len(old) + len(new) > _MAX_LINES:  # comparing takes the square of it
            old, new = [edit.before or b""], [edit.after or b""]
        for tag, one, other, start, end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
            if tag != "equal":
                digest.update(_framed(b"".join(old[one:other])) + _framed(b"".join(new[start:end])))
    return digest.hexdigest()


def _framed(content: bytes) -> bytes:
    return b"%d:%b" % (len(content), content)


class Owner(StrEnum):
    """The maker of the commits of a branch."""

    OURS = "ours"
    THEIRS = "theirs"
    NOBODY = "nobody"  # it has no commits of its own: they are part of the branch that is read


class Tip(Struct, frozen=True, kw_only=True):
    """The newest commit of a branch. `is_current`: the branch says exactly what is proposed."""

    oid: str
    owner: Owner
    is_current: bool = False


class RequestStep(StrEnum):
    """The step that is taken with a proposal."""

    OPEN = "open"
    UPDATE = "update"  # of the open change request: its branch, its text, or nothing of both if they are up to date
    REFUSED = "refused"  # a person closed it with this content
    WAITING = "waiting"  # for the limit of open change requests
    MERGED = "merged"  # but the branch that is read does not have it yet
    THEIRS = "theirs"  # a person committed to its branch
    GONE = "gone"  # a person deleted the branch of the open change request


class RequestDecision(Struct, frozen=True, kw_only=True):
    """A step, the change request that it is about, and whether the branch is pushed.

    closes: the open one, whose content would become what a person refused.
    """

    step: RequestStep
    request: ChangeRequest | None = None
    pushes: bool = False
    closes: ChangeRequest | None = None


def decide(
    change: ProposedChange,
    requests: Sequence[ChangeRequest],
    tip: Tip | None,
    *,
    has_room: bool,
    is_read: Callable[[str], bool],
) -> RequestDecision:
    """Decide about a proposal. `requests`: those from its branch, the newest first; `tip`: of the branch on the server.

    `is_read`: whether the branch that is read has a commit.
    """
    pushes = tip is None or not tip.is_current
    is_theirs = tip is not None and tip.owner is Owner.THEIRS
    current = next((one for one in requests if one.state is RequestState.OPEN), None)
    earlier = _same(requests, change.key)
    is_refused = earlier is not None and earlier.state is RequestState.CLOSED and REOPEN not in earlier.labels
    if current is not None and is_theirs:
        return RequestDecision(step=RequestStep.THEIRS, request=current)
    if is_refused:
        return RequestDecision(step=RequestStep.REFUSED, request=earlier, closes=current)
    if current is not None:
        is_gone = tip is None and earlier is not None and earlier.number == current.number
        return RequestDecision(
            step=RequestStep.GONE if is_gone else RequestStep.UPDATE, request=current, pushes=pushes and not is_gone
        )
    if earlier is not None and earlier.state is RequestState.MERGED and earlier.merged and not is_read(earlier.merged):
        return RequestDecision(step=RequestStep.MERGED, request=earlier)
    if is_theirs:
        return RequestDecision(step=RequestStep.THEIRS, request=next(iter(requests), None))
    return RequestDecision(step=RequestStep.OPEN if has_room else RequestStep.WAITING, pushes=pushes)


def _same(requests: Sequence[ChangeRequest], key: str) -> ChangeRequest | None:
    """Return the newest change request with this content, or an unknown one, that we did not close ourselves."""
    for one in requests:
        marker = read_marker(one.body)
        if (marker is None or marker.key == key) and not (marker is not None and marker.is_closed):
            return one
    return None
