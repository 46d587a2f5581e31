"""What a plan does about pods and GPUs of kinds that it does not know, and of those that other objects describe."""

import json
from typing import Any

from tests.cli.fleet import Fleet

FLEET = """\
apiVersion: example.com/v1
kind: Fleet
metadata: {name: big, namespace: ml}
spec:
  workers: {count: 4, resources: {limits: {nvidia.com/gpu: 8}}}
"""
DECLARED = """\
  podPaths:
    - group: example.com
      kind: Fleet
      pods: [{at: spec.workers, template: resources, replicas: count}]
"""
JOB = """\
apiVersion: batch/v1
kind: Job
metadata: {name: claims, namespace: ml}
spec:
  parallelism: 3
  template:
    spec:
      restartPolicy: Never
      resourceClaims: [{name: g, resourceClaimTemplateName: gpus}]
      containers: [{name: a, image: "x:1", resources: {claims: [{name: g}]}}]
"""
CLAIM = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: gpus, namespace: ml}
spec: {spec: {devices: {requests: [{name: g, exactly: {deviceClassName: gpu.nvidia.com, count: COUNT}}]}}}
"""


def plan(fleet: Fleet) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(fleet.run("plan", "-o", "json").out)
    return made


def configure(fleet: Fleet, text: str) -> None:
    """Add fields to `spec` of reconciler.yaml."""
    fleet.edit("reconciler.yaml", "\nspec:\n", f"\nspec:\n{text}")


def gpus(made: dict[str, Any]) -> tuple[int, int]:
    return sum(line["before"] for line in made["gpus"]), sum(line["after"] for line in made["gpus"])


def not_counted(made: dict[str, Any]) -> list[str]:
    return [one["message"] for one in made["verdicts"] if one["rule"] == "quota.not-counted"]


def test_a_kind_that_nobody_knows_is_said(fleet: Fleet) -> None:
    before = gpus(plan(fleet))
    fleet.write("jobs/fleet.yaml", FLEET)
    made = plan(fleet)
    assert gpus(made) == before
    assert not_counted(made) == ["not counted: nvidia.com/gpu: 8 at spec.workers.resources.limits"]
    shown = fleet.run("plan").out
    assert "quota.not-counted" in shown


def test_declared_pods_are_counted(fleet: Fleet) -> None:
    _, before = gpus(plan(fleet))
    fleet.write("jobs/fleet.yaml", FLEET)
    configure(fleet, DECLARED)
    made = plan(fleet)
    assert gpus(made)[1] == before + 32
    assert not_counted(made) == []


def test_a_policy_may_deny_what_is_not_counted(fleet: Fleet) -> None:
    fleet.write("jobs/fleet.yaml", FLEET)
    configure(fleet, "  rules: {quota.not-counted: {action: deny}}\n")
    denied = [one["result"] for one in plan(fleet)["verdicts"] if one["rule"] == "quota.not-counted"]
    assert denied == ["deny"]


def test_a_claim_template_changes_the_gpus_of_the_jobs_that_name_it(fleet: Fleet) -> None:
    fleet.write("jobs/job.yaml", JOB)
    (message,) = not_counted(plan(fleet))
    assert message == (
        "not counted: ResourceClaimTemplate gpus, which is not in the repository"
        " at spec.template.spec.resourceClaims[0].resourceClaimTemplateName"
    )
    fleet.write("jobs/claim.yaml", CLAIM.replace("COUNT", "2"))
    _, with_claim = gpus(plan(fleet))
    fleet.commit("claims")
    assert fleet.run("commit").code == 0
    fleet.write("jobs/claim.yaml", CLAIM.replace("COUNT", "4"))
    made = plan(fleet)
    assert gpus(made) == (with_claim, with_claim + 6)
    assert not_counted(made) == []


SERVICE = """\
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: llama, namespace: ml}
spec:
  predictor:
    minReplicas: 1
    maxReplicas: MAX
    containers: [{name: kserve-container, image: "x:1", resources: {limits: {nvidia.com/gpu: 4}}}]
"""


def test_the_fewest_and_the_most_gpus_of_what_scales_are_shown(fleet: Fleet) -> None:
    fleet.write("jobs/llama.yaml", SERVICE.replace("MAX", "3"))
    made = plan(fleet)
    (job,) = [one for one in made["jobs"] if one["key"]["name"] == "llama"]
    assert (job["gpusAfter"], job["rangeAfter"]) == (4, [4, 12])
    (line,) = [one for one in made["gpus"] if one["queue"] == ""]
    assert (line["after"], line["most"]) == (4, 12)
    for output in ("text", "markdown"):
        shown = fleet.run("plan", "-o", output).out
        assert "(4 to 12)" in shown
        assert "may grow to 12" in shown
    fleet.commit("service")
    assert fleet.run("commit").code == 0
    fleet.write("jobs/llama.yaml", SERVICE.replace("MAX", "5"))
    (job,) = plan(fleet)["jobs"]
    assert (job["word"], job["gpusBefore"], job["gpusAfter"], job["rangeAfter"]) == ("resized", 4, 4, [4, 20])


DEFINITION = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: crews.example.com}
spec:
  group: example.com
  names: {kind: Crew, plural: crews, singular: crew, listKind: CrewList}
  scope: Namespaced
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
"""
CREW = """\
apiVersion: example.com/v1
kind: Crew
metadata: {name: night, namespace: ml}
spec:
  shifts:
    - template: {spec: {containers: [{name: a, image: "x:1"}]}}
"""


