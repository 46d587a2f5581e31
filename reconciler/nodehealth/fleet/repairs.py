"""The steps of a repair that people have merged (`stage: drain` or `repair`): bounded, one after the other."""

from collections.abc import Iterator, Mapping

from msgspec import Struct

from reconciler.nodehealth.findings import RepairAction
from reconciler.nodehealth.fleet.decisions import FleetEvaluation
from reconciler.nodehealth.fleet.evaluate import FleetInput
from reconciler.nodehealth.fleet.state import HealthPhase
from reconciler.nodehealth.policy import CheckMode, RepairTemplate, seconds
from reconciler.nodehealth.quarantine import Stage

_STEPS = (RepairAction.RESET_GPU, RepairAction.REBOOT_NODE, RepairAction.POWER_CYCLE)
_PHASES = {Stage.DRAIN: HealthPhase.DRAINING, Stage.REPAIR: HealthPhase.REMEDIATING}
"""The phase in which a node waits for a stage."""


class RepairTry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The last attempt on a node, when it began, and the stage that it is of."""

    attempt: int
    at: float
    stage: Stage = Stage.REPAIR


class AskedRepair(Struct, frozen=True, kw_only=True):
    """One attempt as the user's tool gets it. `until` is when the next one begins; a ticket is for a person."""

    node: str
    uid: str
    action: RepairAction
    slots: tuple[str, ...]
    reason: str
    attempt: int
    attempts: int
    until: float


class RepairStep(AskedRepair, frozen=True, kw_only=True):
    """One attempt, with what the policy says about it. seconds: of its timeout."""

    stage: Stage
    seconds: float
    template: RepairTemplate | None
    is_shadow: bool

    @property
    def is_ticket(self) -> bool:
        """True if no attempt is left, or no tool can take the step."""
        return self.action is RepairAction.CONTACT_SUPPORT

    @property
    def is_drain(self) -> bool:
        """True if workloads have to move."""
        return self.stage is Stage.DRAIN and not self.is_ticket

    @property
    def asked(self) -> AskedRepair:
        """The attempt as a tool gets it."""
        return AskedRepair(**{name: getattr(self, name) for name in AskedRepair.__struct_fields__})


def current_tries(known: Mapping[str, RepairTry], evaluation: FleetEvaluation) -> dict[str, RepairTry]:
    """Return the attempts on nodes that still wait for the stage."""
    decisions = evaluation.decisions
    return {
        node: one for node, one in known.items() if node in decisions and decisions[node].phase is _PHASES[one.stage]
    }


def due_steps(
    given: FleetInput, evaluation: FleetEvaluation, tries: Mapping[str, RepairTry], now: float
) -> Iterator[RepairStep]:
    """Yield the attempts that begin now: of nodes that wait for a merged stage and that nobody else repairs."""
    for merged in given.quarantines:
        decision, facts = evaluation.decisions.get(merged.node), given.facts.get(merged.node)
        if decision is None or facts is None or merged.stage not in _PHASES or merged.is_stale(facts.uid):
            continue
        policy, before = given.policies.of_labels(facts.labels), tries.get(merged.node)
        rule = policy.drain if merged.stage is Stage.DRAIN else policy.repair
        attempt = before.attempt + 1 if before is not None else 1
        is_waiting = before is not None and now - before.at < seconds(rule.timeout)
        if decision.phase is not _PHASES[merged.stage] or decision.observes_only or is_waiting:
            continue
        if attempt > rule.attempts + 1:
            continue  # a person has the ticket
        action = merged.action if merged.action in _STEPS else decision.action
        is_ticket = attempt > rule.attempts or (merged.stage is Stage.REPAIR and action not in _STEPS)
        yield RepairStep(
            node=merged.node,
            uid=facts.uid,
            action=RepairAction.CONTACT_SUPPORT if is_ticket else action,
            slots=merged.slots,
            reason=merged.reason,
            attempt=rule.attempts + 1 if is_ticket else attempt,
            attempts=rule.attempts,
            until=now + seconds(rule.timeout),
            stage=merged.stage,
            seconds=seconds(rule.timeout),
            template=policy.repair.cron_job,
            is_shadow=rule.mode is not CheckMode.ENFORCE,
        )
