"""Amazon S3 and servers with its API, by boto3."""

import binascii
import hashlib
import re
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from boto3.session import Session
from botocore import UNSIGNED
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from reconciler.download.config import DownloadConfig
from reconciler.download.items import (
    CHUNK_BYTES,
    Checksum,
    Content,
    Hasher,
    Item,
    RemoteFile,
    failure,
    md5,
    read_secrets,
)
from reconciler.download.sources.objects import object_items

_REGION = "us-east-1"  # where none is configured; S3 names the right one in its answer
_KMS = ("aws:kms", "aws:kms:dsse")


def items(config: DownloadConfig, workers: int) -> Iterator[Item]:
    """Yield the items of all S3 accounts."""
    for one in config.s3:
        secrets = read_secrets(config.secrets, {"accessKeyId": one.access_key_id, "secretKey": one.secret_key})
        store = S3Store(one.endpoint_url, secrets["accessKeyId"], secrets["secretKey"], workers)
        for bucket in one.buckets:
            yield from object_items("s3", one.endpoint_url, store, bucket, Path(config.root))


class S3Store:
    """One account."""

    def __init__(self, endpoint: str, key: str, secret: str, workers: int) -> None:
        session = Session(aws_access_key_id=key or None, aws_secret_access_key=secret or None)
        self._secrets = (secret,) if secret else ()
        self._client = session.client(
            "s3",
            region_name=session.region_name or _REGION,
            endpoint_url=endpoint or None,
            config=Config(
                signature_version=None if key else UNSIGNED,
                s3={"addressing_style": "path" if endpoint else "auto"},
                max_pool_connections=workers,
                retries={"total_max_attempts": 1},
                user_agent_extra="gpu-reconciler",
            ),
        )

    def describe(self, bucket: str, key: str) -> RemoteFile:
        """Return one object."""
        with self._translated():
            answer = self._client.head_object(Bucket=bucket, Key=key)
        return RemoteFile(key=key, name=key, size=answer["ContentLength"], version=answer["ETag"])

    def list(self, bucket: str, prefix: str) -> Iterator[RemoteFile]:
        """Yield the objects below a prefix."""
        with self._translated():
            for page in self._client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
                for one in page.get("Contents", ()):
                    yield RemoteFile(key=one["Key"], name=one["Key"], size=one["Size"], version=one["ETag"])

    @contextmanager
    def read(self, bucket: str, file: RemoteFile, offset: int) -> Iterator[Content]:
        """Open an object."""
        wanted = {"Bucket": bucket, "Key": file.key, "IfMatch": file.version}
        with self._translated():
            part = self._part_size(wanted) if _PARTS.fullmatch(file.version) else 0
            answer = self._client.get_object(**wanted, **({"Range": f"bytes={offset}-"} if offset else {}))
            with closing(answer["Body"]) as body:
                yield Content(
                    chunks=body.iter_chunks(CHUNK_BYTES), offset=offset, checksum=_checksum(file, answer, part)
                )

    def _part_size(self, wanted: Mapping[str, str]) -> int:
        """Return the size of the first part of an object that was uploaded in parts; 0 if the server does not tell."""
        try:
            return int(self._client.head_object(**wanted, PartNumber=1)["ContentLength"])
        except ClientError:
            return 0

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except ClientError as error:
            status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
            raise failure(error, status=status, secrets=self._secrets) from None
        except BotoCoreError as error:
            raise failure(error, secrets=self._secrets) from None


_PARTS = re.compile(r'"[0-9a-f]{32}-([0-9]+)"')


def _checksum(file: RemoteFile, answer: Mapping[str, Any], part: int) -> Checksum | None:
    """Return the MD5 in an ETag, or of the parts of an upload; None where S3 does not make it so."""
    if answer.get("ServerSideEncryption") in _KMS or answer.get("SSECustomerAlgorithm"):
        return None
    tag = file.version.strip('"')
    parts = _PARTS.fullmatch(file.version)
    if parts is not None:
        is_even = part and -(-file.size // part) == int(parts[1])  # else the parts differ in size
        return Checksum(tag, lambda: PartsHasher(part)) if is_even else None
    if re.fullmatch("[0-9a-f]{32}", tag):
        return md5(tag)
    return None


class PartsHasher:
    """The ETag of an upload in parts: the MD5 of the MD5s of all parts, and their number."""

    def __init__(self, size: int) -> None:
        self._size, self._left = size, size
        self._part: Hasher = hashlib.md5(usedforsecurity=False)
        self._digests: list[bytes] = []

    def update(self, chunk: bytes) -> None:
        """Take the next bytes."""
        view = memoryview(chunk)
        while view:
            self._part.update(bytes(view[: self._left]))
            taken = min(self._left, len(view))
            self._left -= taken
            view = view[taken:]
            if not self._left:
                self._end_part()

    def hexdigest(self) -> str:
        """Return the ETag."""
        if self._left < self._size:
            self._end_part()
        whole = hashlib.md5(b"".join(self._digests), usedforsecurity=False).hexdigest()
        return f"{whole}-{len(self._digests)}"

    def _end_part(self) -> None:
        self._digests.append(binascii.unhexlify(self._part.hexdigest()))
        self._part, self._left = hashlib.md5(usedforsecurity=False), self._size
