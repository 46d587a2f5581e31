"""The judgement of a change: by its own settings and rules, and by those of the base where these are stricter."""

from collections.abc import Mapping, Sequence
from itertools import islice

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from reconciler.index.build import CompiledRevision
from reconciler.index.evaluator import PolicyEvaluator, PolicyFindings, join
from reconciler.index.parsed import ParsedFile, load_mapping, save_mapping
from reconciler.index.renderer import Renderer
from reconciler.index.totals import evaluate_under
from reconciler.index.workers import WorkerPool
from reconciler.kube.secrets import mask_text
from reconciler.plan.baseline import Baseline
from reconciler.policy.admission import PolicySet
from reconciler.policy.changes import rule_changes
from reconciler.policy.references import RULES
from reconciler.policy.rule_book import RuleBook, load_rules
from reconciler.repo.config import Config, RuleSetting
from reconciler.repo.config.changes import SettingChange, config_changes, stricter
from reconciler.repo.files import BlobIds, count_below
from reconciler.repo.port import Cache, Repository
from reconciler.repo.revision import LoadedRevision


class Judgement(Struct, frozen=True, kw_only=True, eq=False):
    """The measures by which a change is judged.

    config: the head's, with the stricter limits of both. changes: the settings and rules that differ.
    rules: those of the base; None if they are the head's.
    """

    config: Config
    changes: tuple[SettingChange, ...] = ()
    rules: RuleBook | None = None


def judge(repository: Repository, index: CompiledRevision, base: LoadedRevision) -> Judgement:
    """Compare the settings and rules of head and base. Nothing is read if their files are the same."""
    head = index.revision
    if not base.files.settings:  # the base has no configuration: there is nothing that a change could weaken
        return Judgement(config=head.config)
    changes: list[SettingChange] = []
    if base.config is head.config and base.files.settings != head.files.settings:
        changes.append(_UNREADABLE)
    if base.config is not head.config:
        changes += config_changes(base.config, head.config, lambda name: count_below(base.files.rendered, name))
    rules: RuleBook | None = None
    if base.files.policies != head.files.policies or _plain(base.config.rules) != _plain(head.config.rules):
        rules = _load_rules(repository, index, base)
        changes += rule_changes(rules, index.context.rules)
    return Judgement(config=stricter(base.config, head.config), changes=tuple(map(_masked, changes)), rules=rules)


_UNREADABLE = SettingChange(
    setting="reconciler.yaml",
    before="cannot be read",
    after="readable",
    weakens=True,
    effect="only the settings of the change itself decide how it is judged",
)


def _plain(settings: Mapping[str, RuleSetting]) -> dict[str, object]:
    return {rule: (one.enabled, one.action, one.parameters) for rule, one in settings.items()}


def _masked(change: SettingChange) -> SettingChange:
    return replace(
        change, before=mask_text(change.before), after=mask_text(change.after), effect=mask_text(change.effect)
    )


def _load_rules(repository: Repository, index: CompiledRevision, base: LoadedRevision) -> RuleBook:
    parser = index.parser

    def read(paths: list[str]) -> Sequence[bytes]:
        return [*repository.read([blobs[path] for path in paths])]

    blobs: BlobIds = base.files.policies
    own: Sequence[ParsedFile] = parser.parse([*blobs.items()], read)
    return load_rules(
        [document for file in own for document in file.valid],
        base.config.rules,
        shipped=index.engine.shipped.rules,
        check=index.context.checker.check,
        server=index.context.policies.server,
    )


def verdicts_of_base(  # noqa: PLR0917
    cache: Cache,
    workers: WorkerPool,
    index: CompiledRevision,
    renderer: Renderer,
    existing: Baseline,
    rules: RuleBook,
) -> PolicyFindings:
    """Return the verdicts by the rules of the base.

    Rules over all objects together see all of them. A policy about one object sees those that the head adds or edits:
    the others were judged by it before.
    """
    evaluations: list[PolicyFindings] = []
    before, after = _plain(rules.settings), _plain(index.context.config.rules)
    if any(before.get(rule) != after.get(rule) for rule in RULES):
        evaluations.append(PolicyFindings(tuple(evaluate_under(index, rules.settings))))
    if rules.policies.digest != index.context.policies.digest:
        changed = sorted(path for path, blob in index.desired.items() if existing.versions.get(path) != blob)
        evaluations += _evaluate(cache, workers, index, renderer, existing, rules.policies, changed)
    return join(evaluations)


_evaluations = msgspec.msgpack.Decoder(list[PolicyFindings])


def _evaluate(  # noqa: PLR0917 - what an evaluation needs
    cache: Cache,
    workers: WorkerPool,
    index: CompiledRevision,
    renderer: Renderer,
    existing: Baseline,
    policies: PolicySet,
    paths: Sequence[str],
) -> list[PolicyFindings]:
    key = f"programs:{policies.digest}"
    known = load_mapping(cache, key)
    policies.programs.recall(known)
    index.engine.shipped.recall(policies)
    groups = renderer.group(paths)
    sources = list(groups)
    evaluator = PolicyEvaluator(policies)
    existing.objects(path for path in paths if path in existing.versions)

    def work(positions: range) -> list[bytes]:
        chosen = [sources[position] for position in positions]
        compiled = zip(chosen, renderer.compile(chosen), strict=True)
        manifests = [(path, objects[path].manifest) for source, objects in compiled for path in groups[source]]
        subjects = [
            index.context.subject(manifest, existing.body(path) if path in existing.versions else None)
            for path, manifest in manifests
        ]
        found = iter(evaluator.evaluate(subjects))
        return [msgspec.msgpack.encode([*islice(found, len(groups[source]))]) for source in chosen]

    results = workers.run("judging by the rules of the base", work, len(sources))
    evaluations = [evaluation for raw in results for evaluation in _evaluations.decode(raw)]
    save_mapping(cache, key, known, policies.programs.made)
    return evaluations
