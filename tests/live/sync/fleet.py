"""A fleet under test: nodes, the config repository that describes their queues and jobs, and what the cluster holds."""

from pathlib import Path
from typing import Any

import yaml

from tests.cluster.bed.bed import Bed, node
from tests.cluster.bed.fleet import Product, volumes
from tests.cluster.bed.git_http import GitServer
from tests.live.sync.config_repository import CLUSTERS, ConfigRepository, config_repository
from tests.live.sync.engines import Engine

Body = dict[str, Any]


class Fleet:
    """A config repository, the engines that sync it, and what the cluster holds of it."""

    def __init__(self, bed: Bed, repository: ConfigRepository, *engines: Engine) -> None:
        self.bed, self.repository, self.engines = bed, repository, engines

    def arrive(self, message: str) -> str:
        """Push what was edited and wait until the engines have synced it, one after the other."""
        commit = self.repository.push(message)
        self.sync(commit)
        return commit

    def sync(self, commit: str) -> None:
        """Let every engine sync a commit."""
        for engine in self.engines:
            engine.sync(commit)

    def follow(self, message: str) -> str:
        """Push the first commit and let every engine follow the repository from there."""
        commit = self.repository.push(message)
        for engine in self.engines:
            engine.follow()
            engine.sync(commit)
        return commit

    def find(self, api_version: str, kind: str, name: str, cluster: str = "") -> Body | None:
        """Return an object, None where there is none; with `cluster` in the namespace of that cluster."""
        metadata = {"name": name, "namespace": f"{self.repository.name}-{cluster}" if cluster else ""}
        path = self.bed.server.client.path({"apiVersion": api_version, "kind": kind, "metadata": metadata})
        assert path is not None
        return self.bed.find(path)

    def get(self, api_version: str, kind: str, name: str, cluster: str = "") -> Body:
        """Return an object that must be there."""
        found = self.find(api_version, kind, name, cluster)
        assert found is not None, f"no {kind} {name}"
        return found

    def desired(self) -> dict[str, Body]:
        """Return every rendered object as it is stored, without what controllers write, and who applied it when."""
        stored = {}
        for cluster in CLUSTERS:
            for path, text in self.repository.rendered(cluster).items():
                body = yaml.load(text, Loader=yaml.CSafeLoader)
                where = self.bed.server.client.path(body)
                assert where is not None
                found = self.bed.get(where)
                found.pop("status", None)
                found["metadata"].pop("resourceVersion")
                managers = found["metadata"].pop("managedFields")
                found["applied"] = {one["manager"]: one["time"] for one in managers if one["operation"] == "Apply"}
                stored[f"{cluster}/{path}"] = found
        return stored


def fleet_repository(bed: Bed, git_server: GitServer, folder: Path, name: str, product: Product) -> ConfigRepository:
    """Make the config repository of a fleet of six nodes of a product, with its nodes, namespaces and volumes."""
    repository = config_repository(
        name, folder / "fleet", git_server, product=product.name, memory_mib=product.memory_mib
    )
    bed.server.client.ensure_namespaces(f"{name}-{cluster}" for cluster in CLUSTERS)
    for index in range(6):
        labels = {"nvidia.com/gpu.product": product.name, "pool": name}
        bed.create("/api/v1/nodes", node(f"{name}-{index}", gpus=8, labels=labels))
    for body in volumes(12, prefix=name):
        bed.create("/api/v1/persistentvolumes", body)
    bed.wait(lambda: bed.ready_nodes(name) == 6, "six nodes ready")
    return repository
