"""The `NodeHealthReport` of one node in its cluster: read it, and write it without losing what another writer said."""

from collections.abc import Callable, Mapping
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from reconciler.kube.client.port import Body, ClusterError, LiveCluster
from reconciler.kube.objects import ObjectKey
from reconciler.nodehealth.inflight.preflight import acknowledged
from reconciler.nodehealth.policy import NodeExpectation
from reconciler.nodehealth.published import MalformedReport, body_of, expected_of, report_of
from reconciler.nodehealth.report import API_VERSION, KIND, NodeReport

MANAGER = "gpuhealth-agent"
"""The field manager of reports."""

_GROUP = API_VERSION.partition("/")[0]
_ATTEMPTS = 5
_CONFLICT = 409  # somebody wrote the object since it was read


class StoredReport(Struct, frozen=True, kw_only=True):
    """The report of a node as it is stored. `version` is empty if there is no object; `problem` says why it is lost.

    acknowledged: what the controller says about failed preflight checks, by the UID of the pod. expected: what Git says
    that the node should have.
    """

    report: NodeReport | None = None
    version: str = ""
    problem: str = ""
    acknowledged: Mapping[str, str] = {}
    expected: NodeExpectation = NodeExpectation()


class ReportStore(Protocol):
    """A store of the reports of nodes. Every method may raise `ClusterError`."""

    def read(self, node: str) -> StoredReport:
        """Return the report; one that cannot be read counts as missing."""
        ...

    def update(self, node: str, change: Callable[[StoredReport], NodeReport | None]) -> StoredReport:
        """Write what `change` makes of the stored report; None: nothing is written."""
        ...


class ClusterReports:
    """Reports as objects of an API server."""

    def __init__(self, cluster: LiveCluster) -> None:
        self._cluster = cluster

    def read(self, node: str) -> StoredReport:
        """Return the report of a node."""
        body = self._cluster.get(report_key(node))
        return _stored(body) if body is not None else StoredReport()

    def update(self, node: str, change: Callable[[StoredReport], NodeReport | None]) -> StoredReport:
        """Read, change and write the report; again if another writer came between."""
        for attempt in range(_ATTEMPTS):
            before = self.read(node)
            report = change(before)
            if report is None:
                return before
            try:
                return self._write(report, before)
            except ClusterError as error:
                if error.status != _CONFLICT or attempt == _ATTEMPTS - 1:
                    raise
        raise AssertionError  # unreachable

    def _write(self, report: NodeReport, before: StoredReport) -> StoredReport:
        body, version = body_of(report), before.version
        if not version:
            head = {name: value for name, value in body.items() if name != "status"}
            version = self._cluster.apply(head, manager=MANAGER).body["metadata"]["resourceVersion"]
        guarded = {**body, "metadata": {**body["metadata"], "resourceVersion": version}}
        written = self._cluster.apply(guarded, manager=MANAGER, force=True, subresource="status")
        return replace(before, report=report, version=written.body["metadata"]["resourceVersion"], problem="")


def report_key(node: str) -> ObjectKey:
    """Return the key of the report of a node."""
    return ObjectKey(group=_GROUP, kind=KIND, namespace="", name=node)


def _stored(body: Body) -> StoredReport:
    version = body["metadata"]["resourceVersion"]
    stored = StoredReport(version=version, acknowledged=acknowledged(body), expected=expected_of(body))
    try:
        return replace(stored, report=report_of(body))
    except MalformedReport as problem:
        return replace(stored, problem=str(problem))
