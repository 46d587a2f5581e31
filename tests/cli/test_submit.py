"""`submit`, `serve` and `delete` with Kaiwo's workloads: the cases of its specification, by their ids."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.fleet import Fleet, Ran
from tests.cli.kaiwo_fleet import ENV, make_kaiwo, write_workload

README = Path(__file__).resolve().parents[1] / "data/kaiwo-commands.txt"


@pytest.fixture
def kaiwo(fleet: Fleet, kept: Path, monkeypatch: pytest.MonkeyPatch) -> Fleet:
    monkeypatch.setenv("KAIWO_USER_EMAIL", "alice@example.com")
    monkeypatch.delenv("KAIWOCONFIG", raising=False)
    monkeypatch.setenv("HOME", str(fleet.root.parent))
    fleet.make_once(kept, lambda: make_kaiwo(fleet))
    monkeypatch.chdir(fleet.root)
    return fleet


def _files(fleet: Fleet, branch: str) -> dict[str, str]:
    names = fleet.git("diff", "--name-only", "main", branch).split()
    present = fleet.git("ls-tree", "-r", "--name-only", branch).split()
    return {name: fleet.git("show", f"{branch}:{name}") if name in present else "" for name in names}


def _dry(fleet: Fleet, *words: str) -> dict[str, dict[str, Any]]:
    ran = fleet.run(*words, "--dry-run")
    assert ran.code == 0, ran.err
    return {one["kind"]: one for one in yaml.safe_load_all(ran.out) if one}


def _said(ran: Ran) -> str:
    return " ".join((ran.out + ran.err).split())


def test_ka_01_f_067_a_folder_on_ray(kaiwo: Fleet) -> None:
    folder = write_workload(kaiwo)
    before = kaiwo.git("status", "--porcelain", "--branch")
    ran = kaiwo.run("submit", "-p", folder, "-g", "16", "--ray")
    assert ran.code == 0, ran.err
    assert "+16 GPUs" in ran.out
    files = _files(kaiwo, "submit/alice-pretrain")
    assert sorted(files) == [
        "jobs/kaiwo/alice-pretrain.files/data.json",
        "jobs/kaiwo/alice-pretrain.files/main.py",
        "jobs/kaiwo/alice-pretrain.yaml",
    ]
    spec = yaml.safe_load(files["jobs/kaiwo/alice-pretrain.yaml"])["spec"]
    assert (spec["gpus"], spec["ray"], spec["user"]) == (16, True, "alice@example.com")
    assert spec["entrypoint"] == "python main.py --model-name=llama"
    message = kaiwo.git("log", "-1", "--format=%B", "submit/alice-pretrain")
    assert "Submit KaiwoJob kaiwo/alice-pretrain" in message
    assert "Submitted by alice@example.com" in message
    assert re.search(r"Reconciler-Plan-Digest: sha256:[0-9a-f]{64}", message)
    assert kaiwo.git("status", "--porcelain", "--branch") == before


def test_ka_01_what_it_renders(kaiwo: Fleet) -> None:
    made = _dry(kaiwo, "submit", "-p", write_workload(kaiwo), "-g", "16", "--ray")
    assert {"RayJob", "ConfigMap", "LocalQueue"} <= made.keys()
    assert sorted(made["ConfigMap"]["data"]) == ["data.json", "main.py"]
    (group,) = made["RayJob"]["spec"]["rayClusterSpec"]["workerGroupSpecs"]
    limits = group["template"]["spec"]["containers"][0]["resources"]["limits"]
    assert (group["replicas"], str(limits["amd.com/gpu"])) == (2, "8")
    assert made["LocalQueue"]["spec"]["clusterQueue"] == "kaiwo"


def test_ka_02_d_01_d_02_the_second_time_only_what_was_edited(kaiwo: Fleet) -> None:
    folder = write_workload(kaiwo)
    words = ("submit", "-p", folder, "-g", "16", "--ray")
    assert kaiwo.run(*words).code == 0
    first = kaiwo.git("rev-parse", "submit/alice-pretrain")
    again = kaiwo.run(*words)
    assert (again.code, again.out.startswith("nothing to submit")) == (0, True)
    assert kaiwo.git("rev-parse", "submit/alice-pretrain") == first
    kaiwo.git("merge", "--quiet", "--ff-only", "submit/alice-pretrain")
    assert kaiwo.run("commit").code == 0
    assert kaiwo.run(*words).out.startswith("nothing to submit")
    kaiwo.write("../work/pretrain/main.py", "print('good day')\n")
    edited = kaiwo.run(*words, "-o", "json")
    assert edited.code == 0, edited.err
    (change,) = json.loads(edited.out)["changes"]
    assert [field["path"] for field in change["fields"]] == ['data["main.py"]']
    assert list(_files(kaiwo, "submit/alice-pretrain")) == ["jobs/kaiwo/alice-pretrain.files/main.py"]
    (kaiwo.root / "../work/pretrain/data.json").unlink()
    assert kaiwo.run(*words).code == 0
    assert _files(kaiwo, "submit/alice-pretrain")["jobs/kaiwo/alice-pretrain.files/data.json"] == ""


def test_ka_03_f_069_d_07_an_image_alone_reads_no_file(kaiwo: Fleet) -> None:
    kaiwo.write("env", "envVars: 3\n")
    kaiwo.write("entrypoint", "exit 1\n")
    ran = kaiwo.run("submit", "-i", "my-registry/my_image", "-g", "8", "-v")
    assert ran.code == 0, ran.err
    assert "no file of the current folder is read" in ran.err
    assert list(_files(kaiwo, "submit/alice-my-registry-my-image")) == ["jobs/kaiwo/alice-my-registry-my-image.yaml"]
    job = _dry(kaiwo, "submit", "-i", "my-registry/my_image", "-g", "8")["Job"]
    container = job["spec"]["template"]["spec"]["containers"][0]
    assert container["image"] == "my-registry/my_image"
    assert "command" not in container
    assert str(container["resources"]["limits"]["amd.com/gpu"]) == "8"


def test_ka_04_f_069_an_image_with_the_entrypoint_of_a_folder(kaiwo: Fleet) -> None:
    folder = write_workload(kaiwo, entrypoint="# runs\necho one\necho two\n")
    job = _dry(kaiwo, "submit", "-i", "example.com/a:1", "-p", folder, "-g", "8")["Job"]
    container = job["spec"]["template"]["spec"]["containers"][0]
    assert container["command"] == ["/bin/sh", "-c", "# runs\necho one\necho two"]
    assert container["image"] == "example.com/a:1"
    assert {"name": "MY_VAR", "value": "my_value"} in container["env"]
    assert {"name": "workload-files", "mountPath": "/workload"} in container["volumeMounts"]


def test_ka_05_f_120_a_dry_run_writes_nothing_and_needs_nothing(
    kaiwo: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_workload(kaiwo)
    monkeypatch.setenv("KUBECONFIG", "/absent")
    refs = kaiwo.git("for-each-ref")
    inside = kaiwo.run("submit", "-p", folder, "-g", "16", "--ray", "--dry-run", "-o", "json")
    assert {one["kind"] for one in json.loads(inside.out)["items"]} >= {"RayJob", "ConfigMap"}
    assert (kaiwo.git("for-each-ref"), kaiwo.git("status", "--porcelain")) == (refs, "")
    nowhere = Fleet(tmp_path / "nowhere", kaiwo.capture)
    nowhere.root.mkdir()
    monkeypatch.chdir(nowhere.root)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    assert "RayJob" in _dry(nowhere, "submit", "-p", folder, "-g", "16", "--ray")
    assert not any(nowhere.root.iterdir())
    refused = nowhere.run("submit", "-p", folder, "-g", "16", "--ray")
    assert refused.code == 2
    assert "reconciler init" in refused.err


def test_ka_06_gpus_that_no_nodes_can_share(kaiwo: Fleet) -> None:
    folder = write_workload(kaiwo)
    refs = kaiwo.git("for-each-ref")
    ran = kaiwo.run("submit", "-p", folder, "-g", "17", "--ray")
    assert ran.code == 3
    assert "16" in _said(ran)
    assert "18" in _said(ran)
    assert kaiwo.git("for-each-ref") == refs


def test_ka_07_d_03_a_job_is_never_one_pod_of_several_nodes(kaiwo: Fleet) -> None:
    ran = kaiwo.run("submit", "-p", write_workload(kaiwo), "-g", "16", "--dry-run")
    if ran.code == 3:
        assert "ray" in _said(ran)
        return
    jobs = [one for one in yaml.safe_load_all(ran.out) if one and one["kind"] == "Job"]
    limits = jobs[0]["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]
    assert (ran.code, str(limits["amd.com/gpu"]), jobs[0]["spec"]["completions"]) == (0, "8", 2)


def test_ka_08_d_05_a_service_on_ray_is_queued(kaiwo: Fleet) -> None:
    rows = '  - {name: PIPELINE_PARALLELISM, value: "2"}\n  - {name: TENSOR_PARALLELISM, value: "8"}\n'
    folder = write_workload(kaiwo, "../work/llm", entrypoint="", serveconfig="applications: []\n", env=ENV + rows)
    made = _dry(kaiwo, "serve", "-p", folder, "-g", "16", "--ray")
    (component,) = made["AppWrapper"]["spec"]["components"]
    service = component["template"]
    (group,) = service["spec"]["rayClusterConfig"]["workerGroupSpecs"]
    worker = group["template"]["spec"]["containers"][0]
    assert (group["replicas"], str(worker["resources"]["limits"]["amd.com/gpu"])) == (2, "8")
    assert {"name": "workload-files", "mountPath": "/workload/app"} in worker["volumeMounts"]
    assert any(mount["mountPath"] == "/etc/gcp/credentials.json" for mount in worker["volumeMounts"])
    ran = kaiwo.run("serve", "-p", folder, "-g", "16", "--ray")
    assert ran.code == 0, ran.err
    assert "waits in queue kaiwo" in ran.err


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (["submit", "-i", "a/b:1"], "Job"),
        (["submit", "--ray"], "RayJob"),
        (["serve", "-i", "a/b:1"], "Deployment"),
        (["serve", "--ray"], "AppWrapper"),
    ],
)
def test_ka_09_f_068_the_variables_of_the_readme_reach_all_containers(
    kaiwo: Fleet, words: list[str], kind: str
) -> None:
    folder = write_workload(kaiwo, serveconfig="applications: []\n", entrypoint="python main.py\n")
    made = _dry(kaiwo, *words, "-p", folder, "-g", "8")
    assert "Secret" not in made
    containers = list(_containers(made[kind]))
    assert len(containers) == (2 if "--ray" in words else 1)
    for container in containers:
        names = [row["name"] for row in container["env"]]
        wanted = [
            *("MY_VAR", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "HF_TOKEN", "GOOGLE_APPLICATION_CREDENTIALS")
        ]
        assert [name for name in names if name in wanted] == wanted
        assert [one["mountPath"] for one in container["volumeMounts"]].count("/etc/gcp/credentials.json") == 1


def _containers(node: object) -> list[dict[str, Any]]:
    if isinstance(node, dict):
        own = node.get("containers", []) if "containers" in node else []
        return [*own, *(found for key, inner in node.items() if key != "containers" for found in _containers(inner))]
    return [found for inner in node for found in _containers(inner)] if isinstance(node, list) else []


TEMPLATE = """\
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ .Meta.Name }}
  labels: {kueue.x-k8s.io/queue-name: {{ .WorkloadMeta.Queue }}, tier: {{ .Custom.parent.child }}}
