"""`reconciler apply` on the real API server, as a person uses it."""

import json
from pathlib import Path

import yaml
from msgspec.structs import replace

from reconciler.kube.objects import ObjectKey
from reconciler.plan import Plan
from reconciler.plan.codec import encode, from_json
from reconciler.plan.digest import digest
from tests.cli.fleet import Ran
from tests.cluster.kubeconfig import with_contexts
from tests.live.apply.conftest import Site


def test_a_plan_is_carried_out_once(site: Site) -> None:
    """F-141, F-142: everything is created in order, nothing is left to do, and the same plan again does nothing."""
    site.config_map("one")
    site.config_map("two")
    site.queue("team-q")
    assert site.plan().code == 0
    ran, (applied,) = site.apply_json()
    assert ran.code == 0, ran.err
    assert [result["key"]["kind"] for result in applied["results"]] == ["Namespace", "Queue", "ConfigMap", "ConfigMap"]
    assert {result["ending"] for result in applied["results"]} == {"done"}
    assert site.live("ConfigMap", "one")["metadata"]["managedFields"][0]["manager"] == "reconciler"
    uids = {str(key): uids for key, uids in site.inventory().uids().items()}
    assert uids[f"ConfigMap/{site.name}/one"] == {site.live("ConfigMap", "one")["metadata"]["uid"]}
    assert len(uids) == 4
    version = site.live("ConfigMap", "one")["metadata"]["resourceVersion"]
    again = site.apply()
    assert (again.code, again.out) == (0, "")
    assert "nothing to apply" in again.err
    assert site.plan("--exit-code").code == 0
    assert site.changes() == []
    assert site.live("ConfigMap", "one")["metadata"]["resourceVersion"] == version


def test_an_update_and_a_deletion(site: Site) -> None:
    """F-142: what left Git is deleted, what changed is updated, and nothing else is written."""
    for name in ("one", "two", "three"):
        site.config_map(name)
    assert site.reconcile().code == 0
    before = site.live("ConfigMap", "three")["metadata"]["resourceVersion"]
    site.config_map("one", a="2")
    site.remove("jobs/two.yaml")
    assert site.plan().code == 0
    assert site.changes() == ["update ConfigMap/one", "delete ConfigMap/two"]
    ran = site.apply()
    assert ran.code == 0, ran.out + ran.err
    assert "updated     ConfigMap/" in ran.out
    assert "deleted     ConfigMap/" in ran.out
    assert site.live("ConfigMap", "one")["data"] == {"a": "2"}
    assert not site.exists("ConfigMap", "two")
    assert site.live("ConfigMap", "three")["metadata"]["resourceVersion"] == before
    assert site.key("ConfigMap", "two") not in site.inventory().uids()


def test_the_audit_says_who_what_and_with_which_result(site: Site) -> None:
    """The decision log, an event and the history tell the same."""
    site.config_map("one")
    assert site.reconcile().code == 0
    digest = json.loads(site.plan_file.read_bytes())["digest"]
    begun, ended = site.records()
    assert (begun["result"], ended["result"]) == ("Started", "Applied")
    assert {begun["plan"], ended["plan"]} == {digest}
    assert ended["user"] == "admin"
    assert ended["commit"] == site.fleet.git("rev-parse", "HEAD")
    assert ended["counts"] == {"create done": 2}
    events = list(
        site.cluster.list(site.cluster.resource("events.k8s.io", "Event"), namespace=site.place.namespace).objects
    )
    assert [event["reason"] for event in events] == ["PlanApplied"]
    assert digest in events[0]["note"]
    history = site.fleet.run("history", *site.flags)
    assert history.code == 0, history.err
    assert "Applied" in history.out
    assert digest.removeprefix("sha256:")[:12] in history.out
    (record,) = json.loads(site.fleet.run("history", "-o", "json", *site.flags).out)
    assert (record["result"], record["user"]) == ("Applied", "admin")


def test_an_edit_on_the_cluster_makes_the_plan_stale(site: Site) -> None:
    """F-143: `kubectl edit` between plan and apply; nothing is written."""
    site.config_map("one")
    site.config_map("other")
    assert site.reconcile().code == 0
    site.config_map("one", a="2")
    site.config_map("other", a="2")
    assert site.plan().code == 0
    site.cluster.patch(site.key("ConfigMap", "one"), {"data": {"a": "9"}}, manager="kubectl-edit")
    ran = site.apply()
    assert ran.code == 5
    assert "the plan is stale: main/" in ran.err
    assert site.live("ConfigMap", "one")["data"] == {"a": "9"}
    assert site.live("ConfigMap", "other")["data"] == {"a": "1"}


