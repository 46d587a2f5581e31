"""AgentaFlow (`agentaflow.io`): workloads with GPUs, and what a monitor says of nodes.

A GPUWorkload becomes a Job: no scheduler of AgentaFlow is needed. A GPUNode is evidence.
"""

from reconciler.kinds.agentaflow.workload import GpuWorkloadIntent, workload_intent
from reconciler.kinds.aspects import Lookup, Source
from reconciler.kinds.kind import Kind
from reconciler.kinds.rendered import Rendered

GROUP = "agentaflow.io"


def _render(work: GpuWorkloadIntent, lookup: Lookup) -> Rendered:
    from reconciler.kinds.agentaflow.render import render_workload  # noqa: PLC0415 - many plans have none

    return render_workload(work, lookup)


KINDS = (Kind(group=GROUP, kind="GPUWorkload", source=Source(parse=workload_intent, render=_render)),)
