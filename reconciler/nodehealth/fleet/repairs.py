"""Repairs that people have merged (`stage: repair`): one bounded step after the other, asked of a tool of the user."""

from collections.abc import Iterator, Mapping

from msgspec import Struct

from reconciler.nodehealth.findings import RepairAction
from reconciler.nodehealth.fleet.decisions import FleetEvaluation
from reconciler.nodehealth.fleet.evaluate import FleetInput
from reconciler.nodehealth.fleet.state import HealthPhase
from reconciler.nodehealth.policy import CheckMode, seconds
from reconciler.nodehealth.quarantine import Stage

_STEPS = (RepairAction.RESET_GPU, RepairAction.REBOOT_NODE, RepairAction.POWER_CYCLE)


class RepairTry(Struct, frozen=True, kw_only=True):
    """The last attempt on a node, and when it began."""

    attempt: int
    at: float


class RepairStep(Struct, frozen=True, kw_only=True):
    """One attempt, as the tool gets it. `until` is when the next one begins; the last one is a ticket for a person."""

    node: str
    uid: str
    action: RepairAction
    slots: tuple[str, ...]
    reason: str
    attempt: int
    attempts: int
    until: float
    is_shadow: bool


def due_steps(
    given: FleetInput, evaluation: FleetEvaluation, tries: Mapping[str, RepairTry], now: float
) -> Iterator[RepairStep]:
    """Yield the attempts that begin now: of nodes that Git wants repaired, that nobody else repairs and that wait."""
    for merged in given.quarantines:
        decision, facts = evaluation.decisions.get(merged.node), given.facts.get(merged.node)
        if decision is None or facts is None or merged.stage is not Stage.REPAIR or merged.is_stale(facts.uid):
            continue
        rule, before = given.policies.of_labels(facts.labels).repair, tries.get(merged.node)
        attempt = before.attempt + 1 if before is not None else 1
        is_waiting = before is not None and now - before.at < seconds(rule.timeout)
        if decision.phase is not HealthPhase.REMEDIATING or decision.observes_only or is_waiting:
            continue
        if attempt > rule.attempts + 1:
            continue  # a person has the ticket
        action = merged.action if merged.action in _STEPS else decision.action
        is_ticket = attempt > rule.attempts or action not in _STEPS
        yield RepairStep(
            node=merged.node,
            uid=facts.uid,
            action=RepairAction.CONTACT_SUPPORT if is_ticket else action,
            slots=merged.slots,
            reason=merged.reason,
            attempt=rule.attempts + 1 if is_ticket else attempt,
            attempts=rule.attempts,
            until=now + seconds(rule.timeout),
            is_shadow=rule.mode is not CheckMode.ENFORCE,
        )
