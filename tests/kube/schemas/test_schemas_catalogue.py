"""The catalogue: what it refuses, in which words and where; what it answers about kinds and fields."""

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import jsonschema_rs
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler import resources
from reconciler.kube.objects import FieldPath, SourceRef
from reconciler.kube.problems import Problem, Severity
from reconciler.kube.schemas import Catalogue
from reconciler.kube.schemas.catalogue import ADD_DEFINITION
from reconciler.kube.yaml import Document, read
from tests import sizes
from tests.cluster.corpus import cases, crossings, specimens
from tests.cluster.mutations import mutations
from tests.cluster.parts import KUBERNETES

CATALOGUE = Catalogue(resources)
PLACE = SourceRef(path="jobs/a.yaml", line=1, column=1)
SPECIMENS = {
    f"{body['apiVersion']}/{body['kind']}": body
    for path in sorted((Path(__file__).parents[2] / "cluster" / "specimens").glob("*.yaml"))
    for body in yaml.load_all(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
}
_SERVING_FILE = Path(__file__).parents[2] / "cluster" / "serving.yaml"
SERVING = list(yaml.load_all(_SERVING_FILE.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
JOB = """\
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  template:
    spec:
      restartPolicy: Never
      containers:
        - name: trainer
          image: train:1
"""


def problems(text: str, catalogue: Catalogue = CATALOGUE) -> list[str]:
    """Return the problems of the documents in `text`, as they are shown."""
    reading = read("jobs/a.yaml", text.encode())
    assert not reading.problems, reading.problems
    return [str(problem) for document in reading.documents for problem in catalogue.validate(document)]


def body_problems(catalogue: Catalogue, body: dict[str, Any]) -> tuple[Problem, ...]:
    return tuple(violation.at(PLACE) for violation in catalogue.violations(body))


def test_good_object_has_no_problems() -> None:
    assert problems(JOB) == []


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "          image: train:1\n",
            "          image: train:1\n          imagePullPolcy: Always\n",
            (
                "jobs/a.yaml:11:11: spec.template.spec.containers[0].imagePullPolcy: unknown field; "
                "did you mean imagePullPolicy? [schema.unknown-field]"
            ),
        ),
        (
            "          image: train:1\n",
            "          image: train:1\n          nodeSelector: {a: b}\n",
            (
                "jobs/a.yaml:11:11: spec.template.spec.containers[0].nodeSelector: unknown field; "
                "move it to spec.template.spec [schema.unknown-field]"
            ),
        ),
        (
            "  template:",
            '  parallelism: "2"\n  template:',
            (
                "jobs/a.yaml:5:16: spec.parallelism: must be an integer, not a string "
                '("2"); remove the quotes: 2 [schema.wrong-type]'
            ),
        ),
        (
            "  template:",
            f"  parallelism: {'9' * 400}\n  template:",
            (
                "jobs/a.yaml:5:16: spec.parallelism: must be an integer, not a string "
                '("' + "9" * 58 + "…); write an integer [schema.wrong-type]"
            ),
        ),
        (
            "          image: train:1\n",
            "          image: train:1\n          env: [{name: A, value: 8}]\n",
            (
                "jobs/a.yaml:11:34: spec.template.spec.containers[0].env[0].value: must be a string, "
                'not a number (8); quote it: "8" [schema.wrong-type]'
            ),
        ),
        (
            "restartPolicy: Never",
            "restartPolicy: never",
            (
                'jobs/a.yaml:7:22: spec.template.spec.restartPolicy: "never" is not allowed; '
                "did you mean Never? [schema.not-allowed]"
            ),
        ),
        (
            "restartPolicy: Never",
            "restartPolicy: Always",
            (
                "jobs/a.yaml:7:22: spec.template.spec.restartPolicy: Always is not allowed here; "
                "use Never or OnFailure [schema.not-allowed]"
            ),
        ),
        (
            "          image: train:1\n",
            "          image: train:1\n          resources: {limits: {memory: 64 GB}}\n",
            (
                'jobs/a.yaml:11:40: spec.template.spec.containers[0].resources.limits.memory: "64 GB" is not a quantity; '
                "write 64G [schema.bad-quantity]"
            ),
        ),
        (
            "          image: train:1\n",
            (
                "          image: train:1\n"
                "          resources: {limits: {nvidia.com/gpu: 8}, requests: {nvidia.com/gpu: 4}}\n"
            ),
            (
                'jobs/a.yaml:11:79: spec.template.spec.containers[0].resources.requests["nvidia.com/gpu"]: '
                "request 4 and limit 8 of nvidia.com/gpu differ; set both to the same value; nvidia.com/gpu cannot be overcommitted "
                "[schema.request-differs-from-limit]"
            ),
        ),
        (
            "          image: train:1\n",
            "          image: train:1\n          volumeMounts: [{name: shm, mountPath: /dev/shm}]\n",
            (
                "jobs/a.yaml:11:33: spec.template.spec.containers[0].volumeMounts[0].name: volume shm not found in the pod; "
                "add it under volumes [schema.unknown-volume]"
            ),
        ),
        (
            "  template:",
            "  completionMode: Indexed\n  parallelism: 2\n  template:",
            "jobs/a.yaml:4:1: spec.completions: is required; add it [schema.missing-field]",
        ),
        (
            "          image: train:1\n",
            "          image: train:1\n          resources: {limits: {gpu: 8}}\n",
            (
                "jobs/a.yaml:11:32: spec.template.spec.containers[0].resources.limits.gpu: this key is not allowed"
                "; use cpu, memory, ephemeral-storage or domain/name, as in nvidia.com/gpu [schema.bad-key]"
            ),
        ),
        (
            "name: train}",
            "name: Train_1}",
            (
                "jobs/a.yaml:3:18: metadata.name: \"Train_1\" is not a valid name; use lowercase letters, digits, '-' "
                "and '.', starting and ending with a letter or digit, for example train-1 [schema.bad-name]"
            ),
        ),
        (
            "kind: Job",
            "kind: Jbo",
            'jobs/a.yaml:2:7: kind: batch/v1 has no kind "Jbo"; did you mean Job? [schema.unknown-kind]',
        ),
        (
            "kind: Job",
            "kind: Deployment",
            (
                'jobs/a.yaml:2:7: kind: batch/v1 has no kind "Deployment"; Deployment is in apiVersion apps/v1 '
                "[schema.unknown-kind]"
            ),
        ),
        (
            "batch/v1",
            "batch/v1beta1",
            "jobs/a.yaml:1:13: apiVersion: Job is not available in batch/v1beta1; use batch/v1 [schema.unknown-version]",
        ),
    ],
)
def test_words_and_places(old: str, new: str, expected: str) -> None:
    """Every problem has its exact place, says what is wrong and what to do."""
    assert old in JOB
    assert problems(JOB.replace(old, new, 1)) == [expected]


