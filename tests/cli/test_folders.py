"""Folders beside a source document: their files reach its pods by a ConfigMap, and are read as they are in a change."""

import base64

import yaml

from tests.cli.fleet import Fleet

JOB = """\
apiVersion: batch/v1
kind: Job
metadata:
  name: pretrain
  annotations: {gpureconciler.io/folder: pretrain.files%s}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: "example.com/a:1", command: [python, main.py]%s}]
"""
MAP = "rendered/main/default/configmap-pretrain.yaml"


def _carried(fleet: Fleet, annotation: str = "", container: str = "") -> None:
    fleet.write("jobs/pretrain.yaml", JOB % (annotation, container))
    fleet.write("jobs/pretrain.files/main.py", "print('hello')\n")
    fleet.write("jobs/pretrain.files/settings.json", '{"kind": "Pod", "apiVersion": "v1"}\n')


def test_the_files_of_a_folder_are_mounted_and_are_no_sources(fleet: Fleet) -> None:
    _carried(fleet)
    fleet.commit()
    assert fleet.run("commit").code == 0
    rendered = yaml.safe_load((fleet.root / MAP).read_text())
    assert rendered["data"] == {
        "main.py": "print('hello')\n",
        "settings.json": '{"kind": "Pod", "apiVersion": "v1"}\n',
    }
    job = yaml.safe_load((fleet.root / "rendered/main/default/job-pretrain.yaml").read_text())
    pod = job["spec"]["template"]["spec"]
    assert pod["volumes"] == [{"name": "workload-files", "configMap": {"name": "pretrain"}}]
    container = pod["containers"][0]
    assert container["volumeMounts"] == [{"name": "workload-files", "mountPath": "/workload"}]
    assert container["workingDir"] == "/workload"
    assert not list((fleet.root / "rendered/main/default").glob("pod-*"))


def test_a_changed_file_changes_its_key_alone_and_is_named_as_the_cause(fleet: Fleet) -> None:
    _carried(fleet)
    fleet.commit()
    assert fleet.run("commit").code == 0
    assert fleet.run("verify").code == 0
    fleet.edit("jobs/pretrain.files/main.py", "hello", "good day")
    planned = fleet.run("plan", "-o", "json")
    changes = yaml.safe_load(planned.out)["changes"]
    assert [change["path"] for change in changes] == [MAP]
    assert [field["path"] for field in changes[0]["fields"]] == ['data["main.py"]']
    assert "jobs/pretrain.files/main.py" in fleet.run("plan").out


def test_subfolders_hidden_and_binary_files_have_their_paths(fleet: Fleet) -> None:
    _carried(fleet)
    fleet.write("jobs/pretrain.files/lib/tools.py", "x = 1\n")
    fleet.write("jobs/pretrain.files/.env", "A=1\n")
    (fleet.root / "jobs/pretrain.files/weights.bin").write_bytes(b"\0\xff")
    fleet.commit()
    assert fleet.run("commit").code == 0
    rendered = yaml.safe_load((fleet.root / MAP).read_text())
    job = yaml.safe_load((fleet.root / "rendered/main/default/job-pretrain.yaml").read_text())
    items = {item["path"]: item["key"] for item in job["spec"]["template"]["spec"]["volumes"][0]["configMap"]["items"]}
    assert sorted(items) == [".env", "lib/tools.py", "main.py", "settings.json", "weights.bin"]
    assert rendered["data"][items["lib/tools.py"]] == "x = 1\n"
    assert base64.b64decode(rendered["binaryData"][items["weights.bin"]]) == b"\0\xff"


def test_wrong_folders_are_errors_at_their_annotation(fleet: Fleet) -> None:
    _carried(fleet, ", gpureconciler.io/folder-mount: /app")
    assert fleet.run("lint").code == 0
    fleet.edit("jobs/pretrain.yaml", "pretrain.files", "code")
    linted = fleet.run("lint")
    assert linted.code == 3
    assert "jobs/pretrain.yaml:5:" in linted.out
    assert "'code' is not the path of a .files folder" in " ".join(linted.out.split())
    fleet.edit("jobs/pretrain.yaml", "folder: code", "folder: other.files")
    assert "jobs/other.files has no files" in " ".join(fleet.run("lint").out.split())


def test_a_mount_that_is_taken_is_an_error(fleet: Fleet) -> None:
    taken = ", volumeMounts: [{name: data, mountPath: /workload/}]"
    _carried(fleet, container=taken)
    fleet.edit(
        "jobs/pretrain.yaml", "      containers:", "      volumes: [{name: data, emptyDir: {}}]\n      containers:"
    )
    linted = fleet.run("lint")
    assert linted.code == 3
    assert "container main of Job/default/pretrain mounts something else at /workload" in " ".join(linted.out.split())
