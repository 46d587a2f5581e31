"""What rules of definitions may cost: the estimates of a real API server, and ours, to the digit."""

import copy
import math
import random
import re
from collections.abc import Iterator, Sequence
from typing import Any

from reconciler.adapters import bundle
from reconciler.core.problems import Severity
from reconciler.core.schemas import Catalogue
from reconciler.core.schemas.rules.costs import MOST_OF_A_RULE, estimated_cost
from reconciler.core.schemas.rules.rule import DefinitionRule
from reconciler.core.schemas.rules.shape import Shape
from reconciler.core.schemas.schema import RULES, Schema
from reconciler.core.schemas.strict import strict_custom
from tests.cluster.client import Client
from tests.differential.compare import ACCEPTED, OTHER_REASON, REFUSED, Comparison, Difference
from tests.differential.rules import CORPUS, GROUP, PATH, PlacedRule

_CATALOGUE = Catalogue(bundle)
_FACTOR = re.compile(r"estimated rule cost exceeds budget by factor of (more than 100|[\d.]+)x")
_SLIGHTLY_MORE = 1.2
"""Times the limit: a server prints such a factor with six digits."""


def compare_estimates(client: Client, rules: Sequence[PlacedRule]) -> Comparison:
    """Compare the estimate of each rule: in a map of so many objects that a server refuses it, and says by how much."""
    spec = CORPUS["schema"]["properties"]["spec"]
    cases, differences = 0, []
    for rule in rules:
        cost = _estimate(spec, rule.rule)
        if not cost:
            continue
        cases += 1
        times = max(1, math.ceil(_SLIGHTLY_MORE * MOST_OF_A_RULE / cost))
        ruled = {
            **copy.deepcopy(spec),
            RULES: [{k: v for k, v in rule.rule.items() if k in ("rule", "optionalOldSelf")}],
        }
        many = {"type": "object", "maxProperties": times, "additionalProperties": ruled}
        theirs, ours = _theirs(client, {"many": many}), _shown(cost * times / MOST_OF_A_RULE)
        if theirs != ours:
            differences.append(Difference(kind=OTHER_REASON, what=str(rule), theirs=theirs, ours=ours))
    return Comparison(cases=cases, differences=tuple(differences))


def compare_bounds(client: Client, seed: int, count: int) -> Comparison:
    """Ask whether random definitions can be installed, with and without limits on what is in them."""
    maker = random.Random(seed)  # noqa: S311 - the same ones each time
    differences = []
    for _ in range(count):
        fields = {"a": _schema(maker, 0), "b": _schema(maker, 0)}
        theirs = _theirs(client, fields)
        found = [one for one in _CATALOGUE.violations(_definition(fields)) if one.severity is Severity.ERROR]
        ours = next((one.message for one in found), "")
        if bool(theirs) != bool(ours):
            kind = ACCEPTED if theirs else REFUSED
            differences.append(Difference(kind=kind, what=str(fields), theirs=theirs, ours=ours))
    return Comparison(cases=count, differences=tuple(differences))


def _estimate(spec: Schema, rule: dict[str, Any] | Any) -> int:
    """Return our estimate of a rule about the object; 0 if it does not compile."""
    source = {"type": "object", "properties": {"spec": spec}}
    meta: Schema = {"$defs": {"ObjectMeta": {"type": "object"}}}
    strict = strict_custom(source, group="", version="", kind="", meta=meta)
    read = DefinitionRule(rule, Shape(strict, strict["properties"]["spec"], "selfType"))
    return estimated_cost(read.text, read) if read.checked is not None else 0


def _shown(factor: float) -> str:
    """Return a factor as a server prints it; nothing if that would accept the rule."""
    if factor <= 1:
        return ""
    if factor > 100:
        return "more than 100"
    return f"{factor:.6f}" if factor < 1.5 else f"{factor:.1f}"


def _theirs(client: Client, fields: dict[str, Any]) -> str:
    answer = client.request("POST", f"{PATH}?dryRun=All&fieldValidation=Strict", _definition(fields))
    found = _FACTOR.search(str(answer.body.get("message")))
    return "" if answer.ok else found[1] if found else str(answer.body.get("message"))


def _definition(fields: dict[str, Any]) -> dict[str, Any]:
    schema = {"type": "object", "properties": fields}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    spec = {"group": GROUP, "scope": "Namespaced", "names": {"kind": "One", "plural": "ones"}, "versions": [version]}
    metadata = {"name": f"ones.{GROUP}"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": spec,
    }


_ABOUT = {
    "string": ("self.startsWith('ab')", "self.matches('^[a-z0-9]+$')", "self.contains('abc')", "self.size() < 9",
               "self.split(',').all(x, x.lowerAscii() == x)"),
    "integer": ("self > 3", "self in [1, 2, 3]"),
    "boolean": ("self", "self == true"),
    "array": ("self.size() < 3", "self.all(x, self.exists(y, x == y))", "self.exists_one(x, x == x)",
              "self.map(x, x).size() > 0", "self.filter(x, x == x)[?0].optMap(x, x == x).orValue(true)"),
    "map": ("self.all(k, k.startsWith('a'))", "self.all(k, self[k] == self[k])", "self.size() < 10"),
    "object": ("has(self.one)", "!has(self.one) || self.one == self.one", "self == self"),
}  # fmt: skip


def _schema(maker: random.Random, depth: int) -> dict[str, Any]:
    kinds = ["string", "string", "integer", "boolean"] + (["array", "map", "object"] * 2 if depth < 3 else [])
    kind = maker.choice(kinds)
    schema: dict[str, Any] = {"type": "object" if kind == "map" else kind, **dict(_limits(maker, kind))}
    if kind == "array":
        schema["items"] = _schema(maker, depth + 1)
    elif kind == "map":
        schema["additionalProperties"] = _schema(maker, depth + 1)
    elif kind == "object":
        schema["properties"] = {"one": _schema(maker, depth + 1), "two": _schema(maker, depth + 1)}
        schema["required"] = maker.choice(([], ["one"], ["one", "two"]))
    if maker.random() < 0.5:
        schema[RULES] = [{"rule": maker.choice(_ABOUT[kind])}]
    return schema


def _limits(maker: random.Random, kind: str) -> Iterator[tuple[str, Any]]:
    most = {"string": "maxLength", "array": "maxItems", "map": "maxProperties"}.get(kind)
    if most and maker.random() < 0.7:
        yield most, maker.choice((1, 10, 64, 1000, 100_000))
    elif kind == "string":
        extra = maker.choice(({}, {"enum": ["a", "bcd"]}, {"format": "date-time"}, {"format": "byte"}))
        yield from extra.items() if "format" not in extra else ()