def test_ambiguous_scalars_are_errors_where_a_string_is_required() -> None:
    text = 'apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  a: no\n  b: 12:30\n  c: 012\n  d: "no"\n'
    assert problems(text) == [
        f"jobs/a.yaml:{line}:6: data.{key}: must be a string, but YAML parsers disagree about the plain scalar "
        f'{value}; quote it: "{value}" [yaml.ambiguous-scalar]'
        for line, key, value in ((6, "a", "no"), (7, "b", "12:30"), (8, "c", "012"))
    ]


def test_octal_modes_are_fine_where_a_number_is_wanted() -> None:
    volumes = "{name: s, secret: {secretName: s, defaultMode: 0400}}, {name: t, emptyDir: {mode: 01777}}"
    assert problems(JOB.replace("      containers:", f"      volumes: [{volumes}]\n      containers:")) == []


def test_a_wrong_number_is_quoted_as_it_is_written() -> None:
    text = JOB + "          env: [{name: A, value: 0x1F}]\n"
    assert problems(text)[0].endswith('quote it: "0x1F" [schema.wrong-type]')


def test_unknown_group_is_a_warning_and_a_definition_in_the_repository_teaches_it() -> None:
    widget = "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: a}\nspec: {sise: 3}\n"
    document = read("a.yaml", widget.encode()).documents[0]
    (unknown,) = CATALOGUE.validate(document)
    assert (unknown.rule, unknown.severity) == ("schema.unknown-group", Severity.WARNING)
    definition = yaml.safe_dump(SPECIMENS["apiextensions.k8s.io/v1/CustomResourceDefinition"])
    taught = CATALOGUE.with_crds(read("crd.yaml", definition.encode()).documents)
    (problem,) = taught.validate(document)
    assert str(problem) == "a.yaml:4:8: spec.sise: unknown field; did you mean size? [schema.unknown-field]"
    assert taught.is_namespaced("example.com", "Widget") is True
    assert CATALOGUE.is_namespaced("example.com", "Widget") is None


