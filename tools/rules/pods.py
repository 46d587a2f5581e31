"""How the shipped rules find pods, as CEL: kinds of operators, and where each has its pod templates.

A branch is only evaluated for its own kinds, so that it costs nothing for others.
"""

from collections.abc import Sequence

import yaml

from reconciler import resources
from reconciler.kinds.facts import KindId
from reconciler.kinds.kind import ANY_KIND, Kinds
from reconciler.kube.schemas import Catalogue

_WIDTH = 112
_HOST = "?'hostNetwork': {0}.?hostNetwork, ?'hostPID': {0}.?hostPID, ?'hostIPC': {0}.?hostIPC"
_FRAMEWORKS = (
    "'model', 'sklearn', 'xgboost', 'tensorflow', 'pytorch', 'triton', 'onnx', 'huggingface', 'pmml', 'lightgbm'"
)

_INFERENCE_SERVICE = f"""\
[?o.spec.?predictor, ?o.spec.?transformer, ?o.spec.?explainer].map(c, dyn({{'metadata': c, 'spec': dyn({{
  'containers': dyn(c.?containers.orValue([]) + [
    {_FRAMEWORKS}, 'paddle']
    .filter(f, f in c).map(f, c[f])),
  ?'initContainers': c.?initContainers, ?'volumes': c.?volumes, {_HOST.format("c")}}})}}))
  + [?o.spec.?predictor.?workerSpec].map(s, dyn({{'spec': s}}))"""
_LLM = """\
[?o.spec.?template, ?o.spec.?worker, ?o.spec.?prefill.?template, ?o.spec.?prefill.?worker,
  ?o.spec.?router.?scheduler.?template].map(s, dyn({'spec': s}))"""
_RUNTIME = "[dyn(o.spec), ?o.spec.?workerSpec].map(s, dyn({'spec': s}))"
_WORKFLOW = f"""\
[o.kind == 'CronWorkflow' ? o.spec.?workflowSpec.orValue({{}}) : dyn(o.spec)].map(s, s.?templates.orValue([]).map(t,
  dyn({{'metadata': dyn(t.?metadata.orValue(s.?podMetadata.orValue({{}}))), 'spec': dyn({{
    'containers': dyn([?t.?container, ?t.?script] + t.?containerSet.?containers.orValue([]) + t.?sidecars.orValue([])),
    ?'initContainers': t.?initContainers, 'volumes': dyn(s.?volumes.orValue([]) + t.?volumes.orValue([])),
    {_HOST.format("s")}}})}})))[0]"""
_SPARK = """\
[o.kind == 'ScheduledSparkApplication' ? o.spec.?template.orValue({}) : dyn(o.spec)].map(s,
  [?s.?driver, ?s.?server, ?s.?executor].map(r, dyn({'metadata': dyn(r.?template.?metadata.orValue(r)), 'spec': dyn({
    'containers': dyn([dyn({'name': dyn('spark'), ?'image': r.?image.or(s.?image), ?'env': r.?env,
      ?'securityContext': r.?securityContext, ?'resources': r.?gpu.optMap(g,
        dyn({'limits': dyn({string(g.name): dyn(g.quantity)})}))})]
      + r.?sidecars.orValue([]) + r.?template.?spec.?containers.orValue([])),
    'initContainers': dyn(r.?initContainers.orValue([]) + r.?template.?spec.?initContainers.orValue([])),
    'volumes': dyn(s.?volumes.orValue([]) + r.?template.?spec.?volumes.orValue([])),
    ?'hostNetwork': r.?hostNetwork.or(r.?template.?spec.?hostNetwork),
    ?'hostPID': r.?template.?spec.?hostPID, ?'hostIPC': r.?template.?spec.?hostIPC})})))[0]"""
_NIM = """\
(o.kind == 'NIMService' ? [dyn(o.spec)] :
  o.spec.?services.orValue([]).filter(s, s.?enabled.orValue(true)).map(s, s.spec)).map(s,
  dyn({'metadata': s, 'spec': dyn({'containers': dyn([{'name': dyn('nim'), ?'resources': s.?resources,
    ?'env': s.?env, ?'command': s.?command, ?'args': s.?args,
    ?'image': s.?image.optMap(i, dyn(i.repository + ':' + i.tag))}])})}))"""
