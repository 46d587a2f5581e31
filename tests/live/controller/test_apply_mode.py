"""Mode apply: what is merged arrives on the real API server, and drift is reverted."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from msgspec.structs import replace

from reconciler.console.access import ClusterFlags
from reconciler.controller.outcome import PassOutcome
from reconciler.controller.reconcile import Request, reconcile
from reconciler.controller.sources.source import ConfigSource, Mode
from reconciler.kube.client import KubernetesCluster
from reconciler.kube.objects import ObjectKey
from tests.cluster.server import ApiServer
from tests.fakes.gitrepo import Sandbox
from tests.live.controller.gitserver import GitServer
from tests.live.controller.test_pass import push

Pass = Callable[..., PassOutcome]
_SOURCE = """\
apiVersion: v1
kind: ConfigMap
metadata: {{name: app, namespace: {namespace}}}
data: {{greeting: {text}}}
"""


def sources(namespace: str, text: str) -> dict[str, bytes | None]:
    return {"jobs/app.yaml": _SOURCE.format(namespace=namespace, text=text).encode()}


@pytest.fixture
def namespace(empty_cluster: KubernetesCluster, private_server: ApiServer) -> str:
    """Return a new namespace of a cluster on which we own nothing; the inventory has its own."""
    name = f"apply-mode-{os.urandom(4).hex()}"
    private_server.client.ensure_namespaces([name, "gpu-reconciler"])
    return name


@pytest.fixture
def run(server: GitServer, private_server: ApiServer, tmp_path: Path) -> Pass:
    source = ConfigSource(namespace="default", name="fleet", url=server.url, mode=Mode.APPLY, timeout=60)

    def make(accepted: str = "", **changes: object) -> PassOutcome:
        access = ClusterFlags(kubeconfig=str(private_server.kubeconfig))
        request = Request(
            source=replace(source, **changes),
            folder=str(tmp_path / "state/sources/x"),
            accepted=accepted,
            access=access,
        )
        return reconcile(request, dict(os.environ))

    return make


def test_a_revision_is_applied_and_drift_is_reverted(
    server: GitServer, person: Sandbox, run: Pass, empty_cluster: KubernetesCluster, namespace: str
) -> None:
    key = ObjectKey(group="", kind="ConfigMap", namespace=namespace, name="app")
    others = person.git("ls-files", "jobs", "queues", "rendered").splitlines()
    tip = push(person, dict.fromkeys(others) | sources(namespace, "hello"))

    first = run()
    assert first.failure is None, first.failure
    assert (first.operations, first.message) == ({"created success": 1}, "applied 1 change")
    assert (empty_cluster.get(key) or {})["data"] == {"greeting": "hello"}
    assert server.tip() == tip, "nothing is written to Git"
    assert first.objects == (f"created ConfigMap/{namespace}/app: jobs/app.yaml:1:1",)
    names = [span.name for span in first.spans]
    assert names == ["fetch", "open", "plan", "apply", "reconcile"]

    quiet = run(accepted=tip)
    assert (quiet.failure, quiet.operations, quiet.message) == (None, {}, "as planned: nothing to apply")

    empty_cluster.patch(key, {"data": {"greeting": "edited"}}, manager="kubectl-edit")
    drifted = run(accepted=tip)
    assert drifted.plan is not None
    assert (drifted.failure, drifted.plan.drift) == (None, 1)
    (told,) = drifted.objects
    assert told.startswith(f"reverted ConfigMap/{namespace}/app: data.greeting changed by kubectl-edit (Update, 20")
    assert (empty_cluster.get(key) or {})["data"] == {"greeting": "hello"}

    tip = push(person, sources(namespace, "bye"))
    assert run().operations == {"configured success": 1}
    assert (empty_cluster.get(key) or {})["data"] == {"greeting": "bye"}


def test_what_the_cluster_does_not_accept_stops_only_itself(
    person: Sandbox, run: Pass, empty_cluster: KubernetesCluster, namespace: str
) -> None:
    """F-142: the condition says that it is a part, and names what is left out."""
    key = ObjectKey(group="", kind="ConfigMap", namespace=namespace, name="app")
    others = person.git("ls-files", "jobs", "queues", "rendered").splitlines()
    gone = f"apiVersion: gone.example.com/v1\nkind: Gone\nmetadata: {{name: gone, namespace: {namespace}}}\n"
    push(person, dict.fromkeys(others) | sources(namespace, "hello") | {"jobs/gone.yaml": gone.encode()})
    made = run()
    assert made.failure is not None
    assert (made.failure.reason, made.failure.stalled) == ("PartiallyApplied", True)
    assert made.failure.message.startswith("applied 1 change, and not: jobs/gone.yaml:1:1: ")
    assert (empty_cluster.get(key) or {})["data"] == {"greeting": "hello"}
    again = run()
    assert again.failure is not None
    assert again.failure.message.startswith("applied 0 changes, and not: jobs/gone.yaml:1:1: ")


def test_rendered_files_of_another_source_are_no_stale_plan(
    person: Sandbox, run: Pass, empty_cluster: KubernetesCluster, namespace: str
) -> None:
    """F-142: a source in the mode commit renders a revision while people push the next one, on the same branch."""
    key = ObjectKey(group="", kind="ConfigMap", namespace=namespace, name="app")
    others = person.git("ls-files", "jobs", "queues", "rendered").splitlines()
    tip = push(person, dict.fromkeys(others) | sources(namespace, "one"))
    assert run().failure is None
    text = sources(namespace, "two")["jobs/app.yaml"] or b""
    label = b"  labels: {app.kubernetes.io/managed-by: gpu-reconciler}\n"
    body = text.replace(b"metadata: {", b"metadata:\n" + label + b"  ").replace(b"name: app, ", b"name: app\n  ")
    rendered = {f"rendered/main/{namespace}/configmap-app.yaml": body.replace(b"}\ndata", b"\ndata")}
    edited: dict[str, bytes | None] = {"jobs/app.yaml": text, **rendered}
    push(person, edited)
    push(person, sources(namespace, "three"))
    made = run(accepted=tip)
    assert made.failure is None, made.failure
    assert (empty_cluster.get(key) or {})["data"] == {"greeting": "three"}


def test_drift_that_is_to_be_adopted_stays_and_is_counted(
    person: Sandbox, run: Pass, empty_cluster: KubernetesCluster, namespace: str
) -> None:
    """F-143: a controller that applies writes nothing to Git, so it says who does."""
    key = ObjectKey(group="", kind="ConfigMap", namespace=namespace, name="app")
    config = yaml.safe_load((person.folder / "reconciler.yaml").read_text())
    config["spec"]["drift"] = {"action": "adopt"}
    others = person.git("ls-files", "jobs", "queues", "rendered").splitlines()
    settings = {"reconciler.yaml": yaml.safe_dump(config).encode()}
    tip = push(person, dict.fromkeys(others) | settings | sources(namespace, "hello"))
    assert run().failure is None

    empty_cluster.patch(key, {"data": {"greeting": "edited"}}, manager="kubectl-edit")
    drifted = run(accepted=tip)
    assert drifted.failure is None
    assert (empty_cluster.get(key) or {})["data"] == {"greeting": "edited"}
    adopt = "1 drifted field to adopt into Git: run `reconciler drift --write`"
    assert drifted.message == f"as planned: nothing to apply; {adopt}"


def test_a_service_account_without_rights_changes_nothing(
    person: Sandbox, run: Pass, empty_cluster: KubernetesCluster, namespace: str
) -> None:
    others = person.git("ls-files", "jobs", "queues", "rendered").splitlines()
    push(person, dict.fromkeys(others) | sources(namespace, "hello"))
    refused = run(service_account="nobody")
    assert refused.failure is not None, refused
    assert empty_cluster.get(ObjectKey(group="", kind="ConfigMap", namespace=namespace, name="app")) is None