def test_a_status_is_no_edit(site: Site) -> None:
    """Controllers report all the time: that does not make a plan stale."""
    site.queue("q")
    assert site.reconcile().code == 0
    site.queue("q", quota=10)
    assert site.plan().code == 0
    key = ObjectKey(group="scheduling.run.ai", kind="Queue", namespace="", name="q")
    site.cluster.patch(
        key, {"status": {"allocated": {"nvidia.com/gpu": "1"}}}, manager="queuecontroller", subresource="status"
    )
    ran = site.apply()
    assert ran.code == 0, ran.out + ran.err


def test_new_commits_and_evidence_make_the_plan_stale(site: Site) -> None:
    site.config_map("one")
    assert site.plan().code == 0
    site.fleet.edit("jobs/one.yaml", "'1'", "'2'")
    site.fleet.commit()
    ran = site.apply()
    assert ran.code == 5
    assert "the plan is stale: the head" in ran.err
    assert not site.exists("ConfigMap", "one")
    assert site.plan().code == 0
    evidence = next((site.fleet.root / "evidence").rglob("*.yaml"))
    evidence.write_text(evidence.read_text().replace("count: 4", "count: 5") + "\n# edited\n")
    site.fleet.commit()
    assert site.apply().code == 5
    assert not site.exists("ConfigMap", "one")


_POLICY = """apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: named}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps]}]
  validations: [{expression: "object.metadata.name != 'forbidden'"}]
"""


def test_a_new_policy_makes_the_plan_stale(site: Site) -> None:
    """F-142: even one that allows everything that the plan does."""
    site.config_map("one")
    assert site.plan().code == 0
    site.write("policies/named.yaml", _POLICY)
    site.fleet.commit("policy")
    ran = site.apply()
    assert ran.code == 5, ran.err
    assert "the plan is stale" in ran.err
    assert not site.exists("ConfigMap", "one")


def _rewritten(site: Site, plan: Plan) -> None:
    """Save another plan as if it had been made so: its digest and its checksum are right."""
    site.plan_file.write_bytes(encode(replace(plan, digest=digest(plan))))


def test_a_plan_with_other_inputs_is_stale(site: Site) -> None:
    """F-142: a well-formed plan that another version made, or one with other policies, evidence or base."""
    site.config_map("one")
    assert site.plan().code == 0
    plan = from_json(site.plan_file.read_bytes())
    for name in ("engine", "policies", "evidence"):
        _rewritten(site, replace(plan, **{name: "0"}))
        ran = site.apply()
        assert (ran.code, f"{name}: 0 is now" in ran.err) == (5, True), ran.err
    _rewritten(site, replace(plan, base=replace(plan.base, tree="sha256:0")))
    ran = site.apply()
    assert (ran.code, "the base (" in ran.err) == (5, True), ran.err
    assert not site.exists("ConfigMap", "one")
    _rewritten(site, plan)
    assert site.apply().code == 0


def test_a_plan_of_uncommitted_work_is_not_applied(site: Site) -> None:
    site.config_map("one")
    site.fleet.run("plan", "--live", "--out", str(site.plan_file), *site.flags)
    ran = site.apply()
    assert ran.code == 2
    assert "a plan of the working tree cannot be applied" in ran.err


def test_a_plan_against_rendered_is_not_applied(site: Site) -> None:
    site.config_map("one")
    site.fleet.commit()
    site.fleet.run("plan", "--revision", "HEAD", "--out", str(site.plan_file))
    ran = site.apply()
    assert ran.code == 2
    assert "a plan against rendered/ cannot be applied" in ran.err


def test_a_plan_is_for_the_servers_that_it_was_made_for(site: Site, tmp_path: Path) -> None:
    """Creations alone name no object that would tell one cluster from another, such as staging from production."""
    site.config_map("one")
    assert site.plan().code == 0
    other = tmp_path / "other"
    other.write_text(site.server.kubeconfig.read_text().replace("127.0.0.1", "localhost"))
    command = ("apply", str(site.plan_file), "--no-wait", "--kubeconfig", str(other))
    refused = site.fleet.run(*command)
    assert refused.code == 5, refused.out
    assert "the plan was made for another server: main is https://127.0.0.1:" in refused.err
    assert "and https://localhost:" in refused.err
    assert "--context" in refused.err
    assert not site.exists("ConfigMap", "one")
    assert site.apply().code == 0


