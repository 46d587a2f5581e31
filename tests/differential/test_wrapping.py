"""What the webhook of AppWrapper refuses: our rules against its own code, on good wrappers that are broken in every place."""

import copy
import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from reconciler import resources
from reconciler.kinds.registry import BUILT_IN
from reconciler.kube.problems import Violation
from reconciler.kube.schemas import Catalogue
from reconciler.kube.schemas.builtin.appwrapper import app_wrapper_violations
from tests.cluster.fixtures import Parts
from tests.cluster.judges import is_refusal
from tests.cluster.mutations import mutations
from tests.cluster.parts import APPWRAPPER_ADMISSION

Body = dict[str, Any]
EVERY = int(os.environ.get("RECONCILER_TEST_WRAPPERS", "8"))
"""Of so many broken wrappers one is asked about; 1: all."""
_CATALOGUE = Catalogue(resources)
_ROW = BUILT_IN["workload.codeflare.dev", "AppWrapper"]
_READ = "not parseable as a v1.PodSpec"
"""The webhook reads the pods of kinds that nobody else knows, too."""


def wrappers() -> list[Body]:
    """Return good and bad wrappers."""
    path = Path(__file__).with_name("wrappers.yaml")
    known = yaml.load(path.read_bytes(), Loader=yaml.CSafeLoader)
    return [copy.deepcopy({**known["shared"], "spec": {"components": each}}) for each in known["wrappers"]]


def test_new_wrappers_are_refused_as_their_webhook_refuses_them(parts: Parts) -> None:
    broken = [one.body for body in wrappers() for index, one in enumerate(mutations(body)) if index % EVERY == 0]
    asked = [body for body in broken if _is_typed(body)]
    wrong, refused = [], 0
    for body, reason in zip(asked, ask(parts, [{"after": body} for body in asked]), strict=True):
        own, inner = _errors(body), [one for _, each in BUILT_IN.wrapped(body) for one in _errors(each)]
        refused += bool(reason)
        if reason and not own and not inner and _READ not in reason:
            wrong.append(f"accepted: {body['spec']}: {reason}")
        if own and not reason:
            wrong.append(f"refused: {body['spec']}: {own}")
    print(f"{len(asked)} wrappers, {refused} refused, {len(wrong)} differences")  # noqa: T201 -- a figure of docs/correctness.md
    assert not wrong, "\n".join(wrong[:20])
    assert refused > len(asked) / 10


def test_edits_of_wrappers_are_refused_as_their_webhook_refuses_them(parts: Parts) -> None:
    pairs = [
        (before, one.body)
        for before in wrappers()
        for index, one in enumerate(mutations(before))
        if index % EVERY == 0 and not _errors(before) and not _errors(one.body)
    ]
    wrong, refused = [], 0
    assert _ROW.life.immutable is not None
    for (before, after), reason in zip(pairs, ask(parts, [{"before": b, "after": a} for b, a in pairs]), strict=True):
        ours = _ROW.life.immutable(before, after)
        refused += bool(reason)
        if bool(ours) != bool(reason):
            wrong.append(f"{before['spec']} to {after}: {ours}, {reason}")
    print(f"{len(pairs)} edits, {refused} refused, {len(wrong)} differences")  # noqa: T201 -- a figure of docs/correctness.md
    assert not wrong, "\n".join(wrong[:20])
    assert refused > len(pairs) / 10


def _errors(body: Mapping[str, Any]) -> list[Violation]:
    return [one for one in _CATALOGUE.violations(dict(body)) if is_refusal(one)]


def _is_typed(body: Body) -> bool:
    """Return whether the definition accepts a wrapper: a server asks the webhook about no others."""
    found = _errors(body)
    return all(one.rule == "schema.bad-value" for one in found) and all(
        one in [*app_wrapper_violations(body)] for one in found
    )


def ask(parts: Parts, questions: list[Body]) -> Iterator[str]:
    """Return why the webhook refuses each wrapper or edit; an empty string where it does not."""
    lines = "".join(f"{json.dumps(each)}\n" for each in questions)
    program = parts.program(APPWRAPPER_ADMISSION)
    answered = subprocess.run([program], input=lines, capture_output=True, text=True, check=False, timeout=600)
    assert answered.returncode == 0, answered.stderr
    return map(json.loads, answered.stdout.splitlines())
