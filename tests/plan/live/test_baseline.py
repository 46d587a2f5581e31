"""`LiveBaseline` as a value: what a plan sees of objects that are as desired, differ, keep drift, or are not ours."""

from typing import Any

import msgspec

from reconciler.kube.objects import ObjectKey, SourceRef
from reconciler.kube.problems import Problem
from reconciler.plan import Drift, LiveVersion, opening
from reconciler.plan.live.baseline import LiveBaseline, LiveContent, LiveFields, LiveObject
from reconciler.plan.live.choices import NO_CHOICES
from reconciler.plan.live.drift import DriftRules
from reconciler.plan.live.reading import LiveIdentity
from reconciler.repo.config.drift import DriftPolicy

_KEY = ObjectKey(group="", kind="ConfigMap", namespace="team-a", name="settings")
_PROBLEM = Problem(rule="live.foreign", place=SourceRef(path="rendered/main/team-a/configmap-theirs.yaml"), message="")
_DRIFT = Drift(cluster="main", key=_KEY, path="rendered/main/team-a/configmap-kept.yaml", field="data.size")
_LIVE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "settings", "namespace": "team-a", "uid": "1", "resourceVersion": "7"},
    "data": {"size": "8", "zone": "a"},
}


def _baseline() -> LiveBaseline:
    identity = LiveIdentity(key=_KEY, version=LiveVersion(uid="1", resource_version="7"), is_terminating=False)
    content = LiveContent(whole=msgspec.json.encode(_LIVE))
    found = {
        "main/differs": LiveObject(version="1/x", identity=identity, content=content, adopted="argo", is_accepted=True),
        "main/kept": LiveObject(
            version="blob",
            is_as_desired=True,
            identity=identity,
            content=content,
            left=(_DRIFT,),
            omitted=(("data", "size"),),
        ),
        "main/theirs": LiveObject(version="2", foreign=_PROBLEM),
    }
    return LiveBaseline(
        fields=LiveFields(kinds=opening.kinds(), catalogue=opening.catalogue()),
        rules=DriftRules(policy=DriftPolicy(), choices=NO_CHOICES, day=""),
        versions={"main/same": "blob", **{path: one.version for path, one in found.items()}},
        found=found,
        deleted={},
        doubts=(),
        warnings={},
        states=(),
    )


def test_what_differs() -> None:
    baseline = _baseline()
    desired = dict.fromkeys(("main/same", "main/differs", "main/kept", "main/theirs"), "blob")
    assert baseline.differing(desired) == ["main/differs", "main/theirs"]
    assert [*baseline.identities()] == ["main/differs"]
    assert [path for path in desired if baseline.is_accepted(path)] == ["main/differs"]
    assert baseline.adopted() == {"main/differs": "argo"}
    assert baseline.left() == {"main/kept": (_DRIFT,)}


def test_what_exists() -> None:
    baseline = _baseline()
    found = baseline.objects(["main/differs", "main/theirs", "main/same"])
    assert {path: one.is_owned for path, one in found.items()} == {
        "main/differs": True,
        "main/theirs": False,
        "main/same": True,
    }
    summary = found["main/differs"].summary
    assert summary is not None
    assert (summary.key, summary.digest) == (_KEY, "1/x")
    assert baseline.foreign("main/theirs") is _PROBLEM
    assert baseline.live("main/differs") == _LIVE
    body = baseline.body("main/differs")
    assert body is not None
    assert body["metadata"] == {"name": "settings", "namespace": "team-a"}, "without what only servers write"
    assert baseline.body("main/same") is None


def test_drift_that_stays_is_not_sent() -> None:
    baseline = _baseline()
    assert baseline.sent("main/kept", _LIVE, _LIVE)["data"] == {"zone": "a"}
    assert baseline.sent("main/differs", _LIVE, _LIVE)["data"] == _LIVE["data"]
    changed = {**_LIVE, "data": {"size": "9", "zone": "a"}}
    assert baseline.version_of("main/kept", changed) == baseline.version_of("main/kept", _LIVE)
    assert baseline.version_of("main/differs", changed) != baseline.version_of("main/differs", _LIVE)