_DYNAMO = f"""\
(o.kind == 'DynamoGraphDeployment' ? [o.spec.?services.orValue({{}})].map(m, m.map(k, m[k]))[0] : [dyn(o.spec)]).map(s,
  dyn({{'metadata': dyn(s.?extraPodMetadata.orValue(s)), 'spec': [s.?extraPodSpec.orValue({{}})].map(p, dyn({{
    'containers': dyn([dyn({{'name': dyn('main'), ?'image': p.?mainContainer.?image, ?'env': s.?envs,
      ?'resources': s.?resources.?limits.?gpu.or(s.?resources.?requests.?gpu).optMap(g,
        dyn({{'limits': dyn({{string(s.resources.?limits.?gpuType.orValue('nvidia.com/gpu')): g}})}}))}}),
      dyn({{'name': dyn('main'), ?'resources': s.?resources.?limits.?custom.optMap(l, dyn({{'limits': l}}))}}),
      ?p.?mainContainer] + p.?containers.orValue([])),
    ?'initContainers': p.?initContainers, ?'volumes': p.?volumes, {_HOST.format("p")}}}))[0]}}))"""
_CLIQUES = """\
o.spec.?template.?cliques.orValue([]).map(c, dyn({'metadata': c, ?'spec': c.?spec.?podSpec}))"""
_CLIQUE = "[?o.spec.?podSpec].map(s, dyn({'spec': s}))"
_ROLES = """\
[o.kind == 'StormService' ? o.spec.?template.?spec.orValue({}) : dyn(o.spec)].map(s,
  (s.?roles.orValue([]) + s.?roleTemplates.orValue([])).filter(r, has(r.template)).map(r, r.template))[0]"""
_ADVANCED = """\
[?o.spec.?template.?jobTemplate.?spec.?template, ?o.spec.?template.?broadcastJobTemplate.?spec.?template]"""
_NODE_SET = "[?o.spec.?template] + [?o.spec.?slurmd].map(c, dyn({'spec': dyn({'containers': dyn([c])})}))"
_MINI_CLUSTER = """\
[dyn({'spec': dyn({'containers': dyn(o.spec.?containers.orValue([]).map(c, dyn({'name': dyn(c.?name.orValue('main')),
  ?'image': c.?image, ?'resources': c.?resources, ?'securityContext': c.?securityContext})))})})]"""
_LLAMA_STACK = """\
[?o.spec.?server.?containerSpec].map(c, dyn({'spec': dyn({'containers': dyn([c,
  dyn({'name': dyn('server'), ?'image': o.spec.server.?distribution.?image})]),
  ?'volumes': o.spec.server.?podOverrides.?volumes})}))"""
_MODEL = """\
[dyn({'spec': dyn({'containers': dyn([{'name': dyn('model'), ?'image': o.spec.?image, ?'args': o.spec.?args,
  'env': [o.spec.?env.orValue({})].map(m, dyn(m.map(k, {'name': dyn(k), 'value': dyn(m[k])})))[0]}])})})]"""
_VLLM = """\
[?o.spec.?deploymentConfig].map(d, dyn({'spec': dyn({'containers': dyn([{'name': dyn('vllm'),
  ?'env': o.spec.?vllmConfig.?env, ?'image': d.?image.optMap(i, dyn(i.registry + '/' + i.name)),
  ?'resources': d.?resources.?gpu.optMap(g,
    dyn({'limits': dyn({string(d.resources.?gpuType.orValue('nvidia.com/gpu')): g})}))}])})}))"""
_MACHINE = """\
[o.kind == 'VirtualMachineInstance' ? dyn(o) : o.spec.?template.orValue({})].map(m, dyn({?'metadata': m.?metadata,
  'spec': dyn({'containers': dyn([m.?spec.?domain.?devices.orValue({})].map(d, (d.?gpus.orValue([])
    + d.?hostDevices.orValue([])).map(g,
    dyn({'name': g.name, 'resources': dyn({'limits': dyn({string(g.deviceName): 1})})})))[0])})}))"""

