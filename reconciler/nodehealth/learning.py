"""Limits that follow what healthy GPUs measure: proposals for a policy, in small steps, and never below a floor."""

import datetime as dt
import re
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from statistics import median
from typing import Any

import msgspec
from msgspec import Struct

from reconciler.kube.values import plural

MAX_CHANGE = 0.02
"""The most that a limit may move in one week, as a share of the specified value."""

MIN_NODES = 5
MIN_RUNS = 200
QUANTILE = 0.005
MARGIN = 0.01
_CEILING = 0.95  # of the median
_MIN_CHANGE = 0.001
_LEARNED_ON = re.compile(r"measured on (\d{4}-\d{2}-\d{2})\b")
_WEEK = dt.timedelta(days=7)


class AcceptedRun(Struct, frozen=True, kw_only=True, order=True):
    """One measurement of a healthy GPU, as a share of the specified value."""

    product: str
    node: str
    slot: str
    number: int  # of the run, so that a run that several reports tell counts once
    value: float


class PresentLimits(Struct, frozen=True, kw_only=True):
    """The limits of one check now, by their names in the catalogue. floor: below which the failure never moves."""

    warn_name: str
    warn: float
    fail_name: str
    fail: float
    floor: float


class Lesson(Struct, frozen=True, kw_only=True):
    """The lesson of the runs of one check: new limits, or the reason against any (`refused`).

    changing: the GPUs whose verdict changes, as node and slot. window: the digest of the runs.
    """

    check: str
    refused: str = ""
    old: Mapping[str, float] = {}
    new: Mapping[str, float] = {}
    changing: tuple[str, ...] = ()
    nodes: int = 0
    gpus: int = 0
    runs: int = 0
    window: str = ""

    @property
    def message(self) -> str:
        """The lesson in words."""
        if self.refused:
            return f"{self.check}: {self.refused}"
        moves = ", ".join(f"{name} {self.old[name]:.3f} → {value:.3f}" for name, value in self.new.items())
        changes = f"the verdict changes for {plural(len(self.changing), 'GPU')}"
        return f"{self.check}: {moves}; {self.runs} runs of {self.gpus} GPUs on {self.nodes} nodes; {changes}"

    def source(self, day: dt.date) -> str:
        """Return where the limits come from, as a policy says it."""
        return f"measured on {day}: {self.nodes} nodes, {self.gpus} GPUs, {self.runs} runs, {self.window}"

    def over(self, spec: Mapping[str, Any], day: dt.date) -> dict[str, Any]:
        """Return the spec of a HealthPolicy with these limits."""
        checks = {**spec.get("checks", {})}
        rule = {**checks.get(self.check, {})}
        checks[self.check] = {**rule, "limits": {**rule.get("limits", {}), **self.new}, "source": self.source(day)}
        return {**spec, "checks": checks}


def learn(check: str, runs: Iterable[AcceptedRun], present: PresentLimits, *, source: str, day: dt.date) -> Lesson:
    """Return better limits, or why there are none.

    A warning begins slightly below what nearly all healthy GPUs of every product reach, at most two points from now,
    and within the floor and 95 % of the median; the failure keeps its distance. `source` is what the policy says of the
    present limits: they move once a week.
    """
    counted = sorted(set(runs))
    if refused := _refused(counted, source, day):
        return Lesson(check=check, refused=refused)
    products: dict[str, list[AcceptedRun]] = {}
    for one in counted:
        products.setdefault(one.product, []).append(one)
    warn = round(min(_wanted([one.value for one in found], present) for found in products.values()), 3)
    fail = round(min(max(present.fail + warn - present.warn, present.floor), warn), 3)
    if abs(warn - present.warn) < _MIN_CHANGE:
        return Lesson(check=check, refused="the limits fit what was measured")
    worst: dict[tuple[str, str], float] = {}
    for one in counted:
        gpu = one.node, one.slot
        worst[gpu] = min(one.value, worst.get(gpu, one.value))
    changing = sorted(gpu for gpu, value in worst.items() if (value < warn) is not (value < present.warn))
    digest = sha256(msgspec.json.encode(counted)).hexdigest()
    return Lesson(
        check=check,
        old={present.warn_name: present.warn, present.fail_name: present.fail},
        new={present.warn_name: warn, present.fail_name: fail},
        changing=tuple(f"{node} {slot}" for node, slot in changing),
        nodes=len({one.node for one in counted}),
        gpus=len(worst),
        runs=len(counted),
        window=f"sha256:{digest[:16]}",
    )


def _refused(runs: Sequence[AcceptedRun], source: str, day: dt.date) -> str:
    """Return why nothing can be learned from these runs; empty if something can."""
    learned = _LEARNED_ON.search(source)
    if learned is not None and day - dt.date.fromisoformat(learned[1]) < _WEEK:
        return f"was learned on {learned[1]}, and limits change at most once a week"
    if not runs:
        return "no healthy GPU has measured it"
    for product in sorted({one.product for one in runs}):
        mine = [one for one in runs if one.product == product]
        nodes = len({one.node for one in mine})
        if nodes < MIN_NODES or len(mine) < MIN_RUNS:
            return (
                f"{len(mine)} runs of healthy GPUs on {nodes} nodes with {product or 'GPUs'}; "
                f"{MIN_RUNS} runs on {MIN_NODES} nodes are required"
            )
    return ""


def _wanted(shares: Iterable[float], present: PresentLimits) -> float:
    values = sorted(shares)
    wanted = values[int(QUANTILE * len(values))] - MARGIN
    wanted = max(present.floor, min(wanted, _CEILING * median(values)))
    return min(max(wanted, present.warn - MAX_CHANGE), present.warn + MAX_CHANGE)