def test_a_plan_is_for_the_clusters_that_it_was_made_for(site: Site, tmp_path: Path) -> None:
    """A run that leaves one out, or adds one, says so, instead of calling the objects of that cluster changed."""
    path = site.fleet.root / "reconciler.yaml"
    config = yaml.safe_load(path.read_text())
    config["spec"]["clusters"].append({**config["spec"]["clusters"][0], "name": "two"})
    path.write_text(yaml.safe_dump(config))
    contexts = tmp_path / "contexts"
    contexts.write_text(with_contexts(site.server.kubeconfig, ("main", "two")))
    site.config_map("one")
    site.fleet.commit()

    def run(verb: str, *arguments: str) -> Ran:
        return site.fleet.run(verb, *arguments, "--kubeconfig", str(contexts))

    plan = ("--live", "--revision", "HEAD", "--out", str(site.plan_file))
    assert run("plan", *plan).code == 0
    narrow = run("apply", str(site.plan_file), "--cluster", "main")
    assert narrow.code == 5
    assert "the plan is for main and two, and this run for main: the changes of two are in one of them" in narrow.err
    assert "--cluster" in narrow.err
    assert run("plan", *plan, "--cluster", "main").code == 0
    wide = run("apply", str(site.plan_file))
    assert wide.code == 5
    assert "the plan is for main, and this run for main and two: the changes of two are in one of them" in wide.err
    assert not site.exists("ConfigMap", "one")


def test_an_edited_plan_file_is_refused(site: Site) -> None:
    site.config_map("one")
    assert site.plan().code == 0
    site.plan_file.write_text(site.plan_file.read_text().replace('"main"', '"main2"', 1))
    assert site.apply().code == 5
    assert not site.exists("ConfigMap", "one")


def test_a_namespace_that_goes_away_makes_the_plan_stale(site: Site) -> None:
    """Someone deletes a namespace between plan and apply: objects in it are never half applied."""
    other = f"{site.name}-other"
    site.write("queues/other.yaml", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": other}})
    assert site.reconcile().code == 0
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "bad", "namespace": other}, "data": {}}
    site.write("jobs/bad.yaml", body)
    site.config_map("better")
    assert site.plan().code == 0
    key = ObjectKey(group="", kind="Namespace", namespace="", name=other)
    namespace = site.cluster.get(key)
    assert namespace is not None
    site.cluster.delete(key, uid=namespace["metadata"]["uid"])
    ran = site.apply()
    assert ran.code in (5, 6)
    assert not site.exists("ConfigMap", "better")


def test_a_namespace_that_is_being_deleted_is_no_fault_of_its_objects(site: Site) -> None:
    """The same plan succeeds once the namespace is gone: nothing in the repository is invalid."""
    site.config_map("one")
    assert site.reconcile().code == 0
    site.config_map("two")
    key = ObjectKey(group="", kind="Namespace", namespace="", name=site.name)
    body = site.cluster.get(key)
    assert body is not None
    site.cluster.delete(key, uid=body["metadata"]["uid"], propagation="Background")
    planned = site.plan()
    assert planned.code == 6, planned.out
    assert "live.refused" not in planned.out
    assert "plan again when the namespace is gone" in " ".join(planned.out.split())
    drift = site.fleet.run("drift", *site.flags)
    assert drift.code == 6
    assert drift.err.count("plan again when") == 1


def test_a_failure_stops_only_what_needs_it(site: Site) -> None:
    """What only the real apply can find out: an address that the server refuses, in a namespace of the same plan."""
    spec = {"clusterIP": "192.0.2.1", "ports": [{"port": 80}]}
    site.config_map("good")
    site.write(
        "jobs/bad.yaml",
        {"apiVersion": "v1", "kind": "Service", "metadata": site.metadata("bad"), "spec": spec},
    )
    assert site.plan().code == 0
    ran, (applied,) = site.apply_json()
    assert ran.code == 7
    assert "applied in part: without 1 object that the cluster does not accept, shown above; fix the causes" in ran.err
    endings = {result["key"]["name"]: result["ending"] for result in applied["results"]}
    assert endings == {site.name: "done", "good": "done", "bad": "denied"}
    assert site.records()[-1]["result"] == "Failed"
    assert "192.0.2.1" in site.records()[-1]["failures"][0]["message"]
    # The cause is removed in Git: a new plan has only what is left.
    site.remove("jobs/bad.yaml")
    assert site.plan().code == 0
    assert site.changes() == []