OPERATORS = {
    "apps.kruise.io": ("AdvancedCronJob", "BroadcastJob", "CloneSet", "DaemonSet", "StatefulSet"),
    "apps.nvidia.com": ("NIMPipeline", "NIMService"),
    "argoproj.io": ("ClusterWorkflowTemplate", "CronWorkflow", "Rollout", "Workflow", "WorkflowTemplate"),
    "batch.volcano.sh": ("Job",),
    "flux-framework.org": ("MiniCluster",),
    "grove.io": ("PodClique", "PodCliqueSet"),
    "kaito.sh": ("InferenceSet", "RAGEngine", "Workspace"),
    "kubeai.org": ("Model",),
    "kubevirt.io": ("VirtualMachine", "VirtualMachineInstance", "VirtualMachineInstanceReplicaSet"),
    "llamastack.io": ("LlamaStackDistribution",),
    "machinelearning.seldon.io": ("SeldonDeployment",),
    "nvidia.com": ("DynamoComponentDeployment", "DynamoGraphDeployment"),
    "orchestration.aibrix.ai": ("RayClusterFleet", "RayClusterReplicaSet", "RoleSet", "StormService"),
    "production-stack.vllm.ai": ("VLLMRuntime",),
    "serving.knative.dev": ("Service",),
    "serving.kserve.io": (
        *("ClusterServingRuntime", "InferenceService", "LLMInferenceService", "LLMInferenceServiceConfig"),
        "ServingRuntime",
    ),
    "slinky.slurm.net": ("NodeSet",),
    "sparkoperator.k8s.io": ("ScheduledSparkApplication", "SparkApplication", "SparkConnect"),
    "workloads.x-k8s.io": ("RoleBasedGroup",),
}
"""The kinds that the rules judge besides those of `_CORE`, by group."""
_CORE = (
    ("", "apps", "batch", "jobset.x-k8s.io", "kubeflow.org", "leaderworkerset.x-k8s.io", "ray.io",
     "trainer.kubeflow.org", "workload.codeflare.dev"),
    ("pods", "jobs", "cronjobs", "jobsets", "pytorchjobs", "tfjobs", "mpijobs", "xgboostjobs", "paddlejobs", "jaxjobs",
     "trainjobs", "rayjobs", "rayclusters", "appwrappers", "deployments", "statefulsets", "daemonsets",
     "leaderworkersets", "rayservices", "replicasets", "replicationcontrollers", "notebooks", "raycronjobs",
     "trainingruntimes", "clustertrainingruntimes"),
)  # fmt: skip
"""Groups of Kubernetes, Kubeflow, KubeRay, JobSet, LeaderWorkerSet and AppWrapper, and the names of kinds in URLs."""

_UNREAD = frozenset({"RAGEngine", "SeldonDeployment", "Workspace"})
"""Their pods cannot be found: two have no pod template in a `spec`, one has lists in lists, which CEL cannot join."""
_MACHINES = frozenset({"VirtualMachine", "VirtualMachineInstance", "VirtualMachineInstanceReplicaSet"})
"""Devices are all that they have of a pod."""
_NO_PODS = frozenset({"ResourceClaim", "ResourceClaimTemplate", "RuntimeClass"})
"""They add devices to the pods of other objects."""
_TEMPLATES = frozenset(
    {
        "ClusterServingRuntime",
        "ClusterWorkflowTemplate",
        "LLMInferenceServiceConfig",
        "ServingRuntime",
        "WorkflowTemplate",
        *("trainingruntimes", "clustertrainingruntimes"),
    }
)
"""They run no pods, but others name them."""
_COMPLETED = frozenset(
    {
        *(
            "DynamoComponentDeployment",
            "DynamoGraphDeployment",
            "InferenceService",
            "InferenceSet",
            "LLMInferenceService",
        ),
        *("LLMInferenceServiceConfig", "LlamaStackDistribution", "MiniCluster", "Model", "NIMPipeline", "NIMService"),
        *("NodeSet", "ScheduledSparkApplication", "SparkApplication", "SparkConnect", "VLLMRuntime", "trainjobs"),
    }
)
"""Their controllers add volumes to the pods, such as shared memory."""

_SETS = {"completed": _COMPLETED, "machines": _MACHINES, "templates": _TEMPLATES, "unread": _UNREAD}
"""What a rule may leave out, by the names that sources of rules use."""