def test_pods_of_a_kind_that_only_a_definition_tells_are_not_counted_and_may_be_denied(fleet: Fleet) -> None:
    """Its schema is known, and nobody knows how many pods it runs: also pods without GPUs are said."""
    fleet.write("cluster/crews.yaml", DEFINITION)
    fleet.write("jobs/crew.yaml", CREW)
    assert not_counted(plan(fleet)) == ["not counted: pods at spec.shifts[0].template.spec.containers"]
    configure(fleet, "  rules: {quota.not-counted: {action: deny}}\n")
    (denied,) = [one for one in plan(fleet)["verdicts"] if one["rule"] == "quota.not-counted"]
    assert (denied["result"], denied["key"]["kind"]) == ("deny", "Crew")
    fleet.commit("crew")
    assert fleet.run("commit").code == 4


def test_pods_that_cannot_be_declared_are_refused(fleet: Fleet) -> None:
    """Their declaration would have no effect."""
    configure(fleet, DECLARED.replace("example.com", "kueue.x-k8s.io").replace("Fleet", "ClusterQueue"))
    ran = fleet.run("plan")
    assert ran.code == 3
    assert "ClusterQueue is read in its own way: it runs no pods" in ran.out + ran.err
    fleet.git("checkout", "--", "reconciler.yaml")
    configure(fleet, DECLARED.replace("example.com", "resource.k8s.io").replace("Fleet", "ResourceClaimTemplate"))
    ran = fleet.run("plan")
    assert ran.code == 3
    assert "reconciler.yaml:" in ran.out + ran.err
    assert "the objects that name it run the pods" in ran.out + ran.err


FINETUNE = """\
apiVersion: tune.example.com/v1
kind: FineTune
metadata: {name: finetune, namespace: ml}
spec: {gpus: NUMBER, image: "x:1"}
"""


def test_gpus_of_an_unknown_kind_are_unknown_everywhere(fleet: Fleet) -> None:
    """They are not 0: in the headline, the section, the totals, JSON and Markdown."""
    fleet.write("jobs/finetune.yaml", FINETUNE.replace("NUMBER", "16"))
    made = plan(fleet)
    (unknown,) = made["unknownGpus"]
    assert (unknown["key"]["name"], unknown["before"], unknown["after"]) == ("finetune", [], ["gpus: 16 at spec.gpus"])
    (verdict,) = [one for one in made["verdicts"] if one["rule"] == "quota.not-counted"]
    assert verdict["field"] == "spec.gpus"
    assert "spec.podPaths of reconciler.yaml, or add its family" in verdict["hint"]
    for output in ("text", "markdown"):
        shown = fleet.run("plan", "-o", output).out.replace("&#58;", ":")
        assert "No change in" not in shown
        assert "GPUs unknown of 1 object on main (FineTune finetune: gpus: 16 at spec.gpus)" in shown
        assert "GPUs unknown: " in shown
        assert "GPUs of 1 object unknown." in shown


def test_unknown_gpus_exceed_the_budgets(fleet: Fleet) -> None:
    """It is not known that fewer are asked for, or stop, than the budgets allow: somebody has to approve it."""
    fleet.write("jobs/finetune.yaml", FINETUNE.replace("NUMBER", "16"))
    (breach,) = plan(fleet)["breaches"]
    assert (breach["budget"], breach["actual"]) == ("gpu-quota.unknown", "1 object")
    assert breach["message"] == ("how many GPUs are asked for is unknown: FineTune finetune; see quota.not-counted")
    fleet.commit("finetune")
    assert fleet.run("commit").code == 5
    assert fleet.run("approve", "--budget", "gpu-quota.unknown", "--reason", "16 GPUs").code == 0
    fleet.commit("approve")
    assert fleet.run("commit").code == 0
    fleet.edit("jobs/finetune.yaml", '"x:1"', '"x:2"')
    assert [one["budget"] for one in plan(fleet)["breaches"]] == ["disruption.unknown"]
    fleet.edit("jobs/finetune.yaml", '"x:2"', '"x:1"')
    fleet.edit("jobs/finetune.yaml", "namespace: ml", "namespace: ml, labels: {team: x}")
    assert plan(fleet)["breaches"] == []


