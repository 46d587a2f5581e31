"""Files in source folders that are no manifests, that are left out, or that others encrypted."""

import pytest

from tests.cli.fleet import Fleet

SOPS = """\
apiVersion: v1
kind: Secret
metadata: {name: registry, namespace: default}
stringData:
  password: ENC[AES256_GCM,data:Zm9v,iv:aaaa,tag:bbbb,type:str]
sops:
  lastmodified: "2026-11-01T00:00:00Z"
  mac: ENC[AES256_GCM,data:Zm9v,iv:aaaa,tag:bbbb,type:str]
  version: 3.8.1
"""
SEALED = "apiVersion: bitnami.com/v1alpha1\nkind: SealedSecret\nmetadata: {name: a}\nspec: {encryptedData: {a: AgB}}\n"
CLOUDFORMATION = """\
AWSTemplateFormatVersion: "2010-09-09"
Resources:
  A: {Name: !Sub "${AWS::StackName}", Role: !GetAtt Role.Arn}
  B: {Name: !Ref A}
"""


@pytest.mark.parametrize(
    ("path", "text", "what"),
    [
        ("jobs/bucket.yaml", CLOUDFORMATION, ": a CloudFormation template"),
        ("jobs/values.yaml", "replicas: 3\n", ": values of a Helm chart"),
        ("jobs/check.yml", "on: push\njobs: {a: {runs-on: ubuntu}}\n", ": a GitHub workflow"),
        ("jobs/compose.yaml", "services: {a: {image: b}}\n", ": a Compose file"),
        ("jobs/Chart.yaml", "apiVersion: v2\nname: a\nversion: 0.1.0\n", ": the description of a Helm chart"),
        ("jobs/templates/a.yaml", "a: {{ .Values.a }}\n{{- if .b }}\n", ": a template of a Helm chart"),
    ],
)
def test_a_file_that_is_no_manifest_gets_one_note(fleet: Fleet, path: str, text: str, what: str) -> None:
    """F-150: whatever is in it; the objects of other files are checked as before."""
    fleet.write(path, text)
    linted = fleet.run("lint", "--width", "200")
    assert linted.code == 0, linted.out
    assert linted.out.count(path) == 1
    assert f"{path}: is not a Kubernetes manifest{what}, and is not read" in linted.out


@pytest.mark.parametrize(
    "text",
    [
        "a: [1\n",
        "[1, 2]\n",
        "metadata: {name: a}\n",
        "spec: 1\n",
        "kind: Job\n",
        "<<<<<<< HEAD\n",
        "",
        "apiVersion: {{ .a }}\n",
    ],
)
def test_a_file_that_may_be_a_broken_manifest_is_an_error(fleet: Fleet, text: str) -> None:
    """A manifest that loses its keys in an edit must not vanish with a note."""
    fleet.write("jobs/broken.yaml", text)
    linted = fleet.run("lint")
    assert linted.code == 3
    assert "jobs/broken.yaml" in linted.out


def test_what_sops_encrypted_passes(fleet: Fleet) -> None:
    """F-150: without an error, and its values are in no output."""
    fleet.write("jobs/secret.yaml", SOPS)
    fleet.write("jobs/sealed.yaml", SEALED)
    planned = fleet.run("plan", "--width", "200")
    assert planned.code == 0, planned.out
    assert "Secret default/registry" in planned.out
    assert "ENC[" not in planned.out
    assert "sops: unknown field" not in planned.out


@pytest.mark.parametrize("edit", ["kind: Secret", "sops:\n  lastmodified"])
def test_a_secret_with_a_plain_value_is_refused_as_before(fleet: Fleet, edit: str) -> None:
    """Neither a value that is not encrypted, nor a field of that name without a signature."""
    text = (
        SOPS.replace("  password", "  other: plain\n  password")
        if edit == "kind: Secret"
        else SOPS.replace("mac:", "mc:")
    )
    fleet.write("jobs/secret.yaml", text)
    linted = fleet.run("lint")
    assert linted.code in {3, 4}
    assert ("no-secrets-in-git" if edit == "kind: Secret" else "sops") in linted.out


def test_patterns_leave_files_out(fleet: Fleet) -> None:
    """F-150: `spec.exclude`, and `.sourceignore` as Flux reads it: a deeper file decides."""
    for name in ("one", "two", "three", "four"):
        fleet.write(f"jobs/deep/{name}.yaml", "metadata: {name: broken}\n")
    assert fleet.run("lint").out.count("jobs/deep/") >= 4
    fleet.edit("reconciler.yaml", "  sources:", "  exclude: [/jobs/deep/one.yaml]\n  sources:")
    fleet.write(".sourceignore", "# of Flux\n**/deep/t*\n")
    fleet.write("jobs/deep/.sourceignore", "!three.yaml\nfour.yaml\n")
    linted = fleet.run("lint")
    assert {name for name in ("one", "two", "three", "four") if f"jobs/deep/{name}.yaml" in linted.out} == {"three"}


def test_fewer_files_weaken_a_review(fleet: Fleet) -> None:
    """A pull request that leaves files out says so."""
    fleet.edit("reconciler.yaml", "  sources:", "  exclude: [jobs/vision/]\n  sources:")
    planned = fleet.run("plan", "--base", "main", "--width", "200")
    assert "jobs/vision/ is no longer read" in planned.out
    assert planned.code != 0


def test_signs_of_builds_in_the_name_of_a_file_mean_nothing(fleet: Fleet) -> None:
    """Only the path of a build names clusters."""
    fleet.write("jobs/a#b@other.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kept}\n")
    planned = fleet.run("plan", "--width", "200")
    assert "ConfigMap default/kept on main" in planned.out, planned.out