def resource_rules(without: Sequence[str]) -> str:
    """Return the items of `resourceRules` about the kinds that a rule judges: all of them without some sets."""
    left_out = frozenset[str]().union(*(_SETS[name] for name in without))
    groups, names = _CORE
    judged = {group: [kind for kind in kinds if kind not in left_out] for group, kinds in OPERATORS.items()}
    known = Catalogue(resources)
    served = [known.resource(group, kind) for group, kinds in judged.items() for kind in kinds]
    plurals = dict.fromkeys(one.plural for one in served if one is not None)
    return _resource_rule([group or '""' for group in groups], [one for one in names if one not in left_out]) + (
        _resource_rule([group for group, kinds in judged.items() if kinds], [*plurals])
    )


def unjudged(kinds: Kinds) -> list[KindId]:
    """Return the kinds with pods that no rule finds."""
    entries = yaml.safe_load(resource_rules(["unread"]))
    judged = {(group, name) for one in entries for group in one["apiGroups"] for name in one["resources"]}
    known = Catalogue(resources)
    with_pods = [row for row in kinds.values() if row.pods.read or row.pods.components or row.pods.provides]
    served = {row.id: known.resource(*row.id) for row in with_pods if row.kind not in {ANY_KIND, *_NO_PODS}}
    return [kind for kind, one in served.items() if one is None or (kind[0], one.plural) not in judged]


def _resource_rule(groups: Sequence[str], names: Sequence[str]) -> str:
    return (
        f"- apiGroups: [{joined(groups, ', ', ' ' * 14)}]\n"
        '  apiVersions: ["*"]\n'
        "  operations: [CREATE, UPDATE]\n"
        f"  resources: [{joined(names, ', ', ' ' * 14)}]\n"
    )


def joined(items: Sequence[str], separator: str, indent: str) -> str:
    """Return items in lines that are not too long."""
    lines = [""]
    for index, item in enumerate(items):
        text = item + (separator if index < len(items) - 1 else "")
        if len(indent) + len(lines[-1]) + len(text) > _WIDTH and lines[-1]:
            lines[-1] = lines[-1].rstrip()
            lines.append("")
        lines[-1] += text
    return f"\n{indent}".join(lines)


BRANCHES: tuple[tuple[tuple[str, ...], str], ...] = (
    (("InferenceService",), _INFERENCE_SERVICE),
    (("LLMInferenceService", "LLMInferenceServiceConfig"), _LLM),
    (("ServingRuntime", "ClusterServingRuntime"), _RUNTIME),
    (("Workflow", "CronWorkflow", "WorkflowTemplate", "ClusterWorkflowTemplate"), _WORKFLOW),
    (("SparkApplication", "ScheduledSparkApplication", "SparkConnect"), _SPARK),
    (("NIMService", "NIMPipeline"), _NIM),
    (("DynamoGraphDeployment", "DynamoComponentDeployment"), _DYNAMO),
    (("PodCliqueSet",), _CLIQUES),
    (("PodClique",), _CLIQUE),
    (("RoleSet", "StormService", "RoleBasedGroup"), _ROLES),
    (("AdvancedCronJob",), _ADVANCED),
    (("NodeSet",), _NODE_SET),
    (("MiniCluster",), _MINI_CLUSTER),
    (("LlamaStackDistribution",), _LLAMA_STACK),
    (("Model",), _MODEL),
    (("VLLMRuntime",), _VLLM),
    (("InferenceSet",), "[?o.spec.?template.?inference.?template]"),
    (("VirtualMachine", "VirtualMachineInstance", "VirtualMachineInstanceReplicaSet"), _MACHINE),
)
"""Which kinds have their pod templates where. The number of their pods is not counted."""


