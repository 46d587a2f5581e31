"""Azure Blob Storage, by azure-storage-blob."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from azure.core import MatchConditions
from azure.core.exceptions import AzureError, HttpResponseError
from azure.storage.blob import BlobProperties, BlobServiceClient

from reconciler.download.config import DownloadConfig
from reconciler.download.items import Content, Item, RemoteFile, failure, md5, read_secrets
from reconciler.download.sources.objects import object_items
from reconciler.errors import OutsideError

_REQUEST_BYTES = 4 << 20  # of one request; held in memory


def items(config: DownloadConfig, workers: int) -> Iterator[Item]:  # noqa: ARG001 - connections are not limited
    """Yield the items of all accounts."""
    for one in config.azure_blob:
        secret = read_secrets(config.secrets, {"connectionString": one.connection_string})["connectionString"]
        store = AzureStore(secret)
        for container in one.containers:
            yield from object_items("azure", store.account, store, container, Path(config.root))


class AzureStore:
    """One account, by its connection string."""

    def __init__(self, secret: str) -> None:
        self._secrets = tuple(part.partition("=")[2] for part in secret.split(";") if "key" in part.lower()[:20])
        try:
            self._client = BlobServiceClient.from_connection_string(
                secret,
                retry_total=0,
                max_single_get_size=_REQUEST_BYTES,
                max_chunk_get_size=_REQUEST_BYTES,
            )
        except (ValueError, KeyError):
            hint = "copy it from the access keys of the storage account"
            raise OutsideError("azureBlob: the secret holds no connection string", hint=hint) from None
        self.account = self._client.url.partition("?")[0]

    def describe(self, bucket: str, key: str) -> RemoteFile:
        """Return one blob."""
        with self._translated():
            return _file(self._client.get_blob_client(bucket, key).get_blob_properties())

    def list(self, bucket: str, prefix: str) -> Iterator[RemoteFile]:
        """Yield the blobs below a prefix."""
        with self._translated():
            yield from map(_file, self._client.get_container_client(bucket).list_blobs(name_starts_with=prefix))

    @contextmanager
    def read(self, bucket: str, file: RemoteFile, offset: int) -> Iterator[Content]:
        """Open a blob."""
        with self._translated():
            if not file.size:  # nothing to ask a range of
                yield Content(chunks=iter(()))
                return
            stream = self._client.get_blob_client(bucket, file.key).download_blob(
                offset=offset or None,
                length=file.size - offset if offset else None,
                etag=file.version,
                match_condition=MatchConditions.IfNotModified,
            )
            stated = stream.properties.content_settings.content_md5
            checksum = md5(bytes(stated).hex()) if stated else None
            yield Content(chunks=iter(stream.chunks()), offset=offset, checksum=checksum)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except HttpResponseError as error:
            raise failure(error, status=error.status_code or 0, secrets=self._secrets) from None
        except AzureError as error:
            raise failure(error, secrets=self._secrets) from None


def _file(blob: BlobProperties) -> RemoteFile:
    return RemoteFile(key=blob.name, name=blob.name, size=blob.size, version=blob.etag)
