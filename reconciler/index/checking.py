"""Type-check the policies of a repository in a child with limits, and remember the results."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from hashlib import sha256

import msgspec

from reconciler.index.limited import MAX_EXCEEDED, run_limited
from reconciler.kube.problems import Problem
from reconciler.policy.admission import Policy, check_policy

_HINT = "make the expressions of the policy simpler"


class PolicyChecker:
    """Type-checks policies. `load` returns what an earlier run has `made`."""

    def __init__(self, load: Callable[[], Mapping[str, bytes]] = dict) -> None:
        self.made: dict[str, bytes] = {}
        self._load = load

    def check(self, policies: Sequence[Policy]) -> list[tuple[Problem, ...]]:
        """Return problems for the expressions of each policy that do not compile or have the wrong type."""
        known = self._load() if policies else {}
        keys = _keys(policies)
        new = [position for position, key in enumerate(keys) if key not in known]
        found = dict(zip(new, self._check([policies[position] for position in new]), strict=True))
        self.made |= {keys[position]: raw for position, raw in found.items()}
        return [_decoder.decode(found.get(position) or known[key]) for position, key in enumerate(keys)]

    def _check(self, policies: Sequence[Policy]) -> list[bytes]:
        results: list[bytes] = []
        exceeded = 0
        while len(results) < len(policies):
            rest = policies[len(results) :]
            if exceeded == MAX_EXCEEDED:
                message = f"the expressions were not checked: those of {exceeded} other policies exceed a limit"
                return [*results, *(_refused(policy, message) for policy in rest)]
            done = run_limited(partial(_check, rest), len(rest))
            results += done.results
            if done.exceeded:
                results.append(_refused(rest[len(done.results)], f"checking the expressions {done.exceeded}"))
                exceeded += 1
        return results


def _check(policies: Sequence[Policy], position: int) -> bytes:
    return _encoder.encode(check_policy(policies[position]))


def _refused(policy: Policy, message: str) -> bytes:
    place = policy.document.at(("spec",))
    return _encoder.encode((Problem(rule="policy.cel", place=place, field="spec", message=message, hint=_HINT),))


def _keys(policies: Sequence[Policy]) -> list[str]:
    """Return what the problems of each policy depend on: its data, its place, and the text around it."""
    documents = [policy.document for policy in policies]
    texts = {one.source.path: one.text for one in documents}
    digests = {path: sha256(text).digest() for path, text in texts.items()}
    places = [repr((one.source, one.index, one.root, one.data)).encode("utf-8", "surrogatepass") for one in documents]
    return [sha256(place + digests[one.source.path]).hexdigest() for place, one in zip(places, documents, strict=True)]


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(tuple[Problem, ...])
