"""Compare the answers of a real API server with ours, and count what differs."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct

from tests.differential.corpus import HOSTILE, OBJECTS, malformed
from tests.differential.generator import Expressions, paths
from tests.differential.judging import Server, parts, policy, we_judge, we_refuse

_MADE_BY_SERVERS = ("uid", "managedFields", "resourceVersion", "creationTimestamp", "generation", "clusterIP", "status",
                    "controller-uid", "job-name", "nodePort", "ipFamil", "serviceAccount", "tolerations", "kube-api-access")  # fmt: skip
"""Values that no plan can know: they differ from one request to the next, or come from objects of the cluster."""
_MADE_OF_UIDS = {"Job": ("object.spec.selector", "object.spec.template.metadata")}


class Difference(Struct, frozen=True, kw_only=True):
    """A case in which the server and we disagree."""

    kind: str
    what: str
    theirs: str
    ours: str


class Comparison(Struct, frozen=True, kw_only=True):
    """All cases, and those that differ."""

    cases: int
    differences: tuple[Difference, ...]

    def count(self, kind: str) -> int:
        """Return the number of differences of a kind."""
        return Counter(one.kind for one in self.differences)[kind]

    @property
    def agreement(self) -> float:
        """The part of the cases in which both say the same."""
        return 1 - len(self.differences) / max(self.cases, 1)


FALSE_PASS, FALSE_REFUSAL, OTHER_REASON = "false pass", "false refusal", "other reason"
ACCEPTED, REFUSED = "policy accepted that the server refuses", "policy refused that the server accepts"


def compare_policies(server: Server, bodies: Iterable[tuple[str, dict[str, Any]]]) -> Comparison:
    """Ask whether each policy can be installed."""
    cases = 0
    differences = []
    for what, body in bodies:
        cases += 1
        theirs, ours = server.refuses(body), we_refuse(body)
        if bool(theirs) != bool(ours):
            kind = ACCEPTED if theirs else REFUSED
            differences.append(Difference(kind=kind, what=what, theirs=theirs[:200], ours=ours[:200]))
    return Comparison(cases=cases, differences=tuple(differences))


def compare_expressions(server: Server, cases: Sequence[tuple[dict[str, Any], str]]) -> Comparison:
    """Ask what each expression says about its object; policies with it that the server refuses are asked that only."""
    installed = compare_policies(server, ((text, policy("one", [text])) for _, text in cases))
    different = {one.what for one in installed.differences}
    groups: list[tuple[dict[str, Any], Sequence[str]]] = []
    for body in OBJECTS:
        texts = [text for about, text in cases if about is body and text not in different]
        usable = [text for text in texts if not we_refuse(policy("one", [text]))]
        groups += [(body, part) for part in parts(usable)]
    found = list(installed.differences)
    for (body, part), theirs in zip(groups, server.judge(groups), strict=True):
        for text, their, our in zip(part, theirs, we_judge(body, part), strict=True):
            if their != our:
                kind = FALSE_PASS if our == "pass" else FALSE_REFUSAL if their == "pass" else OTHER_REASON
                kind = OTHER_REASON if their == "slow" else kind  # a busy server did not answer in time
                found.append(Difference(kind=kind, what=f"{body['kind']}: {text}", theirs=their, ours=our))
    return Comparison(cases=installed.cases, differences=tuple(found))


def hand_written() -> list[tuple[dict[str, Any], str]]:
    """Return the expressions that were written by hand, each about one of the first objects."""
    return [(OBJECTS[index % 4], text) for index, text in enumerate(HOSTILE)]


def generated(seed: int, count: int) -> list[tuple[dict[str, Any], str]]:
    """Return generated expressions about all objects."""
    makers = [Expressions(seed + index, body) for index, body in enumerate(OBJECTS)]
    return [(OBJECTS[index % len(OBJECTS)], makers[index % len(OBJECTS)].one()) for index in range(count)]


def about_fields(server: Server) -> list[tuple[dict[str, Any], str]]:
    """Return questions about every field that the server, or the file, has: defaults, canonical and dropped values."""
    found = []
    for body in OBJECTS:
        (kept,) = server.applied([body])
        for path in sorted({*paths(kept), *paths(body)}):
            if path.endswith("]") or any(word in path for word in _MADE_BY_SERVERS):
                continue
            if path.startswith(_MADE_OF_UIDS.get(body["kind"], ())) and path not in paths(body):
                continue
            found.append((body, f"has({path})"))
            value = _value(kept, path)
            if isinstance(value, str | int | bool) and value is not None:
                text = repr(value) if not isinstance(value, bool) else str(value).lower()
                found.append((body, f"{path} == {text}"))
    return found


def _value(body: Any, path: str) -> Any:
    return dict(_values(body, "object")).get(path)


def _values(value: Any, prefix: str) -> Iterable[tuple[str, Any]]:
    yield prefix, value
    if isinstance(value, dict):
        for key, item in value.items():
            step = f".{key}" if str(key).isidentifier() else f"['{key}']"
            yield from _values(item, f"{prefix}{step}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _values(item, f"{prefix}[{index}]")


def compare_all(server: Server, seed: int, count: int) -> dict[str, Comparison]:
    """Compare every part of the corpus, by its name."""
    return {
        "Malformed policies": compare_policies(server, malformed()),
        "Expressions": compare_expressions(server, [*hand_written(), *generated(seed, count)]),
        "Fields": compare_expressions(server, about_fields(server)),
    }
