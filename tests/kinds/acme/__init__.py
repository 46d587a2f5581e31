"""An example family: a `Run` is rendered to a `Gang`, which runs pods, and can be sized."""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from reconciler.kinds.aspects import Life, Lookup, Pods, Source
from reconciler.kinds.facts import PodSet
from reconciler.kinds.immutable import only
from reconciler.kinds.kind import Kind
from reconciler.kinds.manifests.manifest import manifest
from reconciler.kinds.pods import of_spec
from reconciler.kinds.rendered import Rendered
from reconciler.kube.problems import Parsed
from reconciler.kube.reasons import Origin, Reason, Traced, copied
from reconciler.kube.values import count, mapping
from reconciler.kube.yaml import Document
from reconciler.sizing.training_jobs.container import parse_container
from reconciler.sizing.training_jobs.job import Allocation, Editor, JobFormat, PodCounts, TrainingJob, TrainingPods
from reconciler.sizing.training_jobs.reader import JobReader

GROUP = "acme.example.com"


class Run(Struct, frozen=True, kw_only=True, eq=False):
    """The intent of a Run."""

    document: Document
    nodes: Traced
    container: Traced


def _parse(document: Document) -> Parsed[Run]:
    spec = document.data["spec"]
    container = {"name": "train", **{key: value for key, value in spec.items() if key != "nodes"}}
    return Parsed(
        intent=Run(
            document=document,
            nodes=copied(document, ("spec", "nodes"), spec.get("nodes", 1)),
            container=Traced(container, Reason(rule="acme.container", origins=(Origin(document=document),))),
        )
    )


def _render(run: Run, lookup: Lookup) -> Rendered:
    key, cluster = run.document.key, lookup.cluster
    tree = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Gang",
        "metadata": {"name": key.name, "namespace": key.namespace or cluster.namespace},
        "spec": {"size": run.nodes, "template": {"spec": {"containers": [run.container]}}},
    }
    reason = Reason(rule="acme.run", text="rendered for the run", origins=(Origin(document=run.document),))
    return Rendered(manifests=(manifest(cluster=cluster.name, tree=tree, source=run.document.source, reason=reason),))


def _gang_pods(spec: Mapping[str, Any], prefix: str) -> Iterator[PodSet]:
    yield PodSet(count(spec.get("size"), 1), mapping(spec.get("template")), f"{prefix}template.")


class _RunFormat(JobFormat):
    kind = "Run"
    passes_process_counts = True

    def set_replicas(self, editor: Editor, job: TrainingJob, allocation: Allocation) -> PodCounts:
        """Write the nodes."""
        reason = allocation.because("workers", allocation.spread)
        editor.set((*job.root, "spec", "nodes"), allocation.workers, reason)
        return {}


def _training(reader: JobReader) -> TrainingJob:
    container = parse_container(reader.mapping("spec"), (*reader.root, "spec"))
    return TrainingJob(
        document=reader.document,
        format=_RunFormat(),
        root=reader.root,
        pods=(TrainingPods(role="node", replicas=reader.count("spec", "nodes"), container=container),),
        command=container.command,
        args=container.args,
        env=container.env,
        node_selectors=(),
        node_affinities=(),
    )


def _crd(kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    schema = {"type": "object", "required": ["spec"], "properties": {"spec": {"type": "object", **spec}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.lower()}s.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": f"{kind.lower()}s", "singular": kind.lower(), "listKind": f"{kind}List"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }


_STRINGS = {"type": "array", "items": {"type": "string"}}
_FREE = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}

RUN = Kind(
    group=GROUP,
    kind="Run",
    source=Source(
        crd=_crd(
            "Run",
            {
                "required": ["image", "command"],
                "properties": {
                    "image": {"type": "string", "description": "Image that trains."},
                    "nodes": {"type": "integer", "minimum": 1},
                    "command": _STRINGS,
                    "args": _STRINGS,
                    "env": {"type": "array", "items": _FREE},
                    "resources": _FREE,
                },
            },
        ),
        parse=_parse,
        render=_render,
        training=_training,
    ),
)
GANG = Kind(
    group=GROUP,
    kind="Gang",
    source=Source(crd=_crd("Gang", {"properties": {"size": {"type": "integer"}, "template": _FREE}})),
    pods=Pods(of_spec(_gang_pods)),
    life=Life(immutable=only("spec.template")),
)
KINDS = (RUN, GANG)
