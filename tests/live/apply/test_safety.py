"""A state machine edits Git, evidence, policies and live objects between plan and apply: no apply is unsafe.

Runs on the real API server. `RECONCILER_TEST_APPLY_RUNS` sets the number of examples; `make test-apply` runs 300.
"""

import itertools
import os
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from msgspec.structs import replace

from reconciler.clock import SystemClock
from reconciler.errors import ReconcilerError
from reconciler.index.runtime import RunOptions
from reconciler.kube.client import KubernetesCluster
from reconciler.kube.objects import ObjectKey
from reconciler.live.apply import Applied, ApplyRun, apply
from reconciler.live.apply.work import plan_work
from reconciler.plan import Plan, opening
from reconciler.plan.live.inventory import Place
from reconciler.plan.workspace import Workspace
from reconciler.repo.revision import read_config, resolve_head
from reconciler.settings import Settings
from tests.fakes.cache import MemoryCache
from tests.fakes.repository import MemoryRepository

if TYPE_CHECKING:
    from collections.abc import Callable


_EXAMPLES = int(os.environ.get("RECONCILER_TEST_APPLY_RUNS", "8"))
_STEPS = 12
_NAMES = ("a", "b", "c", "d")
_numbers = itertools.count(1)

names = st.sampled_from(_NAMES)
values = st.sampled_from(["1", "2", "3"])
Edit = tuple[int, str, str]
edits: st.SearchStrategy[list[Edit]] = st.one_of(
    st.just([]), st.lists(st.tuples(st.integers(0, 8), names, values), min_size=1, max_size=2)
)


def _policy(value: str) -> bytes:
    rule_ = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"]}
    validation = {"expression": f"!has(object.data) || object.data.a != 'forbidden-{value}'"}
    body = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "machine"},
        "spec": {"matchConstraints": {"resourceRules": [rule_]}, "validations": [validation]},
    }
    binding = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "machine"},
        "spec": {"policyName": "machine", "validationActions": ["Deny"]},
    }
    return yaml.safe_dump_all([body, binding]).encode()


def _names_in(plan: "Plan") -> set[str]:
    """Return the names of all objects that a plan changes, also those that it moves away."""
    moved = {change.moved_from.removesuffix(".yaml").rpartition("-")[2] for change in plan.changes if change.moved_from}
    return moved | {change.key.name for change in plan.changes}


