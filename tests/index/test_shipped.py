"""Rules and schemas that ship with the program are made ready once, whatever the number of repositories."""

from collections.abc import Iterator

import msgspec
import pytest

from reconciler import resources
from reconciler.index.parsed import load_mapping
from reconciler.index.runtime import Shipped
from reconciler.plan import opening
from reconciler.policy.admission.programs import Programs
from reconciler.policy.rule_book import load_rules
from tests.fakes.cache import MemoryCache
from tests.index.fleets import START, MemoryFleet, config_map
from tests.ready import shipped_values

OWN = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: own}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: ["*"], resources: [configmaps]}]}
  validations: [{expression: "object.metadata.name != 'refused-by-own'"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: own}
spec: {policyName: own, validationActions: [Deny]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: again}
spec: {policyName: pinned-images, validationActions: [Audit]}
"""


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the process know no programs, as at its start."""
    monkeypatch.setattr(Programs, "_built", {})
    monkeypatch.setattr(Programs, "_known", {})


def cold_fleet(files: dict[str, str] | None = None) -> MemoryFleet:
    """Return a fleet that nothing is ready for."""
    fleet = MemoryFleet(files)
    fleet.cache.kept.clear()
    return fleet


def key_of(cache: MemoryCache) -> str:
    (key,) = (key for key in cache.kept if key.startswith("shipped:"))
    return key


@pytest.mark.usefixtures("fresh")
def test_another_repository_reads_and_checks_nothing_again(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = cold_fleet(), cold_fleet()
    expected = first.warm()
    second.cache.kept.update({key: raw for key, raw in first.cache.kept.items() if key.startswith("shipped:")})

    def refuse(*arguments: object) -> None:
        raise AssertionError(arguments)

    monkeypatch.setattr(Programs, "_built", {})
    monkeypatch.setattr("reconciler.policy.admission.programs.check", refuse)
    monkeypatch.setattr(opening, "_read_bundle", refuse)
    assert second.warm() == expected


@pytest.mark.usefixtures("fresh")
def test_a_repository_adds_nothing_of_its_own() -> None:
    """Its policies, and its bindings of shipped ones, are its own business: another repository never sees them."""
    fleet = cold_fleet({**START, "policies/own.yaml": OWN, "manifests/refused.yaml": config_map("refused-by-own")})
    assert "refused-by-own" in fleet.warm()
    (programs,) = (raw for key, raw in fleet.cache.kept.items() if key.startswith("programs:"))
    own = msgspec.msgpack.decode(programs, type=dict[str, bytes])
    assert any(b"refused-by-own" in raw for raw in own.values())
    value = fleet.cache.kept[key_of(fleet.cache)]
    assert b"refused-by-own" not in value
    assert b"q1" not in value


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("damage", ["the value", "its parts"])
def test_damage_is_repaired(damage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rules and expressions that cannot be decoded are made again."""
    fleet = cold_fleet()
    expected = fleet.warm()
    key = key_of(fleet.cache)
    known = load_mapping(fleet.cache, key)
    made = {name: raw for name, raw in known.items() if not name.endswith(".json")}
    spoilt = known | {name: raw[: len(raw) // 2] for name, raw in made.items()}
    monkeypatch.setattr(Programs, "_built", {})
    another = cold_fleet()
    another.cache.kept[key] = b"\xc1" if damage == "the value" else msgspec.msgpack.encode(spoilt)
    assert another.warm() == expected
    assert load_mapping(another.cache, key).items() >= made.items()


def tools(cache: MemoryCache, engine: str, *rules: str) -> Shipped:
    kinds, catalogue = opening.kinds(), opening.catalogue()
    paths = [f"policies/{rule}/rule.yaml" for rule in rules]

    def read(paths: list[str]) -> Iterator[bytes]:
        return map(resources.read, paths)

    return Shipped(cache, engine=engine, paths=paths, read=read, kinds=kinds, catalogue=catalogue)


def test_engines_do_not_share() -> None:
    cache = MemoryCache()
    for engine in ("1+a", "1+b"):
        shipped = tools(cache, engine, "pinned-images")
        assert shipped.rules
        shipped.save()
    assert cache.kept.keys() == {"shipped:1+a", "shipped:1+b"}


def test_what_two_runs_make_is_kept() -> None:
    """Both began with an empty cache; the second saves while the first has saved already."""
    cache = MemoryCache()
    one, other = tools(cache, "1", "pinned-images"), tools(cache, "1", "no-literal-secrets")
    policies = [load_rules([], {}, shipped=each.rules).policies for each in (one, other)]
    for each, rules in zip((one, other), policies, strict=True):
        each.recall(rules)
        for policy, _ in rules.bound:
            rules.shipped_programs.of(policy)
    one.save()
    before = load_mapping(cache, "shipped:1")
    other.save()
    after = load_mapping(cache, "shipped:1")
    assert after.items() > before.items()
    assert all(rules.shipped_programs.made.items() <= after.items() for rules in policies)


def test_every_shipped_rule_is_ready_for_tests() -> None:
    (value,) = shipped_values().values()
    names = msgspec.msgpack.decode(value, type=dict[str, bytes])
    assert {name for name in names if name.startswith("shipped ")} == {
        f"shipped {path}" for path in opening.rule_paths()
    }
