"""The order of steps: batches whose steps run at the same time, and which step waits for which."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum

from msgspec import Struct

from reconciler.kinds.aspects import Holds
from reconciler.kinds.facts import NO_KIND, QueueRole
from reconciler.kinds.kind import Kinds
from reconciler.kinds.summary import ObjectSummary
from reconciler.live.apply.steps import Step, Verb


class ApplyPhase(IntEnum):
    """The phases of an apply: objects are created in this order, and deleted in the reverse one."""

    NAMESPACES = 0
    DEFINITIONS = 1  # of kinds
    CLASSES = 2  # cluster-scoped objects that others name: priorities, flavors, roles
    QUOTAS = 3
    CONFIGURATION = 4  # claims, secrets, services
    WORKLOADS = 5


class Ordered(Struct, frozen=True, kw_only=True):
    """Batches of steps, and by the path of a step the paths of the steps that it needs to succeed first.

    waves: the positions that annotations set. A step also needs all steps of lower positions, as people asked for.
    """

    batches: tuple[tuple[Step, ...], ...] = ()
    needs: Mapping[str, frozenset[str]] = {}
    waves: Mapping[str, tuple[int, int]] = {}


def phase_of(kinds: Kinds, summary: ObjectSummary) -> ApplyPhase:
    """Return the phase of an object."""
    row = kinds.find(summary.group, summary.kind)
    if row.holds is Holds.OBJECTS:
        return ApplyPhase.NAMESPACES
    if row.holds is Holds.KINDS:
        return ApplyPhase.DEFINITIONS
    if row.queueing.role and row.queueing.role not in (QueueRole.FLAVOR, QueueRole.CHECK):
        return ApplyPhase.QUOTAS
    if summary.is_workload:
        return ApplyPhase.WORKLOADS
    return ApplyPhase.CONFIGURATION if summary.namespace else ApplyPhase.CLASSES


def order(kinds: Kinds, steps: Sequence[Step], waves: Mapping[str, tuple[int, int]]) -> Ordered:
    """Order steps: creations and updates by wave, phase and dependency, then deletions in the reverse order.

    `waves` holds the positions that annotations set, by path (`annotations.wave`). A workload that another one replaces
    is deleted right before that one is created, which needs it to be gone.
    """
    needs = _needs(kinds, steps)
    early = {step.replaces: step.path for step in steps if step.replaces in needs[step.path]}
    ranks: dict[str, tuple[int, ...]] = {}
    for step in steps:
        stage, number = waves.get(early.get(step.path, step.path), (0, 0))
        phase = int(phase_of(kinds, step.summary))
        is_late = step.verb is Verb.DELETE and step.path not in early
        ranks[step.path] = (1, -stage, -number, -phase) if is_late else (0, stage, number, phase)
    levels = _levels(needs, ranks)
    groups: dict[tuple[int, ...], list[Step]] = defaultdict(list)
    for step in sorted(steps, key=lambda step: step.path):
        groups[*ranks[step.path], levels[step.path]].append(step)
    batches = tuple(tuple(groups[rank]) for rank in sorted(groups))
    position = {step.path: number for number, batch in enumerate(batches) for step in batch}
    # A need in a later batch cannot be met: sync waves are the word of people, so they count.
    earlier = {path: frozenset(one for one in of if position[one] < position[path]) for path, of in needs.items()}
    return Ordered(batches=batches, needs=earlier, waves=waves)


def stops_first(kinds: Kinds, summary: ObjectSummary) -> bool:
    """Return whether the old object has to be gone before the new one starts: two gangs would share one workspace."""
    return phase_of(kinds, summary) is ApplyPhase.WORKLOADS


_Identity = tuple[str, str, str, str]


def _needs(kinds: Kinds, steps: Sequence[Step]) -> dict[str, set[str]]:
    """Return the paths of the steps that must succeed before each step."""
    spaces = [(row.group, row.kind) for row in kinds.values() if row.holds is Holds.OBJECTS]
    coming = {_identity(step.summary): step.path for step in steps if step.verb is not Verb.DELETE}
    going = {_identity(step.summary): step.path for step in steps if step.verb is Verb.DELETE}
    gone = set(going.values())
    needs: dict[str, set[str]] = {step.path: set() for step in steps}
    definitions: dict[str, list[str]] = defaultdict(list)
    for step in steps:
        if step.verb is not Verb.DELETE and kinds.find(step.summary.group, step.summary.kind).holds is Holds.KINDS:
            definitions[step.summary.name.partition(".")[2]].append(step.path)
    for step in steps:
        before = step.summary if step.verb is Verb.DELETE else step.before
        for named in _named(spaces, before) if before else ():
            if named in going and going[named] != step.path:
                needs[going[named]].add(step.path)  # what an object names is deleted after it, or after it changed
        if step.verb is Verb.DELETE:
            continue
        needs[step.path] |= {coming[named] for named in _named(spaces, step.summary) if named in coming}
        needs[step.path].update(definitions.get(step.summary.group, ()))
        needs[step.path].discard(step.path)
        if step.replaces in gone:
            first, then = (step.replaces, step.path) if stops_first(kinds, step.summary) else (step.path, step.replaces)
            needs[then].add(first)
    return needs


def _identity(summary: ObjectSummary) -> _Identity:
    return summary.group, summary.kind, summary.namespace, summary.name


def _named(spaces: Sequence[tuple[str, str]], summary: ObjectSummary) -> Iterator[_Identity]:
    """Yield the identities of the objects that an object names: namespace, queues, references."""
    if summary.namespace:
        yield from ((group, kind, "", summary.namespace) for group, kind in spaces)
    named = ((summary.parent_kind, summary.parent), (summary.queue_kind, summary.queue))
    for (group, kind), name in named:
        if name and (group, kind) != NO_KIND:
            yield from ((group, kind, namespace, name) for namespace in {"", summary.namespace})
    for reference in summary.references:
        yield reference.group, reference.kind, reference.namespace, reference.name


def _levels(needs: Mapping[str, set[str]], ranks: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
    """Return the number of steps that precede each step among those of its rank; circles are cut."""
    levels: dict[str, int] = {}
    for start in sorted(needs):
        pending = [start]
        open_: set[str] = set()
        while pending:
            path = pending[-1]
            same = [one for one in needs[path] if ranks[one] == ranks[path]]
            waiting = [one for one in same if one not in levels and one not in open_]
            if waiting and path not in levels:
                open_.add(path)
                pending += waiting
                continue
            pending.pop()
            levels.setdefault(path, 1 + max((levels[one] for one in same if one in levels), default=-1))
    return levels