def test_a_group_of_several_projects_has_kinds_that_nobody_ships() -> None:
    """Argo CD and Argo Rollouts share the group of Argo Workflows, and a notebook that of the training operator."""
    known = (
        ("argoproj.io/v1alpha1", "Rollout"),
        ("kubeflow.org/v1", "Notebook"),
        ("argoproj.io/v1alpha1", "Application"),
    )
    for api_version, kind in known:
        (problem,) = body_problems(
            CATALOGUE, {"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}, "spec": {}}
        )
        assert (problem.rule, problem.severity) == ("schema.unknown-kind", Severity.WARNING)
        unnamed, wrong = body_problems(CATALOGUE, {"apiVersion": api_version, "kind": kind, "metadata": {}})
        assert (unnamed.severity, wrong.field) == (Severity.WARNING, "metadata.name")
    for kind in ("PytorchJobs", "MPJob"):
        (problem,) = body_problems(
            CATALOGUE, {"apiVersion": "kubeflow.org/v1", "kind": kind, "metadata": {"name": "a"}}
        )
        assert problem.severity is Severity.ERROR
        assert "did you mean" in problem.hint


def test_a_notebook_is_judged_by_the_definition_of_the_repository() -> None:
    """No module publishes it; without it, a warning says that only metadata is validated."""
    notebook = {"apiVersion": "kubeflow.org/v1", "kind": "Notebook", "metadata": {"name": "a", "namespace": "b"}}
    definition = copy.deepcopy(SPECIMENS["apiextensions.k8s.io/v1/CustomResourceDefinition"])
    definition["metadata"]["name"] = "notebooks.kubeflow.org"
    definition["spec"] |= {
        "group": "kubeflow.org",
        "names": {"kind": "Notebook", "plural": "notebooks"},
        "scope": "Namespaced",
    }
    known = CATALOGUE.with_definitions([definition])
    found = body_problems(known, {**notebook, "apiVersion": "kubeflow.org/v1", "bogus": 1})
    assert [one.severity for one in found] == [Severity.ERROR] * len(found)
    assert "bogus" in {one.field for one in found}
    assert known.served("kubeflow.org", "PyTorchJob") == CATALOGUE.served("kubeflow.org", "PyTorchJob")


def test_a_definition_in_the_cluster_alone_decides_instead_of_the_shipped_one() -> None:
    """The cluster has Trainer 2.0, whose TrainJob has other fields: the repository's definition, or nobody, judges."""
    job = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "a", "namespace": "b"},
        "spec": {"runtimeRef": {"name": "torch"}, "podSpecOverrides": [{"targetJobs": [{"name": "node"}]}]},
    }
    (unknown,) = body_problems(CATALOGUE, job)
    assert (unknown.rule, unknown.severity) == ("schema.unknown-field", Severity.WARNING)
    elsewhere = CATALOGUE.with_external(["trainjobs.trainer.kubeflow.org"])
    (problem,) = body_problems(elsewhere, job)
    assert (problem.rule, problem.severity) == ("schema.external", Severity.WARNING)
    assert elsewhere.stored(job) == job
    wrong = body_problems(elsewhere, job | {"metadata": {"name": "A"}})
    assert [one.rule for one in wrong] == ["schema.external", "schema.bad-name"]
    definition = copy.deepcopy(SPECIMENS["apiextensions.k8s.io/v1/CustomResourceDefinition"])
    definition["metadata"]["name"] = "trainjobs.trainer.kubeflow.org"
    definition["spec"]["group"] = "trainer.kubeflow.org"
    definition["spec"]["names"] = {"kind": "TrainJob", "plural": "trainjobs", "singular": "trainjob"}
    ours = elsewhere.with_definitions([definition])
    (problem,) = body_problems(ours, job)
    assert problem.rule == "schema.unknown-version"
    assert body_problems(ours, job | {"apiVersion": "trainer.kubeflow.org/v1", "spec": {"size": 3}}) == ()


