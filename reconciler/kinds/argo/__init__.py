"""Argo Workflows (`argoproj.io`): pods in steps and graphs.

Fields: pkg/apis/workflow/v1alpha1 of Argo Workflows 3.7.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from reconciler.kinds.aspects import Pods
from reconciler.kinds.facts import PodProvider, PodSet
from reconciler.kinds.kind import Kind
from reconciler.kinds.pod_paths import with_containers
from reconciler.kinds.pods import of_spec
from reconciler.kube.values import count, mapping, sequence, text
from reconciler.sizing.devices import pod_devices

_GROUP = "argoproj.io"
WORKFLOW_TEMPLATE = (_GROUP, "WorkflowTemplate")
CLUSTER_WORKFLOW_TEMPLATE = (_GROUP, "ClusterWorkflowTemplate")


MAX_LEVELS = 100
"""Templates within templates. What is deeper is not counted, and said to be unknown."""
MAX_TASKS = 1000
"""Tasks of one graph: each is compared with all others."""

_MAX_PODS = 1000  # of one workflow: more are a mistake, or recursion
_POD_FIELDS = ("nodeSelector", "affinity", "tolerations", "initContainers", "sidecars")
_WORD = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")


class Stages:
    """The templates of a workflow, by name, and what runs of them."""

    def __init__(self, spec: Mapping[str, Any], prefix: str) -> None:
        self._spec, self._prefix = spec, prefix
        listed = [*map(mapping, sequence(spec.get("templates")))]
        self._templates = {text(one.get("name")): (index, one) for index, one in enumerate(listed)}
        self._found: dict[str, list[PodSet]] = {}
        self._open: list[str] = []  # templates that are being read, each within the one before
        self._repetitions: set[str] = set()

    def pods(self) -> list[PodSet]:
        """Return the pods of the largest stage that the entry point can reach."""
        limit = count(self._spec.get("parallelism"), _MAX_PODS) or _MAX_PODS
        found = _cut(self._of(text(self._spec.get("entrypoint"))), limit)
        has_gpus = any(_gpus(pods)[0] for pods in self._found.values())
        return [pods for pods in found if has_gpus or pods.unknown not in self._repetitions]

    def _of(self, name: str) -> list[PodSet]:
        """Return the work of a template; it is read once."""
        if name not in self._templates:
            return []
        if name not in self._found:
            index, template = self._templates[name]
            prefix = f"{self._prefix}templates[{index}]."
            if name in self._open:
                self._repetitions.add(unknown := f"how often template {name} runs itself")
                return [PodSet(1, {}, prefix, unknown=unknown)]
            if len(self._open) == MAX_LEVELS:
                return [
                    PodSet(1, {}, prefix, unknown=f"the GPUs of template {name}, more than {MAX_LEVELS} levels deep")
                ]
            self._open.append(name)
            self._found[name] = self._of_template(template, prefix)
            self._open.pop()
        return self._found[name]

    def _of_template(self, template: Mapping[str, Any], prefix: str) -> list[PodSet]:
        if type(template.get("steps")) is list:
            groups = [self._of_group(sequence(group), prefix) for group in template["steps"]]
            return _cut(max(groups, key=_gpus, default=[]), _parallelism(template))
        if type(template.get("dag")) is dict:
            return _cut(self._of_graph(template["dag"], prefix), _parallelism(template))
        containers = [template[field] for field in ("container", "script") if type(template.get(field)) is dict]
        containers += sequence(mapping(template.get("containerSet")).get("containers"))
        if not containers:
            return []
        defaults = {field: self._spec[field] for field in _POD_FIELDS if field in self._spec}
        own = {field: template[field] for field in _POD_FIELDS if field in template}
        pod = {**defaults, **own}
        containers += sequence(pod.pop("sidecars", ()))
        body = with_containers(*map(mapping, containers), **pod)
        body["metadata"] = mapping(template.get("metadata"))
        return [PodSet(1, body, prefix)]

    def _of_group(self, steps: Sequence[Any], prefix: str) -> list[PodSet]:
        return _merged(pods for step in steps for pods in self._of_task(mapping(step), prefix))

    def _of_task(self, task: Mapping[str, Any], prefix: str) -> list[PodSet]:
        """Return the work of one step or task: its template, as often as it has items."""
        inline = task.get("inline")
        if type(inline) is dict:
            found = self._of_template(inline, prefix)
        elif type(task.get("templateRef")) is dict:
            name = text(task["templateRef"].get("name"))
            found = [PodSet(1, {}, prefix, unknown=f"the GPUs of template {name}, which another object defines")]
        else:
            found = self._of(text(task.get("template")))
        times, unknown = _items(task)
        note = "how many pods withParam starts" if unknown and _gpus(found) else ""
        return [pods.times(times)._replace(unknown=pods.unknown or note) for pods in found][:_MAX_PODS]

    def _of_graph(self, graph: Mapping[str, Any], prefix: str) -> list[PodSet]:
        """Return an upper bound: of tasks that follow each other, those with the most GPUs."""
        tasks = {text(task.get("name")): task for task in map(mapping, sequence(graph.get("tasks")))}
        if len(tasks) > MAX_TASKS:
            return [PodSet(1, {}, prefix, unknown=f"the GPUs of a graph of more than {MAX_TASKS:,} tasks")]
        needs = {name: [other for other in _dependencies(task) if other in tasks] for name, task in tasks.items()}
        before = {name: _ancestors(name, needs) for name in tasks}
        chains: list[list[str]] = []
        for name in sorted(tasks, key=lambda one: len(before[one])):
            chain = next((chain for chain in chains if chain[-1] in before[name]), None)
            if chain is None:
                chains.append([name])
            else:
                chain.append(name)
        found = {name: self._of_task(task, prefix) for name, task in tasks.items()}
        return _merged(pods for chain in chains for pods in max((found[name] for name in chain), key=_gpus))


def _merged(pods: Iterable[PodSet]) -> list[PodSet]:
    """Return pods with those of one template together: calls within calls multiply them, not the list."""
    found: dict[tuple[int, str], PodSet] = {}
    for one in pods:
        known = found.setdefault((id(one.template), one.unknown), one)
        if known is not one:
            found[id(one.template), one.unknown] = known._replace(replicas=known.replicas + one.replicas)
    return list(found.values())


def _ancestors(name: str, needs: Mapping[str, Sequence[str]]) -> set[str]:
    seen: set[str] = set()
    pending = [name]
    while pending:
        others = [other for other in needs[pending.pop()] if other not in seen]
        seen.update(others)
        pending += others
    return seen


def _dependencies(task: Mapping[str, Any]) -> Iterator[str]:
    """Yield the tasks that a task waits for: `dependencies`, or the names in `depends: a.Succeeded && b`."""
    yield from map(text, sequence(task.get("dependencies")))
    written = text(task.get("depends"))
    yield from "".join(letter if letter in _WORD else " " for letter in written).split()


def _items(task: Mapping[str, Any]) -> tuple[int, bool]:
    if type(task.get("withItems")) is list:
        return len(task["withItems"]), False
    span = task.get("withSequence")
    if type(span) is dict:
        if str(span.get("count", "")).isdecimal():
            return count(int(span["count"]), 1), False
        if str(span.get("start", "0")).isdecimal() and str(span.get("end", "")).isdecimal():
            return count(abs(int(span["end"]) - int(span.get("start", 0))) + 1, 1), False
        return 1, True
    return 1, "withParam" in task


def _parallelism(template: Mapping[str, Any]) -> int:
    return count(template.get("parallelism"), 0) or _MAX_PODS


def _cut(pods: list[PodSet], limit: int) -> list[PodSet]:
    """Return the pods with the most GPUs, at most `limit` of them."""
    if sum(one.replicas for one in pods) <= limit:
        return pods
    kept: list[PodSet] = []
    for one in sorted(pods, key=_each, reverse=True):
        replicas = min(one.replicas, limit)
        limit -= replicas
        if replicas:
            kept.append(one._replace(replicas=replicas))
    return kept


def _gpus(pods: Sequence[PodSet]) -> tuple[int, int]:
    return sum(_each(one) * one.replicas for one in pods), sum(one.replicas for one in pods)


def _each(pods: PodSet) -> int:
    return sum(pod_devices(mapping(pods.template.get("spec"))).values())


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