class Machine(RuleBasedStateMachine):
    """One repository, one namespace, one saved plan. `moved`: what the saved plan was made from has changed since."""

    cluster: KubernetesCluster
    counts: dict[str, int]

    def __init__(self) -> None:
        super().__init__()
        self.namespace = f"machine-{os.getpid()}-{next(_numbers)}"
        self.place = Place(namespace=self.namespace, name="machine-main", source="machine")
        self.repository = MemoryRepository()
        self.cache = MemoryCache()
        runtime = opening.runtime(self.repository, self.cache, Settings(processes=1))
        self.runtime = replace(runtime, options=RunOptions(inventory_namespace=self.namespace))
        self.saved: Plan | None = None
        self.before: dict[str, Any] = {}
        self.inputs: dict[str, bytes] = {}
        self.foreign: dict[str, Any] = {}

    @initialize()
    def start(self) -> None:
        self.cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}})
        config = {
            "apiVersion": "gpureconciler.io/v1alpha1",
            "kind": "ReconcilerConfig",
            "metadata": {"name": "machine"},
            "spec": {
                "clusters": [{"name": "main", "namespace": self.namespace, "external": ["Namespace"]}],
                "budgets": {"emptySources": "allow", "deletes": {"count": 100, "share": 1}},
            },
        }
        self.repository.save({"reconciler.yaml": yaml.safe_dump(config).encode(), "policies/p.yaml": _policy("0")})

    # What people and other programs do.

    def write_source(self, name: str, value: str) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": self.namespace},
            "data": {"a": value},
        }
        self.repository.save({f"jobs/{name}.yaml": yaml.safe_dump(body).encode()})

    def remove_source(self, name: str) -> None:
        path = f"jobs/{name}.yaml"
        if path in self.repository.work:
            self.repository.save({path: None})

    def edit_policy(self, value: str) -> None:
        self.repository.save({"policies/p.yaml": _policy(value)})

    def edit_evidence(self, value: int) -> None:
        product = "NVIDIA-H100-80GB-HBM3"
        node = {
            "name": "node-1",
            "labels": {"nvidia.com/gpu.product": product},
            "gpu": {"product": product, "count": value},
        }
        body = {
            "apiVersion": "gpureconciler.io/v1alpha1",
            "kind": "NodeInventory",
            "metadata": {"name": "main"},
            "spec": {"cluster": "main", "takenAt": "2026-11-01T06:00:00Z", "nodes": [node]},
        }
        self.repository.save({"evidence/main/nodes.yaml": yaml.safe_dump(body).encode()})

    def edit_live(self, name: str, value: str) -> None:
        if self._live(name):
            self.cluster.patch(self._key(name), {"data": {"a": f"edited-{value}"}}, manager="kubectl-edit")

    def delete_live(self, name: str) -> None:
        body = self._live(name)
        if body:
            self.cluster.delete(self._key(name), uid=body["metadata"]["uid"], propagation="Background")
            self.foreign.pop(name, None)

    def create_foreign(self, name: str, value: str, *, labelled: bool) -> None:
        if self._live(name) is None:
            labels = {"app.kubernetes.io/managed-by": "gpu-reconciler"} if labelled else {"theirs": "yes"}
            metadata = {"name": name, "namespace": self.namespace, "labels": labels}
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": value, "b": "theirs"}}
            made = self.cluster.create(body, manager="kubectl")
            if not labelled:
                self.foreign[name] = made.body["metadata"]["uid"]

    def take_label(self, name: str, value: str) -> None:
        """Remove or change our label: the object is ours by its UID."""
        if self._live(name) and name not in self.foreign:
            label = {"app.kubernetes.io/managed-by": None if value == "1" else f"helm-{value}"}
            self.cluster.patch(self._key(name), {"metadata": {"labels": label}}, manager="helm")

    def touch_nothing(self, name: str) -> None:
        """Write an object as it is: nothing changes, so nothing is stale."""
        if self._live(name):
            self.cluster.patch(self._key(name), {}, manager="kubectl")

    # What we do.

    @rule(changed=st.dictionaries(names, st.sampled_from(["1", "2", "3", ""]), min_size=1), early=edits, late=edits)
    def change_plan_edit_apply(self, changed: dict[str, str], early: list[Edit], late: list[Edit]) -> None:
        """Change Git and plan; then, perhaps, others edit something; then apply."""
        for name in list(self.foreign):  # their owner removes them: they would block every later plan
            self.delete_live(name)
        for edit in early:
            self._carry_out(*edit)
        for name, value in changed.items():
            if value:
                self.write_source(name=name, value=value)
            else:
                self.remove_source(name=name)
        self.saved = self._work().plan
        self.before, self.inputs = self._snapshot(), dict(self.repository.work)
        for edit in late:
            self._carry_out(*edit)
        self.apply()

    def _carry_out(self, number: int, name: str, value: str) -> None:
        choices: list[Callable[[], None]] = [
            lambda: self.write_source(name=name, value=value),
            lambda: self.remove_source(name=name),
            lambda: self.edit_policy(value=value),
            lambda: self.edit_evidence(value=int(value)),
            lambda: self.edit_live(name=name, value=value),
            lambda: self.delete_live(name=name),
            lambda: self.touch_nothing(name=name),
            lambda: self.create_foreign(name=name, value=value, labelled=value != "1"),
            lambda: self.take_label(name=name, value=value),
        ]
        choices[number]()

    @precondition(lambda self: self.saved is not None)
    @rule()
    def apply(self) -> None:
        """Apply the saved plan, whatever happened since."""
        assert self.saved is not None
        before = self._snapshot()
        moved = dict(self.repository.work) != self.inputs or self._touched(before)
        run = ApplyRun(live=self.cluster, clock=SystemClock(), place=self.place, log=lambda _: None, wait_seconds=0.0)
        self.counts["applies"] += 1
        refusal = ""
        applied: tuple[Applied, ...] = ()
        try:
            applied = apply({"main": run}, self.saved, self._work(self.saved))
        except ReconcilerError as error:
            self.counts["refused"] += 1
            refusal = str(error)
        if refusal:
            assert self._snapshot() == before, f"refused, but something changed: {refusal}"
            return
        results = [result for one in applied for result in one.results]
        changed = self._changed(before, self._snapshot())
        planned = _names_in(self.saved)
        assert changed <= planned, f"{changed - planned} is not in the plan"
        if changed:
            self.counts["changed"] += 1
            assert not moved, f"applied although something moved: {moved}"
            assert all(result.ending.is_success for result in results), results
            assert self._work().plan.changes == ()

    @invariant()
    def foreign_objects_are_left_alone(self) -> None:
        for name, uid in self.foreign.items():
            body = self._live(name)
            assert body is not None, f"{name} is not ours, and gone"
            assert body["metadata"]["uid"] == uid
            managers = {entry["manager"] for entry in body["metadata"].get("managedFields", ())}
            assert "reconciler" not in managers, f"{name} is not ours, and we wrote it"

    def _touched(self, now: dict[str, Any]) -> set[str]:
        """Return the planned objects that are not as they were when the plan was made."""
        assert self.saved is not None
        planned = _names_in(self.saved)
        return self._changed(self.before, now) & planned

    @staticmethod
    def _changed(before: dict[str, Any], after: dict[str, Any]) -> set[str]:
        return {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}

    def _work(self, saved: Plan | None = None) -> Any:
        tree = resolve_head(self.repository, "HEAD")
        config = read_config(self.repository, tree, opening.catalogue, self.cache)
        return plan_work(Workspace(runtime=self.runtime, tree=tree, config=config), {"main": self.cluster}, saved=saved)

    def _key(self, name: str) -> ObjectKey:
        return ObjectKey(group="", kind="ConfigMap", namespace=self.namespace, name=name)

    def _live(self, name: str) -> dict[str, Any] | None:
        return self.cluster.get(self._key(name))

    def _snapshot(self) -> dict[str, Any]:
        """Return UID and content of all objects by name, without the inventory."""
        listing = self.cluster.list(self.cluster.resource("", "ConfigMap"), namespace=self.namespace)
        return {
            body["metadata"]["name"]: (body["metadata"]["uid"], body.get("data"), body["metadata"].get("labels"))
            for body in listing.objects
            if body["metadata"]["name"] in _NAMES
        }


def test_no_apply_is_unsafe(empty_cluster: KubernetesCluster, capsys: pytest.CaptureFixture[str]) -> None:
    """F-141, F-142, F-143: whatever moves between plan and apply, nothing is written that was not reviewed as it is."""
    counts = {"applies": 0, "refused": 0, "changed": 0}
    machine = type("BoundMachine", (Machine,), {"cluster": empty_cluster, "counts": counts})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=_EXAMPLES,
            stateful_step_count=_STEPS,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        ),
    )
    with capsys.disabled():
        print(f"\n{counts['applies']} applies: {counts['changed']} wrote, {counts['refused']} refused")  # noqa: T201
    assert min(counts.values()) >= _EXAMPLES