QUEUE = """\
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: a}
spec:
"""


@pytest.mark.parametrize(
    ("spec", "field", "hint"),
    [
        ("  inventedLater: {mode: Fast}\n", "spec.inventedLater", "known fields: "),
        ("  cohortNam: all\n", "spec.cohortNam", "did you mean cohortName?; "),
        ("  borrowingLimit: 1\n", "spec.borrowingLimit", "move it to spec.resourceGroups[].flavors[].resources[]; "),
    ],
)
def test_a_field_of_a_newer_operator_is_a_warning(spec: str, field: str, hint: str) -> None:
    """F-153: a cluster may run another Kueue than the one that ships, and a server without the field drops it."""
    (document,) = read("queues/a.yaml", (QUEUE + spec).encode()).documents
    (problem,) = CATALOGUE.validate(document)
    version = CATALOGUE.archive.versions["kueue"]
    assert (problem.rule, problem.severity) == ("schema.unknown-field", Severity.WARNING)
    assert (problem.place.line, problem.field) == (5, field)
    words = f"unknown field: Kueue {version}, which this release knows, has none, and a server without it drops it"
    assert problem.message == f"{words} silently"
    assert problem.hint.startswith(hint)
    assert problem.hint.endswith("run `reconciler observe` to validate by the definitions of the cluster")


LATER = [
    (
        "kueue.x-k8s.io/v1beta2",
        "ClusterQueue",
        {"concurrentAdmissionPolicy": {"migration": {"mode": "RetainFirstAdmission"}}},
    ),
    ("ray.io/v1", "RayCluster", {"historyServerOptions": {"enabled": True}, "networkPolicy": {"mode": "DenyAll"}}),
    ("ray.io/v1", "RayCluster", {"gcsFaultToleranceOptions": {"backend": "redis", "redisAddress": "redis:6379"}}),
    ("ray.io/v1", "RayCronJob", {"timeZone": "Europe/Helsinki"}),
]


@pytest.mark.parametrize(
    ("api_version", "kind", "spec"), LATER, ids=lambda value: value if isinstance(value, str) else next(iter(value))
)
def test_fields_of_the_newest_operators_are_no_errors(api_version: str, kind: str, spec: dict[str, Any]) -> None:
    """F-153: Kueue 0.19 and KubeRay 1.7 have these fields, whatever version ships."""
    body = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}, "spec": spec}
    found = [one for one in CATALOGUE.violations(body) if one.path[1:2] and one.path[1] in spec]
    assert [one for one in found if one.severity is Severity.ERROR] == []


def test_other_errors_beside_a_field_of_a_newer_operator_stay_errors() -> None:
    """So do those that are found only in an object with the right types: names, keys of lists, rules."""
    flavors = (
        "[{name: f, resources: [{name: cpu, nominalQuota: 1}]}, {name: f, resources: [{name: cpu, nominalQuota: 2}]}]"
    )
    group = f"    - {{coveredResources: [cpu], flavors: {flavors}}}\n"
    newer = "  inventedLater: 1\n"
    (document,) = read("a.yaml", (QUEUE.replace("{name: a}", "{name: A}") + newer).encode()).documents
    assert [(one.rule, one.severity) for one in CATALOGUE.validate(document)] == [
        ("schema.unknown-field", Severity.WARNING),
        ("schema.bad-name", Severity.ERROR),
    ]
    found = problems(f"{QUEUE}{newer}  resourceGroups:\n{group}")
    assert any("[schema.duplicate-item]" in one for one in found)
    assert any("[schema.wrong-type]" in one for one in problems(f"{QUEUE}{newer}  cohortName: [a]\n"))


