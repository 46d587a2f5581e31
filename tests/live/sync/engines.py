"""Flux and Argo CD behind one face: follow a config repository, bring a commit to the cluster, say what is wrong."""

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import partial
from typing import Any

import yaml

from tests.cluster.bed import argo_cd, flux
from tests.cluster.bed.bed import Bed
from tests.live.sync.config_repository import TEMPLATE, ConfigRepository

_SOURCES = "/apis/source.toolkit.fluxcd.io/v1"
_KUSTOMIZATIONS = "/apis/kustomize.toolkit.fluxcd.io/v1"
_TIMED_OUT = ("context deadline exceeded", "Client.Timeout exceeded")  # Argo CD asks a busy server again
_REFRESH = "argocd.argoproj.io/refresh"
_APPLICATIONS = "/apis/argoproj.io/v1alpha1/namespaces/argocd/applications"


class Engine(ABC):
    """What syncs a repository to the bed, with the objects of the template."""

    def __init__(self, bed: Bed, repository: ConfigRepository) -> None:
        self._bed, self._repository = bed, repository

    @abstractmethod
    def follow(self) -> None:
        """Apply what the template says to apply once."""

    @abstractmethod
    def sync(self, commit: str) -> None:
        """Ask for a sync and wait until it has brought a commit to the cluster."""

    @abstractmethod
    def out_of_sync(self) -> list[str]:
        """Compare everything anew, without caches; return what the engine says is not as Git says."""

    @abstractmethod
    def leave(self) -> None:
        """Remove what `follow` made; what was synced stays."""

    def _annotate(self, path: str, name: str, value: str) -> None:
        body = {"metadata": {"annotations": {name: value}}}
        answer = self._bed.server.client.request("PATCH", path, body, content_type="application/merge-patch+json")
        assert answer.ok, answer.body


class Flux(Engine):
    """A GitRepository, and a Kustomization for each cluster."""

    def follow(self) -> None:
        source, kustomization = _template("flux/main.yaml")
        source["metadata"]["name"] = self._repository.name
        source["spec"]["url"] = self._repository.url
        self._bed.apply(source)
        for cluster in self._repository.clusters:
            spec = {
                **kustomization["spec"],
                "path": f"./rendered/{cluster}",
                "sourceRef": {"kind": "GitRepository", "name": self._repository.name},
            }
            self._bed.apply(
                {**kustomization, "metadata": {"name": self._name(cluster), "namespace": flux.NAMESPACE}, "spec": spec}
            )

    def sync(self, commit: str) -> None:
        revision, request = f"main@sha1:{commit}", str(time.time_ns())
        self._annotate(self._source, "reconcile.fluxcd.io/requestedAt", request)
        self._bed.wait(lambda: _has_fetched(self._bed.get(self._source), revision), f"Flux fetched {revision}")
        for cluster in self._repository.clusters:
            self._annotate(self._path(cluster), "reconcile.fluxcd.io/requestedAt", request)
        for path in map(self._path, self._repository.clusters):
            self._bed.wait(partial(self._is_applied, path, revision, request), f"Flux applied {revision}")

    def out_of_sync(self) -> list[str]:
        request = str(time.time_ns())
        for path in map(self._path, self._repository.clusters):
            self._annotate(path, "reconcile.fluxcd.io/requestedAt", request)
        found = [self._reconciled(path, request) for path in map(self._path, self._repository.clusters)]
        return [ready["message"] for ready in found if ready["status"] != "True"]

    def leave(self) -> None:
        for cluster in self._repository.clusters:
            body = {"spec": {"prune": False}}
            self._bed.server.client.request(
                "PATCH", self._path(cluster), body, content_type="application/merge-patch+json"
            )
            self._bed.delete(self._path(cluster))
        self._bed.delete(self._source)

    def _is_applied(self, path: str, revision: str, request: str) -> bool:
        body = self._bed.get(path)
        status, ready = body.get("status", {}), _ready(body)
        handled = status.get("lastHandledReconcileAt") == request
        # A refusal of the server is final here: the same commit would be refused again.
        assert not (handled and ready.get("status") == "False"), ready
        return handled and ready.get("status") == "True" and status.get("lastAppliedRevision") == revision

    def _reconciled(self, path: str, request: str) -> dict[str, Any]:
        """Return the condition Ready after a request; it is Unknown while Flux reconciles once more."""
        found: dict[str, Any] = {}

        def is_settled() -> bool:
            body = self._bed.get(path)
            found.update(_ready(body))
            is_handled = body.get("status", {}).get("lastHandledReconcileAt") == request
            return is_handled and found.get("status") in {"True", "False"}

        self._bed.wait(is_settled, "Flux reconciled")
        return found

    def _name(self, cluster: str) -> str:
        return f"{self._repository.name}-{cluster}"

    @property
    def _source(self) -> str:
        return f"{_SOURCES}/namespaces/{flux.NAMESPACE}/gitrepositories/{self._repository.name}"

    def _path(self, cluster: str) -> str:
        return f"{_KUSTOMIZATIONS}/namespaces/{flux.NAMESPACE}/kustomizations/{self._name(cluster)}"


