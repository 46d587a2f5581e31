"""Argo Workflows (`argoproj.io`): pods in steps and graphs.

Fields: pkg/apis/workflow/v1alpha1 of Argo Workflows 3.7.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.kinds.argo.stages import Stages
from reconciler.kinds.aspects import Pods
from reconciler.kinds.facts import PodProvider, PodSet
from reconciler.kinds.kind import Kind
from reconciler.kinds.pods import of_spec
from reconciler.kube.values import mapping, text

_GROUP = "argoproj.io"
WORKFLOW_TEMPLATE = (_GROUP, "WorkflowTemplate")
CLUSTER_WORKFLOW_TEMPLATE = (_GROUP, "ClusterWorkflowTemplate")


def _workflow(spec: Mapping[str, Any], prefix: str) -> Iterator[PodSet]:
    """Yield the pods that may run at the same time, of the workflow or of the template that it refers to."""
    reference = mapping(spec.get("workflowTemplateRef"))
    name = text(reference.get("name"))
    if name:
        kind = CLUSTER_WORKFLOW_TEMPLATE if reference.get("clusterScope") is True else WORKFLOW_TEMPLATE
        provider = PodProvider((kind,), name, f"{prefix}workflowTemplateRef.name", sets_pods=True)
        yield PodSet(1, {}, prefix, provider=provider)
    else:
        yield from Stages(spec, prefix).pods()


def _cron_workflow(spec: Mapping[str, Any], prefix: str) -> Iterator[PodSet]:
    return _workflow(mapping(spec.get("workflowSpec")), f"{prefix}workflowSpec.")


KINDS = (
    Kind(group=_GROUP, kind="Workflow", pods=Pods(of_spec(_workflow))),
    Kind(group=_GROUP, kind="CronWorkflow", pods=Pods(of_spec(_cron_workflow), job_metadata=("metadata",))),
    Kind(group=_GROUP, kind=WORKFLOW_TEMPLATE[1], pods=Pods(provides=of_spec(_workflow))),
    Kind(
        group=_GROUP, kind=CLUSTER_WORKFLOW_TEMPLATE[1], is_cluster_scoped=True, pods=Pods(provides=of_spec(_workflow))
    ),
)
