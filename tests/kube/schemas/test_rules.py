"""Rules in CEL of definitions: where they are told, how values are seen, which definitions are wrong."""

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from reconciler import resources
from reconciler.kube.schemas import Catalogue
from reconciler.kube.schemas.rules.kind import RuleAllowance
from reconciler.kube.schemas.rules.shape import escape
from reconciler.kube.yaml import read

SHIPPED = Catalogue(resources)
DEFINITION = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Widget, plural: widgets}
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec:
              type: object
              x-kubernetes-validations:
                - {rule: self.least <= self.most, message: least must not exceed most, fieldPath: .least}
                - {rule: "!has(oldSelf.size) || self.size >= oldSelf.size", message: the size cannot shrink}
                - {rule: "oldSelf.hasValue() || self.most < 10", message: starts small, optionalOldSelf: true}
                - {rule: "self.token != 'x'", messageExpression: "'bad token ' + self.token"}
              properties:
                least: {type: integer, default: 2}
                most: {type: integer}
                size: {type: integer}
                token: {type: string, default: ""}
                wait: {type: string, format: duration}
                parts:
                  type: array
                  maxItems: 16
                  x-kubernetes-list-type: map
                  x-kubernetes-list-map-keys: [name]
                  items:
                    type: object
                    required: [name]
                    properties:
                      name: {type: string}
                      kind: {type: string, maxLength: 9, x-kubernetes-validations: [{rule: self == oldSelf, message: is fixed}]}