def test_an_unknown_field_of_kubernetes_and_of_our_own_kinds_is_an_error() -> None:
    for text in (
        JOB.replace("  template:", "  templat: 1\n  template:"),
        "apiVersion: torchrun.ai/v1alpha1\nkind: TorchrunQueue\nmetadata: {name: q}\nspec: {qota: 1}\n",
    ):
        (document,) = read("a.yaml", text.encode()).documents
        found = [one for one in CATALOGUE.validate(document) if one.rule == "schema.unknown-field"]
        assert [one.severity for one in found] == [Severity.ERROR]


def test_both_mpi_operators_are_known() -> None:
    """The training operator has v1 of MPIJob, the MPI operator v2beta1; a cluster has one of the two."""
    served = CATALOGUE.served("kubeflow.org", "MPIJob")
    assert served is not None
    assert served.versions == ("v1", "v2beta1")


@pytest.mark.parametrize("body", SERVING, ids=lambda body: str(body["kind"]))
def test_good_objects_of_serving_and_workflows_are_accepted(body: dict[str, Any]) -> None:
    assert body_problems(CATALOGUE, body) == ()
    broken = {**body, "spec": {**body["spec"], "unheardOf": 1}}
    (unknown,) = body_problems(CATALOGUE, broken)
    assert (unknown.rule, unknown.severity) == ("schema.unknown-field", Severity.WARNING)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("spec: {}", "a.yaml:1:1: metadata: is required; add it [schema.missing-field]"),
        ("metadata: 3", "a.yaml:3:11: metadata: must be a mapping"),
        ("metadata: {labels: {}}", "a.yaml:3:1: metadata.name: is required; add it"),
        ("metadata: {name: [1]}", "a.yaml:3:18: metadata.name: must be a string"),
        ("metadata: {name: no}", 'quote it: "no"'),
        ("metadata: {name: ../x}", "[schema.bad-name]"),
        ("metadata: {name: a, namespace: [1]}", "a.yaml:3:32: metadata.namespace: must be a string"),
        ("metadata: {name: a, labels: [x]}", "a.yaml:3:29: metadata.labels: must be a mapping"),
        ("metadata: {name: a, labls: {}}", "did you mean labels?"),
    ],
)
def test_metadata_of_unknown_kinds_is_judged(body: str, expected: str) -> None:
    """What is owned, named and written to a file must have a name, whatever else is unknown about it."""
    document = read("a.yaml", f"apiVersion: example.com/v1\nkind: Widget\n{body}\n".encode()).documents[0]
    unknown, wrong = CATALOGUE.validate(document)
    assert unknown.rule == "schema.unknown-group"
    assert expected in str(wrong)
    assert wrong.severity is Severity.ERROR


def test_a_known_kind_under_a_misspelt_group() -> None:
    """Passed over as unknown it would be a Job that nobody counts."""
    document = read("a.yaml", b"apiVersion: bacth/v1\nkind: Job\nmetadata: {name: a}\n").documents[0]
    (problem,) = CATALOGUE.validate(document)
    assert problem.severity is Severity.ERROR
    assert str(problem).endswith('unknown API group "bacth"; did you mean batch/v1? [schema.unknown-kind]')


def test_a_broken_definition_teaches_nothing() -> None:
    broken = copy.deepcopy(SPECIMENS["apiextensions.k8s.io/v1/CustomResourceDefinition"])
    broken["spec"]["versions"] = "v1"
    taught = CATALOGUE.with_crds(read("crd.yaml", yaml.safe_dump(broken).encode()).documents)
    assert taught.is_namespaced("example.com", "Widget") is None


@settings(max_examples=100, deadline=None)
@given(
    key=st.sampled_from(
        [
            *("type", "properties", "items", "additionalProperties", "required", "enum", "pattern", "minimum", "anyOf"),
            *("x-kubernetes-list-type", "x-kubernetes-list-map-keys", "nullable", "default", "format", "$ref", "not"),
        ]
    ),
    value=JSON,
)
def test_any_definition_is_used_or_ignored_never_an_exception(key: str, value: Any) -> None:
    """Property: definitions come from the repository; whatever they hold, documents get problems, not exceptions."""
    odd = copy.deepcopy(SPECIMENS["apiextensions.k8s.io/v1/CustomResourceDefinition"])
    spec = odd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["properties"]["list"] = {"type": "array", "x-kubernetes-list-type": "map", key: value}
    spec[key] = value
    document = Document(source=PLACE, data=odd, text=b"")
    taught = CATALOGUE.with_crds([document])
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": {"list": [{}, {}]}}
    assert isinstance(body_problems(taught, widget), tuple)


