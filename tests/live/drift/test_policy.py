"""Drift as a decision on the real API server: revert, adopt and ignore, by `spec.drift` of reconciler.yaml."""

import json
from typing import Any

import pytest
import yaml

from tests.cli.fleet import Fleet
from tests.forge.project import RemoteBranches
from tests.forge.stub import StubForge, served
from tests.live.apply.conftest import Site
from tests.live.drift.test_ownership import words

_IGNORE = {"action": "ignore", "kind": "ConfigMap", "reason": "the team tunes it", "expires": "2027-01-31"}


def decide(site: Site, **drift: Any) -> None:
    """Set `spec.drift`, as a commit that is on the base already."""
    path = site.fleet.root / "reconciler.yaml"
    config = yaml.safe_load(path.read_text())
    config["spec"]["drift"] = drift
    path.write_text(yaml.safe_dump(config))
    site.fleet.commit("decide about drift")


def edit(site: Site, name: str, **data: str | None) -> None:
    site.cluster.patch(site.key("ConfigMap", name), {"data": data}, manager="kubectl-edit")


def start(site: Site) -> None:
    site.config_map("one", a="1", b="1")
    site.config_map("other", a="1")
    assert site.reconcile().code == 0


def test_drift_that_a_rule_ignores_stays(site: Site) -> None:
    """F-143: the field stays through applies of other fields, until the rule expires."""
    start(site)
    decide(site, rules=[_IGNORE | {"fields": ["data.a"]}])
    edit(site, "one", a="tuned", b="tuned")
    planned = site.plan()
    assert planned.code == 0, planned.out + planned.err
    assert "the team tunes it through 2027-01-31" in words(planned)
    assert site.changes() == ["update ConfigMap/one"]
    assert site.apply().code == 0
    assert site.live("ConfigMap", "one")["data"] == {"a": "tuned", "b": "1"}
    assert site.plan("--exit-code").code == 0, "the ignored field is no change"

    site.config_map("one", a="1", b="2")
    assert site.reconcile().code == 0
    assert site.live("ConfigMap", "one")["data"] == {"a": "tuned", "b": "2"}

    expired = site.plan("--date", "2027-02-01")
    assert "drift.rule-expired" in expired.out
    assert site.changes() == ["update ConfigMap/one"]
    assert site.apply("--date", "2027-02-01").code == 0
    assert site.live("ConfigMap", "one")["data"] == {"a": "1", "b": "2"}


