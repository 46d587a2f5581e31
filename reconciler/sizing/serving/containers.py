"""Find the servers in a document of any kind: its containers, their GPUs, and the product that their pods select."""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from reconciler.kube.objects import FieldPath
from reconciler.kube.values import mapping, sequence, text
from reconciler.kube.yaml import Document
from reconciler.launch import FileReader
from reconciler.sizing.devices import PRODUCT_LABEL, Vendor
from reconciler.sizing.serving.line import ParsedServer, parse_server, server_command
from reconciler.sizing.tables import SizingTables
from reconciler.sizing.training_jobs.config_maps import FindConfigMap, container_environment
from reconciler.sizing.training_jobs.container import Container, parse_container

_MIG = "nvidia.com/mig-"


class FoundServer(Struct, frozen=True, kw_only=True):
    """A container that serves a model. `gpus` are those that it requests, `product` what its pod selects (or empty)."""

    container: Container
    parsed: ParsedServer
    gpus: int = 0
    product: str = ""


def no_config_map(_: str) -> None:
    """Find no ConfigMap, for documents outside of a repository."""


def find_servers(
    document: Document, tables: SizingTables, files: FileReader, config_map: FindConfigMap = no_config_map
) -> list[FoundServer]:
    """Return the servers of a document, wherever its kind has pod templates (Deployment, KaiwoService, LWS, ...)."""
    folder = document.source.path.rpartition("/")[0]
    found = []
    for pod, path in _pods(document.data, ()):
        for index, item in enumerate(sequence(pod.get("containers"))):
            if not isinstance(item, dict):
                continue
            container = parse_container(item, (*path, "containers", index))
            command = server_command(text(item.get("image")), container.command, container.args)
            env = dict(container.env)
            if any(_may_use_variables(word) for word in (*command, *container.args)):  # else no ConfigMap is looked up
                env = dict(container_environment(item, container.env, config_map))
            gpus, product = _devices(container.resources, _product(pod))
            parsed = parse_server(command, container.args, env, files, tables, folder=folder, gpus=gpus)
            if parsed is not None:
                found.append(FoundServer(container=container, parsed=parsed, gpus=gpus, product=product))
    return found


def _may_use_variables(word: str) -> bool:
    return "$" in word or word.endswith(".sh")


def _pods(value: dict[str, Any] | list[Any], path: FieldPath) -> Iterator[tuple[Mapping[str, Any], FieldPath]]:
    """Yield all mappings with containers, and their paths."""
    if isinstance(value, dict) and isinstance(value.get("containers"), list):
        yield value, path
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in items:
        if isinstance(inner, dict | list):
            yield from _pods(inner, (*path, key))


def _devices(resources: Mapping[str, Any], product: str) -> tuple[int, str]:
    """Return the GPUs that a container requests, and their product; a slice of a GPU is a product of its own."""
    for section in ("limits", "requests"):
        amounts = mapping(resources.get(section))
        for vendor in Vendor:
            amount = str(amounts.get(vendor.resource, ""))
            if amount.isdecimal():
                return int(amount), product
        for resource, amount in amounts.items():
            if resource.startswith(_MIG) and str(amount).isdecimal():
                slice_ = resource.removeprefix(_MIG)
                return int(amount), f"{product}-MIG-{slice_}" if product else resource
    return 0, product


def _product(pod: Mapping[str, Any]) -> str:
    """Return the product that the node selector, or else the required node affinity, names; empty for several."""
    selector = mapping(pod.get("nodeSelector"))
    selected = next((text(selector[label]) for label in PRODUCT_LABEL.values() if label in selector), "")
    affinity = mapping(mapping(pod.get("affinity")).get("nodeAffinity"))
    terms = mapping(affinity.get("requiredDuringSchedulingIgnoredDuringExecution")).get("nodeSelectorTerms")
    allowed = {_term_product(mapping(term)) for term in sequence(terms)}
    return selected or (allowed.pop() if len(allowed) == 1 else "")


def _term_product(term: Mapping[str, Any]) -> str:
    for expression in map(mapping, sequence(term.get("matchExpressions"))):
        values = sequence(expression.get("values"))
        if expression.get("key") in PRODUCT_LABEL.values() and expression.get("operator") == "In" and len(values) == 1:
            return text(values[0])
    return ""
