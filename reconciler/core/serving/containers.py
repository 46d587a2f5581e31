"""Find the servers in a document of any kind: its containers, their GPUs, and the product that their pods select."""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from reconciler.core.config import Vendor
from reconciler.core.devices import PRODUCT_LABEL
from reconciler.core.documents import Document
from reconciler.core.launch import FileReader
from reconciler.core.objects import FieldPath
from reconciler.core.serving.line import ParsedServer, parse_server, server_command
from reconciler.core.sizing.tables import SizingTables
from reconciler.core.training.container import Container, parse_container
from reconciler.core.values import mapping, sequence, text

_MAX_DEPTH = 24


class FoundServer(Struct, frozen=True, kw_only=True):
    """A container that serves a model. `gpus` are those that it requests, `product` what its pod selects (or empty)."""

    container: Container
    parsed: ParsedServer
    gpus: int = 0
    product: str = ""


def find_servers(document: Document, tables: SizingTables, files: FileReader) -> list[FoundServer]:
    """Return the servers of a document, wherever its kind has pod templates (Deployment, KaiwoService, LWS, ...)."""
    folder = document.source.path.rpartition("/")[0]
    found = []
    for pod, path in _pods(document.data, ()):
        for index, item in enumerate(sequence(pod.get("containers"))):
            if not isinstance(item, dict):
                continue
            container = parse_container(item, (*path, "containers", index))
            command = server_command(text(item.get("image")), container.command, container.args)
            parsed = parse_server(command, container.args, dict(container.env), files, tables, folder=folder)
            if parsed is not None:
                gpus, product = _gpus(container.resources), _product(pod)
                found.append(FoundServer(container=container, parsed=parsed, gpus=gpus, product=product))
    return found


def _pods(
    value: dict[str, Any] | list[Any], path: FieldPath, depth: int = 0
) -> Iterator[tuple[Mapping[str, Any], FieldPath]]:
    """Yield all mappings with containers, and their paths."""
    if depth > _MAX_DEPTH:
        return
    if isinstance(value, dict) and isinstance(value.get("containers"), list):
        yield value, path
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in items:
        if isinstance(inner, dict | list):
            yield from _pods(inner, (*path, key), depth + 1)


def _gpus(resources: Mapping[str, Any]) -> int:
    for section in ("limits", "requests"):
        for vendor in Vendor:
            amount = str(mapping(resources.get(section)).get(vendor.resource, ""))
            if amount.isdecimal():
                return int(amount)
    return 0


def _product(pod: Mapping[str, Any]) -> str:
    selector = mapping(pod.get("nodeSelector"))
    return next((text(selector[label]) for label in PRODUCT_LABEL.values() if label in selector), "")