class ArgoCd(Engine):
    """The ApplicationSet of the template: one Application for each folder of `rendered/`.

    healed: kinds whose lists a controller extends and Argo CD replaces, so that it heals them again and again.
    """

    healed: frozenset[str] = frozenset()

    def follow(self) -> None:
        for cluster in self._repository.clusters:
            self._bed.apply(argo_cd.cluster_secret(cluster, self._bed.kubeconfig))
        (applications,) = _template("argocd/applicationset.yaml")
        applications["metadata"]["name"] = self._repository.name
        applications["spec"]["template"]["metadata"]["name"] = f"{self._repository.name}-{{{{ .path.basename }}}}"
        (generator,) = applications["spec"]["generators"]
        generator["git"]["repoURL"] = self._repository.url
        applications["spec"]["template"]["spec"]["source"]["repoURL"] = self._repository.url
        self._bed.apply(applications)
        for path in map(self._path, self._repository.clusters):
            self._bed.wait(partial(self._bed.find, path), path)

    def sync(self, commit: str) -> None:
        for cluster in self._repository.clusters:
            self._annotate(self._path(cluster), _REFRESH, "normal")
        for path in map(self._path, self._repository.clusters):
            self._bed.wait(partial(self._is_applied, path, commit), f"Argo CD synced {commit}")

    def out_of_sync(self) -> list[str]:
        before = [self._operation(path) for path in map(self._path, self._repository.clusters)]
        for path in map(self._path, self._repository.clusters):
            self._annotate(path, _REFRESH, "hard")
        for path in map(self._path, self._repository.clusters):
            self._bed.wait(partial(self._is_refreshed, path), "Argo CD compared anew")
        bodies = [self._bed.get(path) for path in map(self._path, self._repository.clusters)]
        differ = [one for body in bodies for one in self._differing(body)]
        after = [self._operation(path) for path in map(self._path, self._repository.clusters)]
        if before != after and not self.healed:
            differ.append("an application was synced again")
        return differ

    def leave(self) -> None:
        sets = f"/apis/argoproj.io/v1alpha1/namespaces/{argo_cd.NAMESPACE}/applicationsets/{self._repository.name}"
        self._bed.delete(sets)

    def _is_applied(self, path: str, commit: str) -> bool:
        body = self._bed.get(path)
        status, asked = body.get("status", {}), body["metadata"].get("annotations") or {}
        failed = [one for one in status.get("conditions") or () if one["type"].endswith("Error")]
        assert all(any(text in one["message"] for text in _TIMED_OUT) for one in failed), failed
        operation = status.get("operationState", {})
        done = bool(self.healed and operation) or (operation.get("phase") == "Succeeded" and "operation" not in body)
        is_synced = status.get("sync", {}).get("revision") == commit and not self._differing(body)
        return _REFRESH not in asked and done and is_synced

    def _differing(self, application: dict[str, Any]) -> list[str]:
        """Return the objects that are not as Git says, besides those that are healed again and again."""
        status = application["status"]
        differing = [one for one in status.get("resources") or () if one.get("status", "Synced") != "Synced"]
        found = [f"{one['kind']}/{one['name']}" for one in differing if one["kind"] not in self.healed]
        is_unknown = status.get("sync", {}).get("status") != "Synced" and not differing
        return [*found, *(["the application"] if is_unknown else [])]

    def _is_refreshed(self, path: str) -> bool:
        return _REFRESH not in (self._bed.get(path)["metadata"].get("annotations") or {})

    def _operation(self, path: str) -> Any:
        """Return when the last sync ended."""
        return self._bed.get(path)["status"].get("operationState", {}).get("finishedAt")

    def _path(self, cluster: str) -> str:
        return f"{_APPLICATIONS}/{self._repository.name}-{cluster}"


def _ready(body: dict[str, Any]) -> dict[str, Any]:
    """Return the condition Ready of an object."""
    return next((one for one in body.get("status", {}).get("conditions") or () if one["type"] == "Ready"), {})


def _has_fetched(source: dict[str, Any], revision: str) -> bool:
    return bool(source.get("status", {}).get("artifact", {}).get("revision") == revision)


def _template(path: str) -> Iterator[Any]:
    return yaml.load_all((TEMPLATE / path).read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
