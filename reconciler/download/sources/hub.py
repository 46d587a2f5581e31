"""Models of the Hugging Face Hub, by huggingface_hub: written as its cache, which all of its libraries read.

The environment variables of the library count: HF_ENDPOINT, HF_TOKEN, proxies.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path

import httpx2
from huggingface_hub import HfApi, hf_hub_url
from huggingface_hub.errors import HfHubHTTPError
from huggingface_hub.hf_api import RepoSibling
from huggingface_hub.utils import build_hf_headers
from msgspec import Struct

from reconciler.download.config import DownloadConfig, HubDownload, below
from reconciler.download.confined import link_file, write_file
from reconciler.download.items import (
    CHUNK_BYTES,
    Content,
    Contents,
    Item,
    ItemPlace,
    RemoteFile,
    SourceFailure,
    failure,
    git_blob,
    sha256,
)

_COMMIT_DIGITS = 40
_DIGEST = re.compile("[0-9a-f]{40}|[0-9a-f]{64}")
_MAIN = "main"
_SECONDS = 60.0
_PARTIAL = 206


def items(config: DownloadConfig, workers: int) -> Iterator[Item]:
    """Yield an item for each repository."""
    limits = httpx2.Limits(max_connections=workers)
    client = httpx2.Client(follow_redirects=True, timeout=_SECONDS, limits=limits)
    for one in config.hf:
        folder = f"hub/models--{one.repo_id.replace('/', '--')}"
        place = ItemPlace.of(f"hf://{one.repo_id}", one, Path(config.hf_home), folder)
        yield HubItem(place=place, config=one, client=client)


class HubItem(Struct, frozen=True, kw_only=True):
    """A repository at a revision."""

    place: ItemPlace
    config: HubDownload
    client: httpx2.Client

    def resolve(self) -> str:
        """Return the commit if the configuration has it whole."""
        revision = self.config.revision
        is_commit = len(revision) == _COMMIT_DIGITS and set(revision) <= set("0123456789abcdef")
        return revision if is_commit else ""

    def find(self) -> Contents:
        """List the files of the revision: what several of them share is one file of the cache."""
        with _translated():
            info = HfApi().model_info(self.config.repo_id, revision=self.config.revision or _MAIN, files_metadata=True)
        commit = below(info.sha or "")
        return Contents(version=commit, files=tuple(_file(one, commit) for one in self._chosen(info.siblings or [])))

    def _chosen(self, siblings: list[RepoSibling]) -> list[RepoSibling]:
        known = {one.rfilename: one for one in siblings}
        for name in self.config.files:
            if name not in known:
                near = get_close_matches(name, known, n=1)
                hint = f"; did you mean {near[0]}?" if near else ""
                raise SourceFailure(f"there is no file {name}{hint}", is_final=True)
        return [known[name] for name in self.config.files] if self.config.files else siblings

    @contextmanager
    def read(self, file: RemoteFile, offset: int) -> Iterator[Content]:
        """Open a file."""
        commit, _, name = file.key.partition("/")
        headers = build_hf_headers(library_name="gpu-reconciler") | {"Accept-Encoding": "identity"}
        if offset:
            headers["Range"] = f"bytes={offset}-"
        url = hf_hub_url(self.config.repo_id, name, revision=commit)
        with _translated(), self.client.stream("GET", url, headers=headers) as answer:
            answer.raise_for_status()
            checksum = sha256(file.version) if len(file.version) > _COMMIT_DIGITS else git_blob(file.version, file.size)
            start = offset if answer.status_code == _PARTIAL else 0
            yield Content(chunks=answer.iter_bytes(CHUNK_BYTES), offset=start, checksum=checksum)

    def finish(self, contents: Contents) -> None:
        """Name the files as the libraries look for them: a link for each, and the commit of the revision."""
        folder, commit = self.place.folder, contents.version
        for file in contents.files:
            name = file.key.partition("/")[2]
            up = "../" * (2 + name.count("/"))
            link_file(self.place.root, f"{folder}/snapshots/{commit}/{name}", f"{up}{file.name}")
        revision = self.config.revision or _MAIN
        if revision != commit:
            write_file(self.place.root, f"{folder}/refs/{revision}", commit.encode())


def _file(one: RepoSibling, commit: str) -> RemoteFile:
    version = (one.lfs.sha256 if one.lfs is not None else one.blob_id) or ""
    if one.size is None or not _DIGEST.fullmatch(version):
        raise SourceFailure(f"the server states no size and checksum of {one.rfilename!r}", is_final=True)
    try:
        name = below(one.rfilename)
    except ValueError as error:
        raise SourceFailure(f"the file {one.rfilename!r} {error}", is_final=True) from None
    return RemoteFile(key=f"{commit}/{name}", name=f"blobs/{version}", size=one.size, version=version)


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except (HfHubHTTPError, httpx2.HTTPStatusError) as error:
        raise failure(error, status=error.response.status_code) from None
    except httpx2.HTTPError as error:
        raise failure(error) from None