_ROLES_OF_ALL = """\
variables.objects.map(o,
  o.kind == 'Pod' ? [{'pods': dyn(1), 'template': dyn(o)}] :
  has(o.spec.template) && has(o.spec.template.spec) && has(o.spec.template.spec.containers) && o.kind != 'NodeSet' ?
    [{'pods': dyn([o.spec.?parallelism.orValue(o.spec.?replicas.orValue(1)),
      o.spec.?completions.orValue(1000000)].min()), 'template': o.spec.template}] :
  o.kind == 'CronJob' ? [o.spec.jobTemplate.spec].map(s,
    {'pods': dyn([s.?parallelism.orValue(1), s.?completions.orValue(s.?parallelism.orValue(1))].min()),
     'template': s.template}) :
  o.kind == 'JobSet' ? o.spec.replicatedJobs.map(j,
    {'pods': dyn(j.?replicas.orValue(1) * [j.template.spec.?parallelism.orValue(1),
      j.template.spec.?completions.orValue(j.template.spec.?parallelism.orValue(1))].min()),
     'template': j.template.spec.template}) :
  o.apiVersion.startsWith('batch.volcano.sh/') ? o.spec.?tasks.orValue([]).map(t,
    {'pods': dyn(t.?replicas.orValue(1)), 'template': t.template}) :
  o.kind in ['TrainingRuntime', 'ClusterTrainingRuntime'] ?
    o.spec.template.spec.?replicatedJobs.orValue([]).map(j, {'pods': dyn(0), 'template': j.template.spec.template}) :
  o.kind in ['RayCluster', 'RayJob', 'RayService', 'RayCronJob', 'RayClusterFleet', 'RayClusterReplicaSet'] ?
    (o.kind == 'RayCluster' ? o.?spec : o.kind == 'RayJob' ? o.spec.?rayClusterSpec :
      o.kind == 'RayCronJob' ? o.spec.?jobTemplate.?rayClusterSpec :
      o.kind == 'RayService' ? o.spec.?rayClusterConfig : o.spec.?template.?spec)
      .optMap(s, [{'pods': dyn(1), 'template': s.headGroupSpec.template}]
        + s.?workerGroupSpecs.orValue([]).map(w,
          {'pods': dyn(w.?suspend.orValue(false) ? 0 : w.?numOfHosts.orValue(1) * [w.?maxReplicas.orValue(1000000),
            [w.?replicas.orValue(0), w.?minReplicas.orValue(0)].max()].min()), 'template': w.template}))
      .orValue([]) :
  o.kind == 'LeaderWorkerSet' ? [o.spec.leaderWorkerTemplate].map(l,
    {'pods': dyn(o.spec.?replicas.orValue(1) * (l.?size.orValue(1) - (has(l.leaderTemplate) ? 1 : 0))),
     'template': l.workerTemplate})
    + o.spec.leaderWorkerTemplate.?leaderTemplate.optMap(l,
      [{'pods': dyn(o.spec.?replicas.orValue(1)), 'template': l}]).orValue([]) :
  o.kind == 'TrainJob' ? o.spec.?trainer.optMap(t,
    [{'pods': dyn(t.?numNodes.orValue(1)), 'template': dyn({'spec': dyn({'containers': dyn([
      {'name': dyn('trainer'), ?'image': t.?image, ?'resources': t.?resourcesPerNode,
       ?'env': t.?env, ?'command': t.?command, ?'args': t.?args}])})})}]).orValue([])
    + o.spec.?podTemplateOverrides.orValue([]).map(p, {'pods': dyn(0), 'template': p})
    + o.spec.?podSpecOverrides.orValue([]).map(p, {'pods': dyn(0), 'template': dyn({'spec': dyn(p)})}) :
  o.apiVersion.startsWith('kubeflow.org/') && o.kind.endsWith('Job') ?
    o.spec.filter(k, k.endsWith('ReplicaSpecs')).map(k, o.spec[k].map(r,
      {'pods': dyn(o.spec[k][r].?replicas.orValue(1)), 'template': o.spec[k][r].template}))[0] :
  o.kind in [
    @KINDS@] ? (
@BRANCHES@
    ).map(t, {'pods': dyn(0), 'template': t}) : [])
+ variables.objects.filter(o, o.kind == 'TrainJob').map(o, o.spec.?runtimePatches.orValue([]))[?0].orValue([]).map(p,
  p.?trainingRuntimeSpec.?template.?spec.?replicatedJobs.orValue([])
    .map(j, {'pods': dyn(0), 'template': j.?template.?spec.?template.orValue({})}))
"""


def roles() -> str:
    """Return the expression of the variable `roles`: the pod templates of each object, and how many pods each has."""
    kinds = [f"'{kind}'" for names, _ in BRANCHES for kind in names]
    lines = [f"o.kind in [{', '.join(map(repr, names))}] ?\n{text} :" for names, text in BRANCHES[:-1]]
    branches = "\n".join([*lines, BRANCHES[-1][1]])
    indented = "\n".join(f"    {line}" for line in branches.split("\n"))
    return _ROLES_OF_ALL.replace("@KINDS@", joined(kinds, ", ", "    ")).replace("@BRANCHES@", indented)