def test_adopted_drift_becomes_a_change_request(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """F-143, F-161: the edit of the source, once; closed when the cluster says what Git says."""
    start(site)
    decide(site, action="adopt")
    fleet, origin = site.fleet, Fleet(site.fleet.root.parent / "origin", site.fleet.capture)
    fleet.git("init", "--quiet", "--bare", str(origin.root))
    fleet.git("remote", "add", "origin", str(origin.root))
    stub = StubForge(kind="gitlab", branches=RemoteBranches(origin.git))
    with served(stub) as url:
        monkeypatch.setenv("RECONCILER_FORGE_TOKEN", "canary-token")
        monkeypatch.setenv("RECONCILER_FORGE_HOST", url.removeprefix("http://"))
        config = yaml.safe_load((fleet.root / "reconciler.yaml").read_text())
        config["spec"]["forge"] = {"kind": "gitlab", "url": url, "repository": "team/fleet"}
        (fleet.root / "reconciler.yaml").write_text(yaml.safe_dump(config))
        fleet.commit("forge")
        fleet.git("push", "--quiet", "origin", "HEAD:refs/heads/main")
        edit(site, "one", a="live")
        for _ in range(2):
            shown = fleet.run("drift", *site.flags, "--change-request")
            assert shown.code == 0, shown.err
        (request,) = stub.requests
        assert (request.branch.startswith("reconciler/drift/"), "jobs/one.yaml" in request.body) == (True, True)
        assert "live" in origin.git("show", f"{stub.branches[request.branch]}:jobs/one.yaml")
        edit(site, "one", a="1")
        assert fleet.run("drift", *site.flags, "--change-request").code == 0
        assert request.state == "closed"


def test_adopted_drift_becomes_an_edit_of_its_line(site: Site) -> None:
    """F-143: the apply leaves the field, `reconciler drift` shows the edit, and then Git says what the cluster has."""
    start(site)
    decide(site, action="adopt")
    source = site.fleet.root / "jobs/one.yaml"
    source.write_text("# kept comment\n" + source.read_text())
    site.fleet.commit("comment")
    assert site.fleet.run("commit").code == 0  # that `b` was removed on the cluster is seen from rendered/
    edit(site, "one", a="live", b=None)
    assert site.plan().code == 0
    assert site.changes() == []
    shown = site.fleet.run("drift", *site.flags)
    assert shown.code == 0, shown.err
    assert f"ConfigMap/{site.name}/one on main: data.a: live (Git: 1): adopt" in shown.out
    assert "changed by kubectl-edit (Update" in shown.out
    assert "from jobs/one.yaml:4:" in shown.out
    assert "-  a: '1'\n-  b: '1'\n+  a: 'live'\n" in shown.out
    assert site.fleet.run("drift", "--write", "--exit-code", *site.flags).code == 1
    assert source.read_text().startswith("# kept comment\n")
    assert yaml.safe_load(source.read_text())["data"] == {"a": "live"}
    again = site.fleet.run("drift", "--exit-code", *site.flags)
    assert (again.code, again.out) == (0, "")
    assert site.reconcile().code == 0
    assert site.live("ConfigMap", "one")["data"] == {"a": "live"}


def test_all_drift_can_be_adopted_whatever_the_policy_says(site: Site) -> None:
    """F-143: without `spec.drift`, an apply would revert it."""
    start(site)
    edit(site, "other", a="live")
    shown = site.fleet.run("drift", *site.flags)
    assert ": revert" in shown.out
    assert "+++" not in shown.out
    assert "+  a: 'live'" in site.fleet.run("drift", "--all", *site.flags).out


def test_an_object_that_somebody_deleted_is_drift(site: Site) -> None:
    """F-143: only if it was applied, and Git had it then: a new object of Git was not deleted by anybody."""
    start(site)
    site.config_map("new")
    site.fleet.commit()
    body = site.live("ConfigMap", "one")
    site.cluster.delete(site.key("ConfigMap", "one"), uid=body["metadata"]["uid"], propagation="Background")
    shown = site.fleet.run("drift", "--exit-code", *site.flags)
    assert shown.code == 1, shown.err
    line = f"ConfigMap/{site.name}/one on main: (absent) (Git: present): revert"
    assert shown.out.splitlines() == [line, "  deleted by somebody; from jobs/one.yaml:1:1"]
    planned = site.plan()
    assert planned.code == 0, planned.err
    assert f"ConfigMap/{site.name}/one on main (the object) (absent) present revert" in words(planned)
    assert site.changes() == ["create ConfigMap/new", "create ConfigMap/one"]
    assert site.apply().code == 0
    assert site.fleet.run("drift", "--exit-code", *site.flags).code == 0

    site.remove("jobs/one.yaml")
    assert site.reconcile().code == 0
    site.config_map("one")
    site.fleet.commit()
    again = site.fleet.run("drift", "--exit-code", *site.flags)
    assert (again.code, again.out) == (0, ""), "an object that we deleted ourselves, and that comes again"


def test_what_was_not_compared_is_never_free_of_drift(site: Site) -> None:
    """F-143: an object of somebody else in the way, and a file with errors, hide what others changed."""
    start(site)
    site.config_map("theirs")
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": site.metadata("theirs"), "data": {"a": "theirs"}}
    uid = site.cluster.create(body, manager="kubectl").body["metadata"]["uid"]
    hidden = site.fleet.run("drift", *site.flags)
    assert hidden.code == 3
    assert "no drift" not in hidden.err
    assert "live.foreign" in hidden.err
    assert "not compared" in hidden.err

    site.cluster.delete(site.key("ConfigMap", "theirs"), uid=uid, propagation="Background")
    assert site.fleet.run("drift", *site.flags).code == 0
    edit(site, "one", a="live")
    edit(site, "other", a="live")
    source = site.fleet.root / "jobs/one.yaml"
    source.write_text(source.read_text().replace("\ndata:", "\nimmutable: perhaps\ndata:"))
    broken = site.fleet.run("drift", "--exit-code", *site.flags)
    assert broken.code == 3
    assert f"ConfigMap/{site.name}/other on main: data.a: live (Git: 1): revert" in broken.out
    assert "jobs/one.yaml:" in broken.err
    assert "immutable" in broken.err
    assert "no drift" not in broken.err


def test_a_secret_is_not_adopted(site: Site) -> None:
    """F-143: neither the value nor a part of it is shown or written."""
    start(site)
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": site.metadata("login"), "data": {"password": "env"}}
    site.write("jobs/login.yaml", body)
    assert site.reconcile().code == 0
    edit(site, "login", password="hunter2hunter2")
    shown = site.fleet.run("drift", "--all", "--write", *site.flags)
    assert "hunter2" not in shown.out + shown.err
    assert "holds a secret" in shown.err
    assert "hunter2" not in (site.fleet.root / "jobs/login.yaml").read_text()


def test_an_ignored_replica_count_leaves_the_scaler_its_field(site: Site) -> None:
    """F-143: as with an autoscaler; the rule names the manager, so that a person's edit is still reverted."""
    rule = {"action": "ignore", "kind": "Deployment", "fields": ["spec.replicas"], "manager": "hpa"}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": site.metadata("web"),
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "example.com/web:1"}]},
            },
        },
    }
    site.write("jobs/web.yaml", deployment)
    assert site.reconcile().code == 0
    decide(site, rules=[rule | {"reason": "the autoscaler decides", "expires": "2027-01-31"}])
    key = site.key("Deployment", "web", "apps")
    site.cluster.patch(key, {"spec": {"replicas": 5}}, manager="hpa")
    deployment["spec"]["template"]["spec"]["containers"][0]["image"] = "example.com/web:2"  # type: ignore[index]
    site.write("jobs/web.yaml", deployment)
    assert site.plan().code == 0
    site.cluster.patch(key, {"spec": {"replicas": 6}}, manager="hpa")  # it scales on, and the plan is not stale
    assert site.apply().code == 0
    spec = site.live("Deployment", "web", "apps")["spec"]
    assert (spec["replicas"], spec["template"]["spec"]["containers"][0]["image"]) == (6, "example.com/web:2")
    site.cluster.patch(key, {"spec": {"replicas": 7}}, manager="kubectl-edit")
    assert site.reconcile().code == 0
    assert site.live("Deployment", "web", "apps")["spec"]["replicas"] == 2