def test_a_definition_with_a_pattern_we_cannot_use_is_told() -> None:
    odd = copy.deepcopy(SPECIMENS["apiextensions.k8s.io/v1/CustomResourceDefinition"])
    spec = odd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    spec["name"] = {"type": "string", "pattern": "(?=a)("}
    taught = CATALOGUE.with_crds(read("crd.yaml", yaml.safe_dump(odd).encode()).documents)
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}}
    (problem,) = body_problems(taught, widget)
    assert (problem.rule, problem.severity) == ("schema.unusable", Severity.WARNING)


def test_secrets_are_never_shown() -> None:
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "data": {"k": "hunter2!", "n": 42424242}}
    shown = " ".join(str(problem) for problem in body_problems(CATALOGUE, body))
    assert "data.k" in shown
    assert "data.n" in shown
    assert "hunter2" not in shown
    assert "42424242" not in shown


@pytest.mark.parametrize("body", [{}, {"apiVersion": 1, "kind": []}, {"kind": "Job"}, {"apiVersion": "v1"}])
def test_without_kind(body: dict[str, Any]) -> None:
    found = body_problems(CATALOGUE, body)
    assert found
    assert {problem.field for problem in found} <= {"apiVersion", "kind"}


def test_keys_of_lists_and_quantities() -> None:
    pod = ("spec", "template", "spec")
    assert CATALOGUE.list_keys("batch", "Job", (*pod, "containers")) == ("name",)
    assert CATALOGUE.list_keys("", "Service", ("spec", "ports")) == ("port", "protocol")
    assert CATALOGUE.list_keys("batch", "Job", (*pod, "containers", 0, "args")) is None
    limits = (*pod, "containers", 0, "resources", "limits", "memory")
    assert CATALOGUE.is_quantity("batch", "Job", limits)
    assert not CATALOGUE.is_quantity("batch", "Job", ("spec", "parallelism"))
    quota = ("spec", "resourceGroups", 0, "flavors", 0, "resources", 0, "nominalQuota")
    assert CATALOGUE.is_quantity("kueue.x-k8s.io", "ClusterQueue", quota)
    assert CATALOGUE.list_keys("gpureconciler.io", "NodeInventory", ("spec", "nodes")) == ("name",)


def test_scope() -> None:
    assert CATALOGUE.is_namespaced("batch", "Job") is True
    assert CATALOGUE.is_namespaced("scheduling.run.ai", "Queue") is False
    assert CATALOGUE.is_namespaced("", "Namespace") is False
    (problem,) = body_problems(
        CATALOGUE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a", "namespace": "b"}}
    )
    assert (problem.rule, problem.severity) == ("schema.namespace", Severity.WARNING)


def test_own_kinds_are_judged_and_printed() -> None:
    text = (
        "apiVersion: gpureconciler.io/v1alpha1\nkind: ReconcilerConfig\nspec:\n  clusters: [{name: a}]\n  budget: {}\n"
    )
    assert problems(text) == [
        "jobs/a.yaml:5:3: spec.budget: unknown field; did you mean budgets? [schema.unknown-field]"
    ]
    schema = CATALOGUE.json_schema("ReconcilerConfig")
    assert schema is not None
    assert schema["properties"]["spec"]["properties"]["evidence"]["default"] == "evidence"
    assert CATALOGUE.json_schema("Nothing") is None
    assert {kind.group for kind in CATALOGUE.kinds()} >= {"gpureconciler.io", "torchrun.ai", "kaiwo.silogen.ai"}


def test_every_field_of_our_own_kinds_is_described() -> None:
    for kind in ("ReconcilerConfig", "NodeInventory", "PolicyException"):
        schema = CATALOGUE.json_schema(kind)
        assert schema is not None
        jsonschema.Draft202012Validator.check_schema(schema)
        missing = list(_undescribed(schema["properties"]["spec"], "spec"))
        assert not missing


