"""Plans of any strings, the worse the better: for properties that no name may break."""

from typing import Any

from hypothesis import strategies as st

from reconciler.kube.objects import ObjectKey, SourceRef
from reconciler.kube.problems import Problem, Severity
from reconciler.kube.reasons import Why
from reconciler.plan import (
    Approval,
    Breach,
    CapacityLine,
    Change,
    EvidenceChange,
    ExceptionInForce,
    FieldChange,
    GpuLine,
    JobChange,
    Operation,
    Plan,
    QuarantineLine,
    QueueLine,
    Revision,
    Risk,
)
from reconciler.plan.health.effect import NodeVerdict, PolicyEffect
from reconciler.policy.verdict import Result, Verdict
from tests.plan.outputs.plans import DIGEST, EVIL

NASTY = st.sampled_from(
    (
        "@everyone",
        "#123",
        "GH-1",
        "https://evil.example/x",
        "www.evil.example",
        "[x](javascript:alert(1))",
        "![x](//evil.example/x.png)",
        "<script>alert(1)</script>",
        "</details>",
        "</code>",
        "-->",
        "```",
        "``````",
        "`",
        "|",
        "\n",
        "\r\n",
        "\n\n# heading\n",
        "\n- [ ] item",
        "\n/merge",
        "::error::x",
        "\n::set-env name=X::y",
        "##[group]x",
        "\x1b]8;;http://x\x07",
        "\u202e",
        "\u200b",
        "\ud800",
        "\uffff",
        "👩🏽‍🚀",
        "漢字",
        "e\u0301\u0301\u0301\u0301",
        "*_~",
        "&amp;&#64;x",
        "\\",
        ":tada:",
        "$x$",
        "a@b.c",
        " " * 9,
        "x" * 300,
        EVIL,
    )
)
MIXED = st.one_of(NASTY, st.text(max_size=20), st.lists(NASTY | st.text(max_size=5), max_size=4).map("".join))


@st.composite
def strings(draw: st.DrawFn) -> str:
    """Draw any string; a strategy of its own, so that Hypothesis names it by two words in what it prints."""
    return draw(MIXED)


TEXT = strings()
LINE = st.integers(0, 10_000)
GPUS = st.integers(0, 10_000)
QUOTA = st.one_of(st.none(), st.integers(0, 999).map(float), st.floats(0, 9, allow_nan=False))
VALUE: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
PLACE = st.builds(SourceRef, path=TEXT, line=LINE, column=LINE)
KEY = st.builds(ObjectKey, group=TEXT, kind=TEXT, namespace=TEXT, name=TEXT)
WHY = st.builds(
    Why,
    rule=TEXT,
    text=TEXT,
    places=st.lists(PLACE, max_size=3).map(tuple),
    fields=st.lists(TEXT, max_size=3).map(tuple),
)
FIELD = st.builds(
    FieldChange,
    path=TEXT,
    before=VALUE,
    after=VALUE,
    has_before=st.booleans(),
    has_after=st.booleans(),
    why=st.none() | WHY,
)
CHANGE = st.builds(
    Change,
    operation=st.sampled_from(Operation),
    cluster=TEXT,
    key=KEY,
    path=TEXT,
    source=st.none() | PLACE,
    fields=st.lists(FIELD, max_size=4).map(tuple),
    because=st.lists(WHY, max_size=2).map(tuple),
    moved_from=st.just("") | TEXT,
    gpus_before=GPUS,
    gpus_after=GPUS,
)


def several(strategy: st.SearchStrategy[Any], most: int = 3) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(strategy, max_size=most).map(tuple)