def test_objects_that_are_not_ours_are_neither_changed_nor_deleted(site: Site) -> None:
    """F-142: one with our label that another tool applied, one that is in the way, one that only shares the namespace."""
    site.config_map("one")
    assert site.reconcile().code == 0
    label = {"app.kubernetes.io/managed-by": "gpu-reconciler"}
    for name, labels in (("labelled", label), ("plain", {})):
        metadata = {**site.metadata(name), "labels": labels}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "theirs"}}
        site.cluster.create(body, manager="kubectl")
    assert site.plan().code == 0
    assert site.changes() == []
    site.config_map("plain")
    ran = site.plan()
    assert ran.code == 3
    assert "is not ours" in " ".join(ran.out.split())
    ran = site.apply()
    assert ran.code == 3
    assert "is not ours" in " ".join(ran.out.split())
    assert [entry["manager"] for entry in site.live("ConfigMap", "plain")["metadata"]["managedFields"]] == ["kubectl"]


def test_foreign_objects_that_appear_for_all_of_a_plan_refuse_it(site: Site) -> None:
    """Nothing is left to do, but not because it was done: never "everything is as planned"."""
    site.config_map("first")
    assert site.reconcile().code == 0
    site.config_map("settings", a="ours")
    assert site.plan().code == 0
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": site.metadata("settings"), "data": {"a": "theirs"}}
    site.cluster.create(body)
    ran = site.apply()
    assert ran.code == 3
    assert "is not ours" in ran.out
    assert "as planned" not in ran.out + ran.err
    assert site.live("ConfigMap", "settings")["data"] == {"a": "theirs"}


def test_two_repositories_on_one_cluster(site: Site) -> None:
    """F-142: what another repository applied there is not in our inventory, so it never is a deletion of ours."""
    site.config_map("one")
    assert site.reconcile().code == 0
    site.fleet.edit("reconciler.yaml", "name: fleet", "name: other")
    site.remove("jobs/one.yaml")
    site.remove("queues/namespace.yaml")
    assert site.plan().code == 0
    assert site.changes() == []
    assert site.exists("ConfigMap", "one")


def test_drift_is_reverted_by_an_apply(site: Site) -> None:
    """F-143: the plan names who changed what; applying it takes the field back, and then nothing differs."""
    site.config_map("one")
    assert site.reconcile().code == 0
    site.cluster.patch(site.key("ConfigMap", "one"), {"data": {"a": "9"}}, manager="kubectl-edit")
    assert site.plan().code == 0
    (drift,) = json.loads(site.plan_file.read_bytes())["drift"]
    assert drift["managers"][0].startswith("kubectl-edit")
    ran = site.apply()
    assert ran.code == 0, ran.out + ran.err
    assert site.live("ConfigMap", "one")["data"] == {"a": "1"}
    assert site.plan().code == 0
    assert site.changes() == []


def test_a_kept_object_stays_until_a_person_deletes_it(site: Site) -> None:
    """The hint of the risk works: other annotations, for Flux and Argo CD, keep the object as well."""
    metadata = {**site.metadata("kept"), "annotations": {"gpureconciler.io/keep": "true"}}
    site.write("jobs/kept.yaml", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    assert site.reconcile().code == 0
    site.remove("jobs/kept.yaml")
    planned = site.plan()
    assert (planned.code, site.changes()) == (0, [])
    assert "risk.kept" in planned.out
    assert "to delete it, use kubectl" in planned.out
    uid = site.live("ConfigMap", "kept")["metadata"]["uid"]
    site.cluster.delete(site.key("ConfigMap", "kept"), uid=uid, propagation="Background")
    again = site.plan()
    assert "risk.kept" not in again.out
    assert site.changes() == []


def test_an_object_that_was_excluded_on_the_cluster_stays(site: Site) -> None:
    """Flux's own switch is heard: neither updated nor deleted."""
    site.config_map("one")
    assert site.reconcile().code == 0
    annotation = {"kustomize.toolkit.fluxcd.io/reconcile": "disabled"}
    site.cluster.patch(site.key("ConfigMap", "one"), {"metadata": {"annotations": annotation}}, manager="kubectl")
    site.config_map("one", a="2")
    planned = site.plan()
    assert planned.code == 0
    assert "live.excluded" in planned.out
    why = "because the cluster has kustomize.toolkit.fluxcd.io/reconcile: disabled"
    assert f"an apply does not update the object, {why}" in " ".join(planned.out.split())
    ran = site.apply()
    assert ran.code == 0, ran.out + ran.err
    assert "excluded    ConfigMap" in ran.out
    site.remove("jobs/one.yaml")
    planned = site.plan()
    assert planned.code == 0
    assert f"an apply does not delete the object, {why}" in " ".join(planned.out.split())
    assert "excluded    ConfigMap" in site.apply().out
    assert site.live("ConfigMap", "one")["data"] == {"a": "1"}