def _undescribed(schema: dict[str, Any], path: str) -> Iterator[str]:
    if not schema.get("description"):
        yield path
    for name, child in schema.get("properties", {}).items():
        yield from _undescribed(child, f"{path}.{name}")


def test_shipped_schemas_are_sound_and_small() -> None:
    """Every schema is valid, every sixth for another engine too; the archive stays far below 3 MB and says its versions."""
    no_formats = jsonschema.FormatChecker(())  # Python's regular expressions are another dialect
    parts: dict[str, dict[str, Any]] = {}  # schemas share most of their definitions
    for kind in CATALOGUE.kinds():
        schema = CATALOGUE.json_schema(f"{kind.kind}.{kind.group}" if kind.group else kind.kind)
        assert schema is not None
        definitions = schema.get("$defs", {})
        root = {name: value for name, value in schema.items() if name != "$defs"}
        parts |= {json.dumps(part, sort_keys=True): part for part in (root, *definitions.values())}
    for number, part in enumerate(parts.values()):
        jsonschema_rs.meta.validate(part)
        if number % 6 == 0:  # the other engine takes 20 seconds for all of them
            jsonschema.Draft202012Validator.check_schema(part, format_checker=no_formats)
    assert len(resources.read("schemas/kubernetes/kinds.zip")) < 1_000_000
    assert json.loads(resources.read("schemas/kubernetes/versions.json"))["kubernetes"] == KUBERNETES


@pytest.mark.parametrize("name", ["v1/Service", "kueue.x-k8s.io/v1beta2/ClusterQueue", "batch/v1/CronJob"])
def test_an_independent_engine_agrees(name: str) -> None:
    """The reference implementation of JSON Schema refuses exactly what the fast engine refuses."""
    good = SPECIMENS[name]
    schema = CATALOGUE.json_schema(f"{good['kind']}.{good['apiVersion'].rpartition('/')[0]}".rstrip("."))
    assert schema is not None
    reference = jsonschema.Draft202012Validator(schema)
    for case in mutations(good):
        if "huge annotation" in case.name:
            continue
        schematic = [one for one in CATALOGUE.violations(case.body) if one.rule in _OF_THE_ENGINE]
        assert reference.is_valid(case.body) or schematic, case.name


_OF_THE_ENGINE = frozenset(
    f"schema.{name}"
    for name in (
        *("unknown-field", "missing-field", "wrong-type", "not-allowed", "bad-value", "bad-quantity"),
        *("out-of-range", "duplicate-item"),
    )
)


@pytest.mark.parametrize("name", sorted(SPECIMENS))
def test_every_breakage_is_a_problem_never_an_exception(name: str) -> None:
    """Break an object in two places: problems come with a rule, a field and something to do."""
    for case in mutations(SPECIMENS[name]):
        for finding in CATALOGUE.violations(case.body):
            assert finding.rule.startswith("schema.")
            assert finding.hint, (case.name, finding)
            assert len(finding.message) < 500, case.name


@settings(max_examples=150, deadline=None)
@given(name=st.sampled_from(sorted(SPECIMENS)), data=st.data())
def test_anything_anywhere_gives_problems_not_exceptions(name: str, data: st.DataObject) -> None:
    """Property: whatever stands at whatever place, the answer is a tuple of problems."""
    body = copy.deepcopy(SPECIMENS[name])
    for _ in range(3):
        node: Any = body
        while True:
            keys: list[Any] = list(node) if isinstance(node, dict) else list(range(len(node)))
            if not keys:
                break
            key = data.draw(st.sampled_from(keys))
            if isinstance(node[key], dict | list) and node[key] and data.draw(st.booleans()):
                node = node[key]
                continue
            node[key] = data.draw(JSON)
            break
    assert isinstance(body_problems(CATALOGUE, body), tuple)


REMOVED = object()
WRONG: tuple[Any, ...] = (
    *(REMOVED, None, {}, [], "", "x", 0, -1, 2**63, 1.5, True),
    *([None], [{}], [[]], [""], {"a": None}, {"": ""}),
)


def places(node: Any, path: FieldPath = ()) -> Iterator[FieldPath]:
    """Yield the paths of all values below the kind and the name."""
    if path and path not in (("apiVersion",), ("kind",), ("metadata",), ("metadata", "name")):
        yield path
    for key, child in node.items() if isinstance(node, dict) else enumerate(node if isinstance(node, list) else ()):
        yield from places(child, (*path, key))