REVISION = st.builds(Revision, label=TEXT, commit=TEXT, tree=TEXT)
PLAN = st.builds(
    Plan,
    engine=TEXT,
    base=REVISION,
    head=REVISION,
    evidence=TEXT,
    policies=TEXT,
    changes=several(CHANGE, 5),
    unchanged=GPUS,
    gpus=several(st.builds(GpuLine, cluster=TEXT, queue=TEXT, product=TEXT, before=GPUS, after=GPUS)),
    queues=several(
        st.builds(
            QueueLine,
            cluster=TEXT,
            queue=TEXT,
            product=TEXT,
            before=QUOTA,
            after=QUOTA,
            limit=QUOTA,
            requested=GPUS,
            exists_before=st.booleans(),
            exists_after=st.booleans(),
        )
    ),
    capacity=several(
        st.builds(
            CapacityLine, cluster=TEXT, product=TEXT, before=GPUS, capacity=GPUS, guaranteed=QUOTA, requested=GPUS
        )
    ),
    evidence_changes=several(
        st.builds(
            EvidenceChange, cluster=TEXT, nodes_before=GPUS, nodes_after=GPUS, taken_before=TEXT, taken_after=TEXT
        )
    ),
    quarantines=several(
        st.builds(
            QuarantineLine,
            cluster=TEXT,
            key=KEY,
            node=TEXT,
            word=st.sampled_from(["begins", "ends", "changes"]),
            check=TEXT,
            reason=TEXT,
            effect=TEXT,
            slots=several(TEXT),
            until=TEXT,
            product=TEXT,
            gpus=st.integers(-1000, 1000),
            jobs=GPUS,
            requested=GPUS,
            is_known=st.booleans(),
            evicts=st.booleans(),
            job_names=several(TEXT),
            place=st.none() | PLACE,
        )
    ),
    health_policies=several(
        st.builds(
            PolicyEffect,
            cluster=TEXT,
            key=KEY,
            basis=st.sampled_from(["reports", "health", ""]),
            reports=GPUS,
            nodes=GPUS,
            first=TEXT,
            last=TEXT,
            before=st.floats(0, 1000),
            after=st.floats(0, 1000),
            changed=GPUS,
            verdicts=several(st.builds(NodeVerdict, node=TEXT, before=TEXT, after=TEXT)),
            refused=several(TEXT),
            unknown=several(TEXT),
            place=st.none() | PLACE,
        )
    ),
    jobs=several(
        st.builds(
            JobChange,
            word=TEXT,
            cluster=TEXT,
            key=KEY,
            queue=TEXT,
            product=TEXT,
            gpus_before=GPUS,
            gpus_after=GPUS,
            source=st.none() | PLACE,
        )
    ),
    risks=several(st.builds(Risk, rule=TEXT, cluster=TEXT, key=KEY, message=TEXT, hint=TEXT, place=st.none() | PLACE)),
    verdicts=several(
        st.builds(
            Verdict,
            rule=TEXT,
            result=st.sampled_from(Result),
            cluster=TEXT,
            key=KEY,
            place=PLACE,
            message=TEXT,
            hint=TEXT,
            field=TEXT,
        )
    ),
    exceptions=several(
        st.builds(
            ExceptionInForce,
            rule=TEXT,
            target=TEXT,
            reason=TEXT,
            owner=TEXT,
            expires=TEXT,
            place=PLACE,
            used=st.booleans(),
        )
    ),
    problems=several(
        st.builds(
            Problem,
            rule=TEXT,
            place=PLACE,
            message=TEXT,
            field=TEXT,
            hint=TEXT,
            severity=st.sampled_from(Severity),
        )
    ),
    held_back=several(TEXT),
    breaches=several(st.builds(Breach, budget=TEXT, message=TEXT, limit=TEXT, actual=TEXT, approved=st.booleans())),
    approvals=several(
        st.builds(
            Approval,
            place=PLACE,
            plan=TEXT,
            reason=TEXT,
            expires=TEXT,
            budgets=several(TEXT),
            ignored=TEXT,
            is_merged=st.booleans(),
        )
    ),
    digest=st.sampled_from((DIGEST, "")),
)


@st.composite
def any_plan(draw: st.DrawFn) -> Plan:
    """Draw a plan of any strings and numbers."""
    return draw(PLAN)


PLANS = any_plan()
