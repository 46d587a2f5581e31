"""Quarantines as files of the config repository: what the fast lane did, and what the reviewed lane proposes."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from reconciler.errors import ConfigError
from reconciler.health.fast_lane import HealthRules, LaneRound
from reconciler.index.build import CompiledRevision, read_files
from reconciler.index.sized.splice import edit_source
from reconciler.kinds.health import POLICY, QUARANTINE
from reconciler.kube.times import timestamp
from reconciler.kube.yaml import Document, write
from reconciler.nodehealth.findings import RepairAction
from reconciler.nodehealth.fleet.decisions import HealthDecision, HealthProposal
from reconciler.nodehealth.fleet.replay import catalogue_rules
from reconciler.nodehealth.fleet.state import NodeState
from reconciler.nodehealth.policy import PolicyBook
from reconciler.nodehealth.quarantine import NodeQuarantine, Stage, TaintEffect, write_quarantine
from reconciler.plan.outputs.commit import ENGINE, SOURCE_COMMIT, Committed, commit
from reconciler.plan.workspace import Workspace
from reconciler.repo.config import Cluster
from reconciler.repo.port import Repository
from reconciler.version import __version__

ORIGIN, FAST_LANE = "gpureconciler.io/origin", "fast-lane"
"""Annotation of a quarantine that the fast lane wrote. Whoever confirms it removes the annotation."""

_ACTIONS: Mapping[HealthProposal, tuple[RepairAction, Stage]] = {
    HealthProposal.INSPECT: (RepairAction.RUN_DIAG, Stage.QUARANTINE),
    HealthProposal.SUPPORT: (RepairAction.CONTACT_SUPPORT, Stage.QUARANTINE),
}
_DELETES = frozenset({HealthProposal.RELEASE, HealthProposal.REMOVE_STALE})


class QuarantineFile(Struct, frozen=True, kw_only=True, eq=False):
    """A quarantine of one cluster, and the document that says it."""

    document: Document
    quarantine: NodeQuarantine

    @property
    def is_mirror(self) -> bool:
        """True if the fast lane wrote it, and nobody has confirmed it yet."""
        return (self.document.metadata.get("annotations") or {}).get(ORIGIN) == FAST_LANE


class HealthSources(Struct, frozen=True, kw_only=True, eq=False):
    """The policies and quarantines of one cluster in one revision, and the place of new quarantines."""

    repository: Repository
    index: CompiledRevision
    cluster: Cluster

    @property
    def quarantines(self) -> dict[str, QuarantineFile]:
        """The quarantines by node. Of two for one node the confirmed one counts."""
        rows = [
            QuarantineFile(document=one.document, quarantine=one.intent.quarantine) for one in self._all(QUARANTINE)
        ]
        return {one.quarantine.node: one for one in sorted(rows, key=lambda one: not one.is_mirror)}

    def rules(self) -> HealthRules:
        """Return what the fast lane may do: merged policies, and the quarantines that people have merged."""
        return HealthRules(
            policies=PolicyBook(one.intent.policy for one in self._all(POLICY)),
            defaults=catalogue_rules(),
            reviewed=tuple(one.quarantine for one in self.quarantines.values() if not one.is_mirror),
        )

    def _all(self, kind: tuple[str, str]) -> list[Any]:
        return [*self.index.context.definitions.get((self.cluster.name, kind, ""), {}).values()]

    def new_path(self, node: str) -> str:
        """Return the file of a new quarantine; empty if every cluster would get it."""
        config, select = self.index.context.config, self.cluster.select
        if len(config.clusters) > 1 and not select.folders and not select.labels:
            return ""
        return f"{next(iter(select.folders), config.sources[0])}/quarantine/{node}.yaml"

    def content(self, path: str) -> bytes:
        """Return a source file; nothing if there is none."""
        files = self.index.revision.files.sources
        return dict(read_files(self.repository, files, [path]))[path] if path in files else b""

    def labels(self) -> dict[str, str]:
        """Return the labels that the cluster selects by."""
        return dict(self.cluster.select.labels)


def mirror_files(sources: HealthSources, done: LaneRound) -> dict[str, bytes | None]:
    """Return the files that show what the fast lane did: one for each node with our taint, none for any other."""
    known = sources.quarantines
    files: dict[str, bytes | None] = {}
    for node, decision in sorted(done.evaluation.decisions.items()):
        state = done.evaluation.state.nodes.get(node, NodeState())
        before = known.get(node)
        is_ours = state.ours and decision.taint is not None
        case = done.state.cases.get(node)
        is_withdrawn = case is not None and case.mirrored  # a person deleted the file
        if is_ours and before is None and not is_withdrawn and (path := sources.new_path(node)):
            files[path] = _new_file(sources, node_quarantine(decision, state), origin=FAST_LANE)
        elif is_ours and before is not None and before.is_mirror:
            files |= _edited(sources, before, {"until": timestamp(state.until) if state.until else ""})
        elif not is_ours and before is not None and before.is_mirror:
            files |= removed_file(sources, before)
    for node in known.keys() - done.evaluation.decisions.keys():
        if known[node].is_mirror and node not in done.reading.nodes:
            files |= removed_file(sources, known[node])
    return files


def proposed_files(sources: HealthSources, decision: HealthDecision, state: NodeState) -> dict[str, bytes | None]:
    """Return the files that a proposal changes; nothing if they are so already."""
    proposal, before = decision.proposal, sources.quarantines.get(decision.node)
    if proposal is None:
        return {}
    if proposal in _DELETES:
        return {} if before is None else removed_file(sources, before)
    if proposal is HealthProposal.REMEDIATE:
        return {} if before is None else staged_file(sources, before, Stage.REPAIR)
    wanted = replace(node_quarantine(decision, state), until="")
    if proposal in _ACTIONS:
        action, stage = _ACTIONS[proposal]
        wanted = replace(wanted, action=action, stage=stage)
    if before is None:
        path = sources.new_path(decision.node)
        return {path: _new_file(sources, wanted)} if path else {}
    spec = write_quarantine(wanted)["spec"]
    return _edited(sources, before, {"until": None, **{key: spec[key] for key in ("action", "stage") if key in spec}})


def node_quarantine(decision: HealthDecision, state: NodeState) -> NodeQuarantine:
    """Return the quarantine of a node as Git says it: stable as long as the failures are the same."""
    worst = next((one for one in state.failures if one.check == decision.check), None)
    reason = (worst.message if worst is not None else "") or decision.reason
    return NodeQuarantine(
        name=decision.node,
        node=decision.node,
        uid=state.uid,
        slots=decision.slots,
        check=decision.check,
        reason=reason,
        evidence=decision.evidence,
        effect=TaintEffect.NO_SCHEDULE,
        action=decision.action,
        until=timestamp(state.until) if state.until else "",
    )


def _new_file(sources: HealthSources, quarantine: NodeQuarantine, *, origin: str = "") -> bytes:
    body = write_quarantine(quarantine)
    metadata = dict(body["metadata"])
    if labels := sources.labels():
        metadata["labels"] = labels
    if origin:
        metadata["annotations"] = {ORIGIN: origin}
    return write({**body, "metadata": metadata})


def _edited(sources: HealthSources, before: QuarantineFile, spec: Mapping[str, str | None]) -> dict[str, bytes | None]:
    """Change fields of a file in place, so that comments and edits of people stay. Without `until` it is confirmed."""
    document = before.document
    data = {**document.data, "spec": _with(document.data["spec"], spec)}
    if spec.get("until", "") is None and before.is_mirror:
        annotations = {key: value for key, value in document.metadata["annotations"].items() if key != ORIGIN}
        metadata = {key: value for key, value in document.metadata.items() if key != "annotations"}
        data["metadata"] = {**metadata, **({"annotations": annotations} if annotations else {})}
    if data == document.data:
        return {}
    path = document.source.path
    edited = edit_source(sources.content(path), [(document, data)])
    return {} if edited.problems else {path: edited.content}


def staged_file(sources: HealthSources, before: QuarantineFile, stage: Stage) -> dict[str, bytes | None]:
    """Ask for a stage of the repair. Who does so confirms what the fast lane wrote."""
    return _edited(sources, before, {"until": None, "stage": str(stage)})


def _with(spec: Mapping[str, Any], changes: Mapping[str, str | None]) -> dict[str, Any]:
    merged = {**spec, **{key: value for key, value in changes.items() if value}}
    return {key: value for key, value in merged.items() if key not in changes or changes[key]}


def removed_file(sources: HealthSources, before: QuarantineFile) -> dict[str, bytes | None]:
    """Delete a file that holds this quarantine alone; a document among others is left to people."""
    path = before.document.source.path
    others = [line for line in sources.content(path).splitlines() if line.startswith(b"---")]
    return {} if before.document.index or len(others) > 1 else {path: None}


# Decisions of people.


def release(workspace: Workspace, sources: Sequence[HealthSources], node: str) -> Committed | None:
    """Delete the quarantine of a node, and commit that."""
    return _commit_decision(workspace, sources, node, is_released=True)


def declare_repaired(workspace: Workspace, sources: Sequence[HealthSources], node: str) -> Committed | None:
    """Ask for the validation of a repaired node, and commit that: a deep test that passes proposes its release."""
    return _commit_decision(workspace, sources, node, is_released=False)


def _commit_decision(
    workspace: Workspace, sources: Sequence[HealthSources], node: str, *, is_released: bool
) -> Committed | None:
    head = workspace.tree.commit
    if head is None:
        raise ConfigError("the quarantine exists only in the working tree", hint="commit it first")
    files: dict[str, bytes | None] = {}
    known = False
    for one in sources:
        quarantine = one.quarantines.get(node)
        if quarantine is not None:
            known = True
            files |= removed_file(one, quarantine) if is_released else staged_file(one, quarantine, Stage.VALIDATE)
    if not known:
        names = sorted({name for one in sources for name in one.quarantines})
        shown = ", ".join(names[:5]) or "none"
        raise ConfigError(f"no NodeQuarantine for node {node!r}", hint=f"quarantined in this repository: {shown}")
    if is_released and not files:
        raise ConfigError(
            f"the file with the quarantine of {node} contains other documents, too", hint="remove the document by hand"
        )
    if not files:
        return None
    what = f"release {node}" if is_released else f"{node} was repaired; validate it"
    return commit(
        workspace.repository,
        files=files,
        message=f"Node health: {what}",
        trailers={SOURCE_COMMIT: head.oid, ENGINE: __version__},
        expected_head=head.oid,
    )