"""


def catalogue(definition: str = DEFINITION) -> Catalogue:
    return SHIPPED.with_definitions([yaml.safe_load(definition)])


KNOWN = catalogue()


def body(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": {"most": 5, **spec}}


def problems(text: str, known: Catalogue) -> list[str]:
    (document,) = read("a.yaml", text.encode()).documents
    return [str(problem) for problem in known.validate(document)]


def test_a_broken_rule_is_told_at_its_field() -> None:
    """The default counts, and fieldPath names the field."""
    text = "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: a}\nspec:\n  least: 3\n  most: 2\n"
    assert problems(text, KNOWN) == [
        "a.yaml:5:10: spec.least: least must not exceed most; the definition requires self.least <= self.most [schema.rule]"
    ]
    without = text.replace("  least: 3\n", "").replace("most: 2", "most: 1")
    assert problems(without, KNOWN) == [
        "a.yaml:4:1: spec.least: least must not exceed most; the definition requires self.least <= self.most [schema.rule]"
    ]
    assert problems(text.replace("most: 2", "most: 4"), KNOWN) == []


def test_a_shipped_definition_has_its_rules() -> None:
    text = (
        "apiVersion: kueue.x-k8s.io/v1beta2\nkind: ResourceFlavor\nmetadata: {name: h100}\nspec:\n"
        "  nodeTaints:\n    - {key: a, effect: Never}\n"
    )
    (found,) = problems(text, SHIPPED)
    assert found.startswith("a.yaml:6:5: spec.nodeTaints: supported taint effect values: 'NoSchedule'")


def test_changes_are_judged_beside_what_they_replace() -> None:
    """Items of lists are known by their keys, whatever their order."""
    before = body(size=3, parts=[{"name": "a", "kind": "x"}, {"name": "b", "kind": "y"}])
    after = body(size=2, parts=[{"name": "b", "kind": "z"}, {"name": "a", "kind": "x"}, {"name": "c", "kind": "w"}])
    assert [*KNOWN.violations(after)] == []
    found = {one.path: one.message for one in KNOWN.transitions(before, after)}
    assert found == {("spec",): "the size cannot shrink", ("spec", "parts", 0, "kind"): "is fixed"}
    assert KNOWN.transitions(before, before) == ()
    assert KNOWN.transitions({**before, "apiVersion": "example.com/v2"}, after) == ()


def test_rules_with_an_optional_old_value_judge_creations() -> None:
    assert [one.message for one in KNOWN.initial(body(most=20))] == ["starts small"]
    assert KNOWN.transitions(body(), body(most=20)) == ()
    assert KNOWN.judges_creations("example.com", "Widget")
    assert not KNOWN.judges_creations("batch", "Job")


def test_durations_are_those_of_go() -> None:
    for text, is_valid in (("1h30m", True), ("2 days", True), ("5 parsecs", False), ("soon", False)):
        assert ([*KNOWN.violations(body(wait=text))] == []) is is_valid, text


def test_a_wrong_rule_is_told_where_it_is_written() -> None:
    wrong = DEFINITION.replace("self.least <= self.most", "self.lest <= self.most")
    (found,) = problems(wrong, SHIPPED)
    assert found == (
        "a.yaml:19:26: spec.versions[0].schema.openAPIV3Schema.properties.spec.x-kubernetes-validations[0].rule: "
        "undefined field 'lest' (line 1, column 5 of the rule); variables are self and oldSelf, functions those of "
        "Kubernetes 1.37 [schema.bad-rule]"
    )
    (warned,) = catalogue(wrong).violations(body())
    assert (warned.rule, warned.severity) == ("schema.unusable", "warning")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("self.least <= self.most", "self.least"),
        ("fieldPath: .least", "fieldPath: .lest"),
        ("message: starts small, ", "message: '  ', "),
        ("{rule: \"self.token != 'x'\"", "{rule: \"self.token != 'x'\", optionalOldSelf: true"),
        ("{type: integer, default: 2}", "{type: integer, default: 2, x-kubernetes-validations: [{rule: self > 2}]}"),
        ("x-kubernetes-list-type: map", "x-kubernetes-list-type: atomic"),
        ("type: object\n              x-", 'type: object\n              not: {x-kubernetes-validations: [{rule: "true"}]}\n              x-'),
    ],
)  # fmt: skip
def test_what_a_server_refuses_in_a_definition_is_a_problem(old: str, new: str) -> None:
    """`tests/differential/rules.yaml` compares more with a real server."""
    assert problems(DEFINITION, SHIPPED) == []
    assert old in DEFINITION
    found = problems(DEFINITION.replace(old, new, 1), SHIPPED)
    assert found
    assert all("[schema.bad-rule]" in one or "x-kubernetes-list-map-keys" in one for one in found), found


def test_rules_that_cost_too_much_end() -> None:
    """A rule may take 1,000,000 steps and all of an object 10,000,000."""
    rule = "{rule: 'self.all(a, self.all(b, self.all(c, a + b + c >= 0)))'}"
    plain = f"{{type: array, items: {{type: integer}}, x-kubernetes-validations: [{', '.join([rule] * 12)}]}}"
    text = DEFINITION.replace('{type: string, default: ""}', plain)
    hostile = catalogue(text.replace("self.token != 'x'", "true").replace("'bad token ' + self.token", "'a'"))
    found = [one.message for one in hostile.violations(body(token=[1] * 300))]
    assert found[0].startswith("operation cancelled: actual cost limit exceeded in the rule: self.all(a")
    assert found[-1].startswith("the rules of the definition take too many steps")
    assert len(found) < 12
    assert [*hostile.violations(body(token=[1] * 3))] == []


@given(st.text(alphabet="a_.-/9é ", max_size=12))
def test_escaped_names_are_told_apart(name: str) -> None:
    """What can be spelled is an identifier that leads back to the name."""
    spelled = escape(name)
    if spelled is not None:
        assert spelled.isidentifier()
        back = spelled.replace("__dot__", ".").replace("__dash__", "-").replace("__slash__", "/")
        assert back.replace("__underscores__", "__") == name


@pytest.mark.parametrize("size", [float("inf"), float("nan"), 10**400, "x", [1], {"a": 1}, None])
def test_a_base_may_hold_what_no_server_takes(size: Any) -> None:
    """Only the new object is known to be valid: the old one ends a rule with an answer or an error."""
    found = KNOWN.transitions(body(size=size), body(size=1))
    assert {one.rule for one in found} <= {"schema.rule"}


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["name", "kind", "size"]), inner),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from(["least", "most", "size", "token", "parts", "wait"]), VALUES), VALUES)
def test_whatever_an_object_holds_ends_with_problems(spec: dict[str, Any], other: Any) -> None:
    """An object of the base may have any form; it is never an exception."""
    assert all(found.rule and found.message for found in KNOWN.violations(body(**spec)))
    KNOWN.transitions(body(**spec), body())
    KNOWN.transitions({**body(), "spec": other}, body())
    KNOWN.initial({**body(), "spec": other})


def test_objects_that_differ_in_an_untyped_field_are_no_shared_definition() -> None:
    """Equal parts of a schema are one definition: a field without a type is a difference."""
    sides = "".join(
        f"                {side}: {{type: object, properties: {{size: {{type: integer}}, {field}: {{}}}}}}\n"
        for side, field in (("left", "a"), ("right", "b"))
    )
    free = sides.replace(": {}}", ": {x-kubernetes-preserve-unknown-fields: true}}")
    known = catalogue(DEFINITION.replace("                least:", f"{free}                least:", 1))
    assert [*known.violations(body(left={"a": 1}, right={"b": 1}))] == []
    assert [one.rule for one in known.violations(body(right={"a": 1}))] == ["schema.unknown-field"]


def test_the_rules_of_a_repository_share_an_allowance(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server judges one object at a time, a plan all of them: what is not evaluated is an error, never a pass."""
    monkeypatch.setattr(RuleAllowance.__init__, "__defaults__", (30,))
    loops = DEFINITION.replace("self.token != 'x'", "[1, 2, 3].all(one, one < self.most)")
    known = catalogue(loops)
    found = [[*known.violations(body(size=1))] for _ in range(40)]
    assert found[0] == []
    (told,) = found[-1]
    assert (told.rule, told.severity) == ("schema.rule", "error")
    assert "have taken too many steps before this object" in told.message
    assert [*catalogue(loops).violations(body(size=1))] == []