spec:
  suspend: true
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: main
        image: {{ .Meta.Image }}
        command: [sh, -c, {{ .Workload.Entrypoint }}]
        resources:
          limits: {amd.com/gpu: "{{ .Scheduling.CalculatedGPUsPerReplica }}"}
"""


def test_ka_10_f_066_a_template_with_values_of_a_file(kaiwo: Fleet) -> None:
    folder = write_workload(kaiwo)
    template = str(kaiwo.write("../my.tmpl", TEMPLATE))
    custom = str(kaiwo.write("../custom.yaml", "parent: {child: value}\n"))
    words = ("submit", "-p", folder, "-i", "a/b:1", "-g", "8", "-t", template, "-c", custom)
    ran = kaiwo.run(*words)
    assert ran.code == 0, ran.out + ran.err
    document = yaml.safe_load(_files(kaiwo, "submit/alice-pretrain")["jobs/kaiwo/alice-pretrain.yaml"])
    assert document["metadata"]["labels"] == {"kueue.x-k8s.io/queue-name": "kaiwo", "tier": "value"}
    made = _dry(kaiwo, *words)
    assert made["LocalQueue"]["metadata"] == {**made["LocalQueue"]["metadata"], "name": "kaiwo", "namespace": "kaiwo"}
    container = made["Job"]["spec"]["template"]["spec"]["containers"][0]
    assert container["command"][2] == "python main.py --model-name=llama"
    assert {"name": "workload-files", "mountPath": "/workload"} in container["volumeMounts"]
    kaiwo.write("../my.tmpl", "a: 1\nb: {{ range(10**9) }}\n")
    refused = kaiwo.run(*words)
    assert refused.code == 3
    assert "my.tmpl:2:1" in refused.err
    kaiwo.write("../my.tmpl", TEMPLATE.replace("kind: Job", "kind: CronJob"))
    assert kaiwo.run(*words).code == 3
    kaiwo.write("../my.tmpl", TEMPLATE)
    assert "use `reconciler submit`" in kaiwo.run("serve", *words[1:]).err


def test_queues_and_namespaces_that_the_cluster_has_are_used(kaiwo: Fleet) -> None:
    kaiwo.edit("reconciler.yaml", "- Namespace/kaiwo ", "- Namespace/kaiwo\n        - LocalQueue/kaiwo/kaiwo ")
    kaiwo.commit()
    template = str(kaiwo.write("../my.tmpl", TEMPLATE))
    custom = str(kaiwo.write("../custom.yaml", "parent: {child: value}\n"))
    words = ("submit", "-i", "a/b:1", "-g", "8", "-t", template, "-c", custom)
    assert "LocalQueue" not in _dry(kaiwo, *words)
    assert "queue 'other' does not exist" in kaiwo.run(*words, "-q", "other").err
    kaiwo.edit("reconciler.yaml", "- LocalQueue/kaiwo/kaiwo ", "- LocalQueue\n        - Namespace ")
    kaiwo.commit()
    labels = _dry(kaiwo, *words, "-q", "other", "-n", "elsewhere")["Job"]["metadata"]["labels"]
    assert labels["kueue.x-k8s.io/queue-name"] == "other"


def test_ka_11_f_071_a_namespace_is_created_if_that_is_wanted(kaiwo: Fleet) -> None:
    words = ("submit", "-i", "a/b:1", "-g", "8", "-n", "team-x")
    refused = kaiwo.run(*words)
    assert refused.code == 3
    assert "--create-namespace" in refused.err
    ran = kaiwo.run(*words, "--create-namespace")
    assert ran.code == 0, ran.out + ran.err
    files = _files(kaiwo, "submit/alice-a-b-1")
    namespace = yaml.safe_load(files["queues/namespace-team-x.yaml"])
    assert namespace["metadata"] == {"name": "team-x", "labels": {"kueue-managed": "true"}}
    assert "jobs/team-x/alice-a-b-1.yaml" in files


def test_ka_12_f_120_a_deletion_removes_file_and_folder_and_keeps_claims(kaiwo: Fleet) -> None:
    folder = write_workload(kaiwo)
    assert kaiwo.run("submit", "-p", folder, "-i", "a/b:1", "-g", "8", "--storage", "100Gi,fast").code == 0
    kaiwo.git("merge", "--quiet", "--ff-only", "submit/alice-pretrain")
    assert kaiwo.run("commit").code == 0
    ran = kaiwo.run("delete", "job/alice-pretrain")
    assert ran.code == 0, ran.out + ran.err
    files = _files(kaiwo, "delete/alice-pretrain")
    assert files["jobs/kaiwo/alice-pretrain.yaml"] == files["jobs/kaiwo/alice-pretrain.files/main.py"] == ""
    assert "- Job kaiwo/alice-pretrain" in ran.out
    assert "- ConfigMap kaiwo/alice-pretrain" in ran.out
    assert "- PersistentVolumeClaim" not in ran.out
    assert "The claims stay: " in ran.out
    assert "types:" in kaiwo.run("delete", "pod/alice-pretrain").err
    assert kaiwo.run("delete", "job/other").code == 2


def test_a_document_is_submitted_with_what_it_lacks(kaiwo: Fleet) -> None:
    text = "# mine\napiVersion: kaiwo.silogen.ai/v1alpha1\nkind: KaiwoJob\nmetadata: {name: train}\nspec: {gpus: 8, image: 'a/b:1'}\n"
    path = str(kaiwo.write("../job.yaml", text))
    ran = kaiwo.run("submit", "-f", path, "-n", "kaiwo", "-q", "kaiwo")
    assert ran.code == 0, ran.out + ran.err
    document = yaml.safe_load(_files(kaiwo, "submit/train")["jobs/kaiwo/train.yaml"])
    assert document["metadata"] == {"name": "train", "namespace": "kaiwo"}
    assert document["spec"] == {"gpus": 8, "image": "a/b:1", "user": "alice@example.com", "clusterQueue": "kaiwo"}
    whole = text.replace("name: train", "name: train, namespace: kaiwo").replace("gpus: 8", "gpus: 8, user: bob")
    kaiwo.write("../job.yaml", whole.replace("image:", "clusterQueue: kaiwo, image:"))
    assert kaiwo.run("submit", "-f", path).code == 0
    assert _files(kaiwo, "submit/train")["jobs/kaiwo/train.yaml"].startswith("# mine\n")
    other = kaiwo.run("submit", "-f", path, "-n", "team-b")
    assert other.code == 2
    assert "the namespace is kaiwo, not team-b" in other.err


@pytest.mark.parametrize(
    "line", [line for line in README.read_text().splitlines() if line and not line.startswith("#")]
)
def test_the_lines_of_kaiwos_readme_run_as_printed(kaiwo: Fleet, line: str) -> None:
    write_workload(kaiwo, "path/to/workload/directory")
    write_workload(kaiwo, "path_to_entrypoint_directory")
    program, *words = line.split()
    assert program == "kaiwo"
    ran = kaiwo.run(*words)
    assert ran.code == 0, ran.out + ran.err
    assert "branch submit/alice-" in ran.out
