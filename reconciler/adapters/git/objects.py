"""What git's plumbing prints, as values: commits, entries of trees, differences; and ids of blobs."""

import hashlib
import re
from datetime import datetime, timedelta, timezone

from reconciler.errors import RepositoryError
from reconciler.ports import Commit, Entry

ABSENT = "000000"
_PERSON = re.compile(rb"^committer .*> (-?\d+) ([+-])(\d\d)(\d\d)$")
_UNMERGED = re.compile(r":\d{6} \d{6} [0-9a-f]+ [0-9a-f]+ U\0([^\0]+)\0")
_RAW = re.compile(r":(\d{6}) (\d{6}) ([0-9a-f]+) ([0-9a-f]+) ([A-Z])\d*\0([^\0]+)\0")


def blob_oid(data: bytes, object_format: str) -> str:
    """Return the id that Git gives to a file's content."""
    digest = hashlib.new(object_format, b"blob %d\0" % len(data), usedforsecurity=False)
    digest.update(data)
    return digest.hexdigest()


def text_of(raw: bytes) -> str:
    """Decode a path; bytes that are not UTF-8 survive as surrogates."""
    return raw.decode("utf-8", "surrogateescape")


def parse_commit(oid: str, raw: bytes) -> Commit:
    """Read a raw commit object. Raises `RepositoryError` where it is not one that Git would write."""
    header, _, message = raw.partition(b"\n\n")
    lines = header.split(b"\n")
    trees = [line[5:].decode() for line in lines if line.startswith(b"tree ")]
    parents = [line[7:].decode() for line in lines if line.startswith(b"parent ")]
    people = [match for line in lines if (match := _PERSON.match(line))]
    if not trees or not people:
        raise RepositoryError(f"commit {oid} is malformed", hint="see `git fsck`")
    text = message.decode("utf-8", "replace").lstrip("\n")
    return Commit(
        oid=oid,
        tree=trees[0],
        committed_at=_iso(oid, people[0]),
        subject=text.partition("\n")[0].strip(),
        message=text,
        parents=tuple(parents),
    )


def _iso(oid: str, person: re.Match[bytes]) -> str:
    seconds, sign, hours, minutes = person.groups()
    offset = timedelta(hours=int(hours), minutes=int(minutes))
    try:
        zone = timezone(-offset if sign == b"-" else offset)
        return datetime.fromtimestamp(int(seconds), zone).isoformat()
    except (ValueError, OverflowError, OSError) as error:
        raise RepositoryError(f"commit {oid} has an impossible date", hint="amend it: git commit --amend") from error


def parse_tree(listing: bytes, prefix: str) -> dict[str, Entry]:
    """Read `ls-tree -r -z`; `prefix` (empty, or ending in a slash) is cut off."""
    lines = [line for line in text_of(listing).split("\0") if line]
    if prefix:
        lines = [line for line in lines if line.partition("\t")[2].startswith(prefix)]
    blobs = [line for line in lines if line[7:12] == "blob "]
    end = blobs[0].index("\t") if blobs else 0
    name = end + 1 + len(prefix)
    new = tuple.__new__  # half the time of Entry(...), which counts at 20,000 of them
    tree: dict[str, Entry] = {line[name:]: new(Entry, (line[:6], line[12:end])) for line in blobs}
    for line in lines if len(blobs) < len(lines) else ():
        if line[7:12] != "blob ":  # a submodule
            head, _, path = line.partition("\t")
            tree[path[len(prefix) :]] = Entry(head[:6], head.rpartition(" ")[2])
    return tree


def parse_changes(listing: bytes, prefix: str) -> dict[str, tuple[Entry | None, Entry | None]]:
    """Read `diff-tree --raw -z` and its kind: (before, after) by path. An id of zeros: look into the working tree."""
    changes: dict[str, tuple[Entry | None, Entry | None]] = {}
    for mode_before, mode_after, before, after, kind, path in _RAW.findall(text_of(listing)):
        if not path.startswith(prefix) or kind == "U":
            continue
        old = None if mode_before == ABSENT else Entry(mode_before, before)
        new = None if mode_after == ABSENT else Entry(mode_after, after)
        changes[path[len(prefix) :]] = (old, new)
    return changes


def parse_unmerged(listing: bytes) -> list[str]:
    """Read the paths with conflicts from `diff-index --raw -z`."""
    return _UNMERGED.findall(text_of(listing))