def test_a_rule_that_ignores_needs_a_reason_and_a_last_day(site: Site) -> None:
    decide(site, rules=[{"action": "ignore", "kind": "ConfigMap"}])
    refused = site.fleet.run("lint")
    assert refused.code == 3
    assert "needs reason and expires" in refused.err


def test_to_ignore_more_needs_an_approval(site: Site) -> None:
    """F-143: a change that loosens what Git enforces is a setting that it weakens."""
    path = site.fleet.root / "reconciler.yaml"
    config = yaml.safe_load(path.read_text())
    config["spec"]["drift"] = {"rules": [_IGNORE]}
    path.write_text(yaml.safe_dump(config))
    planned = site.fleet.run("plan")
    assert planned.code == 5, planned.out
    assert "drift.rules" in planned.out


def test_a_field_of_ours_that_git_no_longer_says_is_drift(site: Site) -> None:
    """F-143: it left the sources before the base, so only its owner tells; an apply takes it away."""
    start(site)
    assert site.fleet.run("commit").code == 0
    site.config_map("one", a="1")
    site.fleet.commit("b leaves")
    assert site.fleet.run("commit").code == 0
    planned = site.plan("--base", "HEAD")
    assert planned.code == 0, planned.out + planned.err
    (change,) = json.loads(site.plan_file.read_bytes())["changes"]
    (drift,) = json.loads(site.plan_file.read_bytes())["drift"]
    assert [field["path"] for field in change["fields"]] == ["data.b"]
    assert (drift["field"], drift["live"], drift["hasGit"], drift["action"]) == ("data.b", "1", False, "revert")
    assert drift["managers"][0].startswith("reconciler (Apply")
    assert site.apply("--base", "HEAD").code == 0
    assert site.live("ConfigMap", "one")["data"] == {"a": "1"}
    assert site.plan("--exit-code").code == 0


def test_a_field_that_leaves_git_with_the_plan_is_a_change(site: Site) -> None:
    """The base still says it: Git removes it, and nobody drifted."""
    start(site)
    assert site.fleet.run("commit").code == 0
    site.config_map("one", a="1")
    base = site.fleet.git("rev-parse", "HEAD")
    assert site.plan("--base", base).code == 0
    plan = json.loads(site.plan_file.read_bytes())
    assert [field["path"] for field in plan["changes"][0]["fields"]] == ["data.b"]
    assert plan["drift"] == []
