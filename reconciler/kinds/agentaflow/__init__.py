"""AgentaFlow (`agentaflow.io`): workloads with GPUs, and what a monitor says of nodes.

A GPUWorkload becomes a Job: no scheduler of AgentaFlow is needed. A GPUNode is evidence.
"""

from reconciler.kinds.agentaflow.gpu_node import GpuNode, parse_gpu_node
from reconciler.kinds.agentaflow.workload import GpuWorkloadIntent, workload_intent
from reconciler.kinds.aspects import EvidenceReader, EvidenceUse, Lookup, Source
from reconciler.kinds.facts import Refusal
from reconciler.kinds.kind import Kind
from reconciler.kinds.rendered import Rendered
from reconciler.kube.problems import Problem
from reconciler.kube.yaml import Document

GROUP = "agentaflow.io"


def _render(work: GpuWorkloadIntent, lookup: Lookup) -> Rendered:
    from reconciler.kinds.agentaflow.render import render_workload  # noqa: PLC0415 - many plans have none

    return render_workload(work, lookup)


def _gpu_node(document: Document, _: str) -> tuple[GpuNode | None, tuple[Problem, ...]]:
    return parse_gpu_node(document), ()


KINDS = (
    Kind(group=GROUP, kind="GPUWorkload", source=Source(parse=workload_intent, render=_render)),
    Kind(
        group=GROUP,
        kind="GPUNode",
        is_cluster_scoped=True,
        source=Source(
            refusal=Refusal(
                rule="layout.kind",
                message="{kind} is not allowed in a source folder: it says what a node is, which nobody decides",
                hint="move it to evidence/<cluster>/",
            ),
            evidence=EvidenceReader(parse=_gpu_node, use=EvidenceUse.GPU_NODES),
        ),
    ),
)
