"""Kinds of the project itself (`gpureconciler.io`): configuration, evidence, policy, approvals. None is rendered."""

from reconciler.kinds.aspects import EvidenceReader, EvidenceUse, Source
from reconciler.kinds.facts import Refusal
from reconciler.kinds.kind import ANY_KIND, Kind
from reconciler.nodehealth.fleet.evidence import parse_health
from reconciler.repo.config.config import GROUP
from reconciler.repo.evidence.active_queues import parse_active_queues
from reconciler.repo.evidence.definitions import parse_definitions
from reconciler.repo.evidence.runs import parse_runs
from reconciler.repo.evidence.usage import parse_usage
from reconciler.repo.evidence.utilisation import parse_utilisation
from reconciler.sizing.answers import parse_answers
from reconciler.sizing.inventory import parse_inventory

EXCEPTION = (GROUP, "PolicyException")

APPROVAL = (GROUP, "PlanApproval")

SOURCE = (GROUP, "ConfigSource")

_REFUSAL = Refusal(
    rule="layout.kind",
    message="{kind} is not allowed in a source folder",
    hint="reconciler.yaml belongs at the root, evidence, exceptions and approvals in their own folders",
)


def _evidence(kind: str, reader: EvidenceReader) -> Kind:
    return Kind(group=GROUP, kind=kind, source=Source(refusal=_REFUSAL, evidence=reader))


KINDS = (
    Kind(group=GROUP, kind="ReconcilerConfig", source=Source(refusal=_REFUSAL)),
    _evidence("NodeInventory", EvidenceReader(parse=parse_inventory, use=EvidenceUse.INVENTORY)),
    _evidence("SizingAnswers", EvidenceReader(parse=parse_answers, use=EvidenceUse.ANSWERS)),
    _evidence("FinishedRuns", EvidenceReader(parse=parse_runs, use=EvidenceUse.RUNS)),
    _evidence("ActiveQueues", EvidenceReader(parse=parse_active_queues, use=EvidenceUse.QUEUES)),
    _evidence("ClusterDefinitions", EvidenceReader(parse=parse_definitions, use=EvidenceUse.DEFINITIONS)),
    _evidence("NodeHealth", EvidenceReader(parse=parse_health, use=EvidenceUse.HEALTH)),
    _evidence("GpuUtilisation", EvidenceReader(parse=parse_utilisation, use=EvidenceUse.UTILISATION)),
    _evidence("GpuUsage", EvidenceReader(parse=parse_usage, use=EvidenceUse.USAGE)),
    Kind(group=GROUP, kind="PolicyException", source=Source(refusal=_REFUSAL)),
    Kind(group=GROUP, kind="PlanApproval", source=Source(refusal=_REFUSAL)),
    Kind(group=GROUP, kind=ANY_KIND, source=Source(refusal=_REFUSAL)),
)
