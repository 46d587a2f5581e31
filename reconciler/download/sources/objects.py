"""Files and folders of object stores: one item for each, over a small port to the store."""

import fnmatch
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from reconciler.download.config import Bucket, ObjectFolder, below, object_target
from reconciler.download.items import Content, Contents, Item, ItemPlace, RemoteFile, SourceFailure


class ObjectStore(Protocol):
    """Access to one account of an object store. Names are the keys of the objects."""

    def describe(self, bucket: str, key: str) -> RemoteFile:
        """Return one object. Raises `SourceFailure`."""
        ...

    def list(self, bucket: str, prefix: str) -> Iterator[RemoteFile]:
        """Yield the objects whose keys start with the prefix. Raises `SourceFailure`."""
        ...

    def read(self, bucket: str, file: RemoteFile, offset: int) -> AbstractContextManager[Content]:
        """Open an object at the version of `file`. Raises `SourceFailure`, also while it is read."""
        ...


class ObjectItem(Struct, frozen=True, kw_only=True):
    """An object, or all objects below a prefix that match a glob."""

    place: ItemPlace
    store: ObjectStore
    bucket: str
    key: str
    name: str = ""
    glob: str = ""

    def resolve(self) -> str:
        """Return nothing: a listing is needed."""
        return ""

    def find(self) -> Contents:
        """List the objects, with their paths below the folder of the item."""
        if not self.glob:
            file = self.store.describe(self.bucket, self.key)
            return Contents(version=file.version, files=(replace(file, name=self.name),))
        matches = re.compile(translate(self.glob)).fullmatch
        files = tuple(
            replace(file, name=_inside(file.key, len(self.key)))
            for file in self.store.list(self.bucket, self.key)
            if not file.key.endswith("/") and matches(file.key[len(self.key) :])
        )
        if not files:
            raise SourceFailure("no object matches; check path and glob", is_final=True)
        return Contents(version="", files=files)

    def read(self, file: RemoteFile, offset: int) -> AbstractContextManager[Content]:
        """Open an object."""
        return self.store.read(self.bucket, file, offset)

    def finish(self, contents: Contents) -> None:
        """Do nothing."""


def object_items(scheme: str, account: str, store: ObjectStore, bucket: Bucket, root: Path) -> Iterator[Item]:
    """Yield the items of a bucket; `account` is the address of the store, if it is not that of the provider."""
    for one in bucket.files:
        target = object_target(one)
        place = ItemPlace.of(f"{scheme}://{bucket.name}/{one.path}", one, root, target, account=account, is_file=True)
        name = target.rpartition("/")[2]
        yield ObjectItem(place=place, store=store, bucket=bucket.name, key=one.path, name=name)
    for folder in bucket.folders:
        prefix, target = _prefix(folder), below(folder.target_path)
        place = ItemPlace.of(f"{scheme}://{bucket.name}/{prefix}", folder, root, target, account=account)
        yield ObjectItem(place=place, store=store, bucket=bucket.name, key=prefix, glob=folder.glob)


def _prefix(folder: ObjectFolder) -> str:
    path = "" if folder.path in {".", "./", "/"} else folder.path.removeprefix("./")
    return path if not path or path.endswith("/") else f"{path}/"


def _inside(key: str, start: int) -> str:
    """Return the path of an object below its folder; whoever writes to a bucket chooses the key."""
    try:
        return below(key[start:])
    except ValueError as error:
        raise SourceFailure(f"the object {key!r} {error}", is_final=True) from None


def translate(glob: str) -> str:
    """Return the regular expression of a glob: `**/` stands for any folders, `*` and `?` stay within one."""
    found = []
    for part in re.split(r"(\*\*/|\*\*|\*|\?|\[!?\]?[^\]]*\])", glob):
        match part:
            case "**/":
                found.append("(?:[^/]+/)*")
            case "**":
                found.append(".*")
            case "*":
                found.append("[^/]*")
            case "?":
                found.append("[^/]")
            case _ if part.startswith("[") and part.endswith("]"):
                found.append(fnmatch.translate(part).removeprefix("(?s:").removesuffix(r")\Z").removesuffix(r")\z"))
            case _:
                found.append(re.escape(part))
    return "".join(found)
