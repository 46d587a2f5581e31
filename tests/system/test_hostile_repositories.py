"""A pull request to a repository that is built may hold anything: nothing of it runs, nothing leaves, nothing hangs."""

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.adopting.conftest import adopted
from tests.cli.fleet import Fleet

__all__ = ["adopted"]  # the fixture

CONFIG = """\
apiVersion: gpureconciler.io/v1alpha1
kind: ReconcilerConfig
metadata: {name: hostile}
spec:
  clusters: [{name: main, backend: none}]
  rendered: none
  sources:
    - {path: app, build: %s}
"""
JOB = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"


@pytest.fixture
def listener() -> Iterator[tuple[int, list[bytes]]]:
    """Return the port of a server that nobody should call, and what it was sent."""
    server = socket.create_server(("127.0.0.1", 0))
    calls: list[bytes] = []

    def serve() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            with connection:
                calls.append(connection.recv(1 << 12))

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield server.getsockname()[1], calls
    server.close()


def overlay(fleet: Fleet, kustomization: str, build: str = "kustomize") -> None:
    fleet.write("reconciler.yaml", CONFIG % build)
    fleet.write("app/job.yaml", JOB)
    fleet.write("app/kustomization.yaml", kustomization)


@pytest.mark.parametrize(
    ("line", "rule", "words"),
    [
        ("http://127.0.0.1:PORT/base.yaml", "build.remote", "may not use the network"),
        ("http://127.0.0.1:PORT/repo.git//deploy?ref=main", "build.remote", "may not use the network"),
        ("git@127.0.0.1:acme/base.git", "build.remote", "may not use the network"),
        ("../../../../etc/hostname", "build.outside", "is not inside the repository"),
        ("/etc/hostname", "build.outside", "is not inside the repository"),
        ("link.yaml", "build.special", "link.yaml"),
        ("absent.yaml", "build.failed", "absent.yaml"),
    ],
)
def test_a_base_from_elsewhere_is_refused(
    adopted: Fleet, listener: tuple[int, list[bytes]], line: str, rule: str, words: str
) -> None:
    """F-151: with its place; nothing is read outside the repository, and nobody is called."""
    port, calls = listener
    overlay(adopted, f"resources:\n  - job.yaml\n  - {line.replace('PORT', str(port))}\n")
    (adopted.root / "app/link.yaml").symlink_to("/etc/hostname")
    linted = adopted.run("lint", "--output", "json")
    assert linted.code == 3
    assert f'"{rule}"' in linted.out
    assert "app/kustomization.yaml" in linted.out
    assert words in linted.out
    assert Path("/etc/hostname").read_text().strip() not in linted.out
    assert calls == []


@pytest.mark.parametrize("field", ["generators", "transformers", "validators"])
def test_no_program_of_a_repository_runs(adopted: Fleet, tmp_path: Path, field: str) -> None:
    """An exec or container function is not run, whatever its annotation says."""
    proof = tmp_path / "ran"
    script = adopted.write("app/run.sh", f"#!/bin/sh\ntouch {proof}\n")
    script.chmod(0o755)
    function = "apiVersion: acme.example.com/v1\nkind: Run\nmetadata:\n  name: run\n  annotations:\n"
    function += "    config.kubernetes.io/function: |\n      exec: {path: ./run.sh}\n"
    adopted.write("app/function.yaml", function)
    overlay(adopted, f"resources: [job.yaml]\n{field}: [function.yaml]\n")
    linted = adopted.run("lint")
    assert linted.code == 3
    assert "app/kustomization.yaml" in linted.out
    assert not proof.exists()


def test_charts_in_overlays_are_not_fetched(adopted: Fleet, listener: tuple[int, list[bytes]]) -> None:
    port, calls = listener
    overlay(adopted, f"helmCharts: [{{name: redis, repo: 'http://127.0.0.1:{port}', version: 1.0.0}}]\n")
    linted = adopted.run("lint")
    assert (linted.code, "app/kustomization.yaml:1:14" in linted.out, calls) == (3, True, [])


def chart(fleet: Fleet, template: str, more: str = "") -> None:
    fleet.write("reconciler.yaml", CONFIG % "helm, release: app")
    fleet.write("app/Chart.yaml", f"apiVersion: v2\nname: app\nversion: 0.1.0\n{more}")
    fleet.write("app/templates/a.yaml", template)


@pytest.mark.parametrize(
    "template",
    [
        '{{ define "a" }}{{ template "a" . }}{{ end }}{{ template "a" . }}',  # calls itself
        "{{ range $i := until 2000000000 }}{{ $i }}{{ end }}",  # a list of 16 GB
        f"{JOB}data:\n  a: '{{{{ repeat 1073741824 \"x\" }}}}'\n",  # an object of 1 GiB
    ],
)
def test_a_chart_that_does_not_end_is_stopped(adopted: Fleet, monkeypatch: pytest.MonkeyPatch, template: str) -> None:
    """Its time, its memory and what it prints have limits."""
    monkeypatch.setattr("reconciler.repo.builds.programs.SECONDS", 20.0)
    chart(adopted, template)
    linted = adopted.run("lint")
    assert linted.code == 3, linted.out + linted.err
    assert "app/Chart.yaml" in linted.out
    assert len(linted.out) < 20_000


def test_a_chart_sees_no_secret_and_fetches_nothing(
    adopted: Fleet, monkeypatch: pytest.MonkeyPatch, listener: tuple[int, list[bytes]]
) -> None:
    port, calls = listener
    monkeypatch.setenv("DEPLOY_TOKEN", "canary-of-the-environment")
    template = f"{JOB}data:\n  a: '{{{{ env \"DEPLOY_TOKEN\" }}}}'\n"
    dependency = f"dependencies: [{{name: b, version: 1.0.0, repository: 'http://127.0.0.1:{port}'}}]\n"
    chart(adopted, template, dependency)
    linted = adopted.run("lint")
    assert linted.code == 3
    assert "canary" not in linted.out
    assert calls == []


def test_without_the_program_the_message_says_how_to_install_it(
    adopted: Fleet, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    git = next(Path(folder) for folder in os.environ["PATH"].split(os.pathsep) if (Path(folder) / "git").exists())
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/git").symlink_to(git / "git")
    chart(adopted, JOB)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    linted = adopted.run("lint")
    assert linted.code == 6
    assert "helm is not installed" in linted.err
    assert "https://helm.sh/docs/intro/install" in linted.err


def test_another_version_than_the_pinned_one_is_an_error_with_both(adopted: Fleet) -> None:
    chart(adopted, JOB)
    adopted.edit("reconciler.yaml", "  rendered: none\n", "  rendered: none\n  builds: {helm: v3.0.0}\n")
    linted = adopted.run("lint")
    assert linted.code == 2
    assert "spec.builds.helm pins v3.0.0" in linted.err
