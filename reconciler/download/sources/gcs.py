"""Google Cloud Storage, by google-cloud-storage."""

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import google.auth
import google_crc32c
from google.api_core.exceptions import GoogleAPICallError
from google.auth.credentials import AnonymousCredentials
from google.auth.exceptions import DefaultCredentialsError, GoogleAuthError
from google.cloud.exceptions import NotFound
from google.cloud.storage import Blob, Client
from google.oauth2.service_account import Credentials
from requests.exceptions import RequestException
from urllib3.exceptions import HTTPError

from reconciler.download.config import DownloadConfig
from reconciler.download.items import (
    CHUNK_BYTES,
    Checksum,
    Content,
    Item,
    RemoteFile,
    SourceFailure,
    failure,
    md5,
    read_secrets,
)
from reconciler.download.sources.objects import object_items
from reconciler.errors import OutsideError

_REQUEST_BYTES = 16 << 20  # of one request; held in memory
_SCOPES = ("https://www.googleapis.com/auth/devstorage.read_only",)


def items(config: DownloadConfig, workers: int) -> Iterator[Item]:  # noqa: ARG001 - connections are not limited
    """Yield the items of all accounts."""
    for one in config.gcs:
        secret = read_secrets(config.secrets, {"applicationCredentials": one.application_credentials})
        store = GcsStore(_credentials(secret["applicationCredentials"]))
        for bucket in one.buckets:
            yield from object_items("gs", "", store, bucket, Path(config.root))


def _credentials(content: str) -> Any:
    """Return the credentials of a service account; without a secret those of the pod, or none if it has none.

    The secret is the content of the file, and never a path. Nothing of it is part of an error.
    """
    if content:
        try:
            return Credentials.from_service_account_info(json.loads(content), scopes=_SCOPES)
        except (ValueError, GoogleAuthError):
            hint = "store the JSON file of a service account in the Secret"
            raise OutsideError("gcs: the secret holds no key of a service account", hint=hint) from None
    try:
        return google.auth.default(scopes=_SCOPES)[0]
    except DefaultCredentialsError:
        return AnonymousCredentials()


class GcsStore:
    """One account. The environment variable STORAGE_EMULATOR_HOST names another server."""

    def __init__(self, credentials: Any) -> None:
        self._client = Client(project="unused", credentials=credentials)

    def describe(self, bucket: str, key: str) -> RemoteFile:
        """Return one object."""
        with _translated():
            blob = self._client.bucket(bucket).get_blob(key, retry=None)
        if blob is None:
            raise SourceFailure("there is no such object", is_final=True)
        return _file(blob)

    def list(self, bucket: str, prefix: str) -> Iterator[RemoteFile]:
        """Yield the objects below a prefix."""
        with _translated():
            yield from map(_file, self._client.list_blobs(bucket, prefix=prefix, retry=None))

    @contextmanager
    def read(self, bucket: str, file: RemoteFile, offset: int) -> Iterator[Content]:
        """Open an object, as it is stored: what is compressed stays so."""
        with _translated():
            generation, _, checksum = file.version.partition(" ")
            blob = self._client.bucket(bucket).blob(file.key)
            with blob.open(
                "rb",
                chunk_size=_REQUEST_BYTES,
                raw_download=True,
                if_generation_match=int(generation),
                retry=None,
            ) as reader:
                reader.seek(offset)
                chunks = _chunks(reader, file.size - offset)
                yield Content(chunks=chunks, offset=offset, checksum=_checksum(checksum))


def _chunks(reader: IO[bytes], size: int) -> Iterator[bytes]:
    """Yield the rest of a file, without another request at its end."""
    while size > 0 and (chunk := reader.read(min(size, CHUNK_BYTES))):
        size -= len(chunk)
        yield chunk


def _file(blob: Blob) -> RemoteFile:
    checksum = f"md5:{blob.md5_hash}" if blob.md5_hash else f"crc32c:{blob.crc32c}" if blob.crc32c else ""
    version = f"{blob.generation} {checksum}".rstrip()
    return RemoteFile(key=blob.name, name=blob.name, size=int(blob.size), version=version)


def _checksum(stated: str) -> Checksum | None:
    name, _, value = stated.partition(":")
    if not value:
        return None
    if name == "md5":
        return md5(base64.b64decode(value).hex())
    return Checksum(base64.b64decode(value).hex(), _Crc32c)


class _Crc32c:
    """CRC-32C, which alone is known of objects that were composed of others."""

    def __init__(self) -> None:
        self._sum = google_crc32c.Checksum()

    def update(self, chunk: bytes) -> None:
        """Take the next bytes."""
        self._sum.update(chunk)

    def hexdigest(self) -> str:
        """Return the checksum."""
        return bytes(self._sum.digest()).hex()


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except NotFound:
        raise SourceFailure("there is no such bucket, object or generation", is_final=True) from None
    except GoogleAPICallError as error:
        raise failure(error, status=int(error.code or 0)) from None
    except (GoogleAuthError, HTTPError, RequestException) as error:
        raise failure(error) from None
