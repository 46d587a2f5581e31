"""Offline and live verdicts agree, what was applied differs in nothing, and every changed field is found."""

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler import resources
from reconciler.kinds.manifests.manifest import Manifest
from reconciler.kinds.registry import BUILT_IN
from reconciler.kube.client import KubernetesCluster
from reconciler.kube.client.port import Body, ClusterError
from reconciler.kube.items import ListKeys
from reconciler.kube.objects import FieldPath, SourceRef, format_path
from reconciler.kube.schemas import Catalogue
from reconciler.plan.comparison import compare
from reconciler.plan.live.probe import Probe, ServerReply, probe
from reconciler.plan.live.projection import holds, is_same, project
from reconciler.plan.live.reading import at_once
from tests.cluster import test_agreement
from tests.cluster.client import Cause, Result
from tests.cluster.judges import SCHEMA_ONLY, refusals
from tests.cluster.mutations import Mutation, mutations
from tests.differential.edits import leaves
from tests.live.cluster.fixtures import key_of

CATALOGUE = Catalogue(resources)
FILES = ("custom", "plain", "workloads")
SPECIMENS: list[Body] = [
    body
    for name in FILES
    for body in yaml.safe_load_all((Path(test_agreement.__file__).parent / "specimens" / f"{name}.yaml").read_bytes())
]
EVERY = 20  # of more than ten thousand mutations


def result(case: Mutation, answer: Probe) -> Result:
    causes = tuple(Cause(field=one.field, message=one.message, reason=one.reason) for one in answer.causes)
    is_good = answer.reply is ServerReply.ACCEPTED
    return Result(name=case.name, ok=is_good, message=answer.message, causes=causes, body=answer.result or {})


def test_offline_and_live_verdicts_agree(private_cluster: KubernetesCluster, private_server: Any) -> None:
    """500 varied objects, good and broken: what the schemas refuse the server refuses, and the other way round."""
    cases = [(case, good) for good in SPECIMENS for case in list(mutations(good))[::EVERY]]
    private_server.client.ensure_namespaces(body["metadata"].get("namespace", "") for body in SPECIMENS)
    cases = [(case, good) for case, good in cases if isinstance(case.body.get("metadata"), dict)]
    assert len(cases) >= 500
    answers = at_once(lambda pair: probe(private_cluster, pair[0].body), cases)
    wrong = []
    for (case, good), answer in zip(cases, answers, strict=True):
        ours = refusals(CATALOGUE, case.body)
        server = result(case, answer)
        if (
            server.ok
            and ours
            and not all(test_agreement._server_keeps_another_value(one, case, server) for one in ours)
        ):
            wrong.append(f"{case.name}: refused by us alone: {ours[0].message}")
        is_judged = case.body.get("kind") not in SCHEMA_ONLY
        if is_judged and not server.ok and not ours and not test_agreement._beyond_us(server, good):
            wrong.append(f"{case.name}: {answer.reply}: {answer.message}")
    assert not wrong, "\n".join(wrong)


@pytest.fixture(scope="module")
def stored(private_cluster: KubernetesCluster, private_server: Any) -> list[tuple[Body, Body]]:
    """Apply a specimen of every kind for real; return what was applied and what is stored."""
    private_server.client.ensure_namespaces(["stored"])
    pairs = []
    for position, good in enumerate(SPECIMENS):
        body = copy.deepcopy(good)
        body["metadata"]["name"] = f"stored-{position}"
        if "namespace" in body["metadata"]:
            body["metadata"]["namespace"] = "stored"
        try:
            private_cluster.apply(body)
        except ClusterError:
            continue  # a kind whose name is not free to choose
        found = private_cluster.get(key_of(body), version=body["apiVersion"].rpartition("/")[2])
        assert found is not None
        pairs.append((body, found))
    assert len(pairs) > len(SPECIMENS) * 3 // 4
    return pairs


def list_keys(body: Body) -> ListKeys:
    key = key_of(body)
    return lambda path: CATALOGUE.list_keys(key.group, key.kind, path)


def test_what_was_applied_differs_in_nothing(
    private_cluster: KubernetesCluster, stored: list[tuple[Body, Body]]
) -> None:
    """Defaults, quantities, dropped fields and other managers are no difference."""
    answers = at_once(lambda pair: probe(private_cluster, pair[0]), stored)
    for (body, found), answer in zip(stored, answers, strict=True):
        name = f"{body['apiVersion']}/{body['kind']}"
        assert answer.result is not None, f"{name}: {answer.message}"
        assert is_same(found, answer.result), name
        before = project(body, found, answer.result, list_keys(body))
        assert not differences(body, before), name


def differences(body: Body, before: Body) -> list[str]:
    manifest = Manifest(cluster="main", key=key_of(body), body=body, source=SourceRef(path="a.yaml"))
    return [field.path for field in compare(BUILT_IN, CATALOGUE, before, manifest).fields]


def test_most_objects_need_no_dry_run(stored: list[tuple[Body, Body]]) -> None:
    """What was applied is recognized without asking the server, for most kinds."""
    asked = [body["kind"] for body, found in stored if not holds(body, found, list_keys(body))]
    assert len(asked) < len(stored) // 3, asked


def test_every_changed_field_is_found(stored: list[tuple[Body, Body]]) -> None:
    """Change or remove any value that we applied: the object is not taken for the desired one."""
    missed, count = [], 0
    for body, found in stored:
        if not holds(body, found, list_keys(body)):
            continue
        for name, drifted in changed(body, found):
            count += 1
            if holds(body, drifted, list_keys(body)):
                missed.append(f"{body['kind']}: {name}")
    assert not missed
    assert count > 300


def changed(body: Body, found: Body) -> Iterator[tuple[str, Body]]:
    """Yield the live object with one of the applied values changed, then without it."""
    for path in leaves(body, ()):
        if path[0] in {"apiVersion", "kind"} or path[:2] in {("metadata", "name"), ("metadata", "namespace")}:
            continue
        for verb in ("change", "remove"):
            drifted = copy.deepcopy(found)
            holder: Any = drifted
            try:
                for step in path[:-1]:
                    holder = holder[step]
                if holder[path[-1]] != at(body, path):
                    break  # the server has another order of items
                if verb == "remove":
                    del holder[path[-1]]
                else:
                    holder[path[-1]] = [*holder[path[-1]], "x"] if isinstance(holder[path[-1]], list) else "changed"
            except (KeyError, IndexError):
                break
            yield f"{verb} {format_path(path)}", drifted


def at(body: Any, path: FieldPath) -> Any:
    for part in path:
        body = body[part]
    return body
