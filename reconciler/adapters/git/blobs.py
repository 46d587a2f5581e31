"""Contents by object id: one `cat-file --batch` for any number of them."""

from collections.abc import Iterator, Sequence
from typing import IO

from reconciler.adapters.git.command import Git
from reconciler.errors import RepositoryError


def read_blobs(git: Git, oids: Sequence[str], most: int | None = None) -> Iterator[bytes]:
    """Give the contents in order; of larger ones only the first `most` bytes. Raises `RepositoryError`."""
    if not oids:
        return
    question = (f"{oid}\n".encode() for oid in oids)
    with git.stream("cat-file", "--batch", "--buffer", data=question) as output:
        for oid in oids:
            yield _blob(output, oid, most)
        output.read()


def read_header(output: IO[bytes]) -> tuple[str, str, str]:
    """Read a line of `cat-file --batch`: (id, type, size), or (what was asked, `missing` or `ambiguous`, '')."""
    line = output.readline().decode("utf-8", "surrogateescape").rstrip("\n")
    if line.endswith((" missing", " ambiguous")):
        name, _, state = line.rpartition(" ")
        return name, state, ""
    oid, kind, size = [*line.split(" "), "", "", ""][:3]
    return oid, kind, size


def _blob(output: IO[bytes], oid: str, most: int | None) -> bytes:
    _, kind, text = read_header(output)
    if kind != "blob":
        reason = f"is a {kind}, not a file" if text else "is missing or damaged"
        hint = "see `git fsck`; a partial clone needs `git fetch --refetch`"
        raise RepositoryError(f"object {oid} {reason}", hint=hint)
    size = int(text)
    data = output.read(size if most is None else min(size, most))
    left = size - len(data) + 1  # and the line break after it
    while left > 0:
        skipped = len(output.read(min(left, 1 << 20)))
        if not skipped:
            raise RepositoryError(f"object {oid} is cut off", hint="see `git fsck`")
        left -= skipped
    return data