def test_no_value_at_any_place_raises() -> None:
    """Each value of each object of the corpus, which are accepted and refused ones, in turn replaced and removed."""
    bodies = [case.body for case in (*cases(), *crossings(), *specimens())]
    changes = [(body, path) for body in bodies for path in places(body)]
    for number, (body, path) in enumerate(changes):
        for wrong in WRONG if sizes.LARGE else WRONG[number % 5 :: 5]:
            changed = copy.deepcopy(body)
            parent: Any = changed
            for part in path[:-1]:
                parent = parent[part]
            if wrong is REMOVED:
                del parent[path[-1]]
            else:
                parent[path[-1]] = wrong
            assert all(finding.hint for finding in CATALOGUE.violations(changed)), (path, wrong)
    assert len(changes) > 5_000


def test_a_share_of_thousands_of_digits_is_an_error() -> None:
    body = next(case.body for case in crossings() if case.body["kind"] == "Deployment")
    share = {"rollingUpdate": {"maxUnavailable": f"{'9' * 5000}%"}}
    found = [*CATALOGUE.violations({**body, "spec": {**body["spec"], "replicas": 1, "strategy": share}})]
    assert "must not be greater than 100%" in [finding.message for finding in found]


POD = "{spec: {restartPolicy: Never, containers: [{name: a, image: a}]}}"
UNNAMED = {
    "job": f"apiVersion: batch/v1\nkind: Job\nspec: {{template: {POD}}}",
    "job-null": f"apiVersion: batch/v1\nkind: Job\nmetadata:\nspec: {{template: {POD}}}",
    "crd": """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {}
spec:
  group: a.b
  names: {plural: xs, kind: X}
  scope: Namespaced
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
""",
}


@pytest.mark.parametrize("text", UNNAMED.values(), ids=UNNAMED)
def test_object_without_a_name(text: str) -> None:
    (problem,) = problems(f"{text}\n")
    assert "metadata.name: is required" in problem


@pytest.mark.parametrize("sign", ["\\n", "\\t", "\\0", "\\u2028"])
@pytest.mark.parametrize("kind", ["ClusterRole", "Role"])
def test_name_that_cannot_name_a_file(kind: str, sign: str) -> None:
    """An API server takes any path segment as the name of a role; a rendered file cannot have such a name."""
    (problem,) = problems(
        f'apiVersion: rbac.authorization.k8s.io/v1\nkind: {kind}\nmetadata: {{name: "a{sign}b"}}\nrules: []\n'
    )
    assert "[schema.bad-name]" in problem
    assert problem.isprintable()


@pytest.mark.parametrize("kind", ["F\\no", "Foo\\0", "..", "a/b"])
def test_kind_that_cannot_be_one(kind: str) -> None:
    (problem,) = problems(f'apiVersion: example.org/v1\nkind: "{kind}"\nmetadata: {{name: a}}\n')
    assert "[schema.bad-value]" in problem
    assert problem.isprintable()


def test_every_kind_has_its_name_in_urls() -> None:
    """`make schemas` records them; policies match resources by them."""
    served = {(name.group, name.kind): CATALOGUE.served(name.group, name.kind) for name in CATALOGUE.kinds()}
    assert [key for key, one in served.items() if one is None or not one.plural] == []
    assert {one.plural for one in served.values() if one is not None} >= {"ingresses", "endpoints", "networkpolicies"}


@pytest.mark.parametrize(
    ("group", "hint"),
    [
        ("serving.knative.dev", ADD_DEFINITION),
        ("serving.kserve.oi", "did you mean serving.kserve.io?"),
    ],
)
def test_an_unknown_group_is_only_corrected_to_one_that_it_is_a_misspelling_of(group: str, hint: str) -> None:
    document = read("a.yaml", f"apiVersion: {group}/v1\nkind: Else\nmetadata: {{name: a}}\n".encode()).documents[0]
    (problem,) = CATALOGUE.validate(document)
    assert (problem.severity, problem.hint) == (Severity.WARNING, hint)