def test_harmless_kinds_have_no_unknown_gpus(fleet: Fleet) -> None:
    fleet.write(
        "jobs/harmless.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: ml}\ndata: {gpus: '8'}\n---\n"
        "apiVersion: monitoring.coreos.com/v1\nkind: ServiceMonitor\nmetadata: {name: m, namespace: ml}\n"
        "spec: {endpoints: [{port: metrics}], selector: {matchLabels: {app: gpu}}}\n---\n"
        "apiVersion: cert-manager.io/v1\nkind: Certificate\nmetadata: {name: m, namespace: ml}\n"
        "spec: {secretName: gpu, dnsNames: [gpu.example.com], issuerRef: {name: x}}\n---\n"
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: r, namespace: ml}\n"
        "rules: [{apiGroups: [nvidia.com], resources: [gpus], verbs: [get]}]\n",
    )
    made = plan(fleet)
    assert made["unknownGpus"] == []
    assert made["breaches"] == []
    assert "No change in requested GPUs or quotas" in fleet.run("plan").out


POD = """\
apiVersion: v1
kind: Pod
metadata: {name: NAME, namespace: ml}
spec: {containers: [{name: a, image: "x:1", resources: {limits: {RESOURCE: 4}}}]}
"""


def pod(name: str, resource: str) -> str:
    return POD.replace("NAME", name).replace("RESOURCE", resource)


def test_a_resource_that_nobody_knows_is_said_once(fleet: Fleet) -> None:
    for name in ("one", "three", "two"):
        fleet.write(f"jobs/{name}.yaml", pod(name, "example.com/h100"))
    fleet.write("jobs/other.yaml", pod("other", "gpu.example.com/b200"))
    for output in ("text", "markdown"):
        shown = fleet.run("plan", "-o", output).out
        shown = shown.replace("&#58;", ":").replace("`", "")
        lines = [" ".join(line.split()) for line in shown.splitlines() if "GPUs unknown: " in line]
        assert [line.removeprefix("- ").partition(" (")[0] for line in lines] == [
            "GPUs unknown: Pod ml/one and 2 more on main",
            "GPUs unknown: Pod ml/other on main",
        ]


def test_totals_say_that_more_is_unknown(fleet: Fleet) -> None:
    """The table, the last line, JSON and what policies read: no output shows a total as if it were all."""
    fleet.write("jobs/known.yaml", pod("known", "nvidia.com/gpu"))
    fleet.write("jobs/unknown.yaml", pod("unknown", "example.com/h100"))
    text = fleet.run("plan").out
    (total,) = [line for line in text.splitlines() if line.split()[:1] == ["total"]]
    assert "+4 + unknown" in total
    assert "+4 GPUs on main, GPUs of 1 object unknown." in text
    markdown = fleet.run("plan", "-o", "markdown").out
    (total,) = [line for line in markdown.splitlines() if "total" in line and line.startswith("|")]
    assert "+4 + unknown" in total
    made = plan(fleet)
    before, after = gpus(made)
    assert after - before == 4
    assert [one["key"]["name"] for one in made["unknownGpus"]] == ["unknown"]


SCALED = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: serve, namespace: ml}
spec:
  selector: {matchLabels: {app: serve}}
  template:
    metadata: {labels: {app: serve}}
    spec: {containers: [{name: a, image: "x:1", resources: {limits: {nvidia.com/gpu: 1}}}]}
"""
SCALER = """\
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: serve, namespace: ml}
spec: {minReplicas: 4, maxReplicas: MAX, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: serve}}
"""


def test_what_an_autoscaler_allows_is_in_the_headline_the_totals_and_json(fleet: Fleet) -> None:
    fleet.write("jobs/serve.yaml", SCALED)
    fleet.write("jobs/scaler.yaml", SCALER.replace("MAX", "10"))
    made = plan(fleet)
    (job,) = [one for one in made["jobs"] if one["key"]["name"] == "serve"]
    assert (job["gpusAfter"], job["rangeAfter"]) == (4, [4, 10])
    (line,) = [one for one in made["gpus"] if one["queue"] == ""]
    assert (line["before"], line["mostBefore"], line["after"], line["most"]) == (0, None, 4, 10)
    text = fleet.run("plan").out
    assert "+4 GPUs requested on main (no queue: 0 → 4 (may grow to 10))" in text
    (total,) = [line for line in text.splitlines() if line.split()[:1] == ["total"]]
    assert "may grow to" in total
    fleet.commit("serve")
    assert fleet.run("commit").code == 0
    fleet.edit("jobs/scaler.yaml", "maxReplicas: 10", "maxReplicas: 40")
    text = fleet.run("plan").out
    assert "+30 GPUs if all workloads grow on main (no queue: 4, may grow to 10 → 40)" in text
    (line,) = [one for one in plan(fleet)["gpus"] if one["queue"] == ""]
    assert (line["before"], line["mostBefore"], line["after"], line["most"]) == (4, 10, 4, 40)
