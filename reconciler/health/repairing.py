"""Carry out the steps of a repair that people have merged: drain a node, or ask the user's tool, as the policy says."""

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from reconciler.clock import Clock
from reconciler.errors import ConfigError, ReconcilerError
from reconciler.health.deep_runs import uses_gpus
from reconciler.health.draining import drain_node, resume_drained
from reconciler.health.events import EventTarget, record_event
from reconciler.health.fast_lane import HealthRules, LaneRound
from reconciler.health.fleet_reading import pods_on
from reconciler.health.state_store import StateStore
from reconciler.kinds.health.repairs import CRON_JOB, repair_job
from reconciler.kube.client.port import ClusterError, LiveCluster
from reconciler.kube.objects import ObjectKey
from reconciler.messages import webhook_in
from reconciler.nodehealth.fleet.decisions import HealthDecision
from reconciler.nodehealth.fleet.evaluate import FleetInput
from reconciler.nodehealth.fleet.repairs import RepairStep, RepairTry, current_tries, due_steps
from reconciler.nodehealth.policy import CheckMode, RepairTemplate
from reconciler.nodehealth.quarantine import Stage
from reconciler.settings import ALERT_WEBHOOKS

_EXISTS = 409


def start_repairs(
    environ: Mapping[str, str],
    cluster: LiveCluster,
    store: StateStore,
    done: LaneRound,
    rules: HealthRules,
    *,
    clock: Clock,
) -> LaneRound:
    """Begin the steps that are due, or tell what would begin, and remember them. One that fails stops no other."""
    reading, known, failures = done.reading, done.state.repairs, list[str]()
    given = FleetInput(
        facts=reading.facts, reports=reading.reports, policies=rules.policies, quarantines=rules.reviewed
    )
    enforces = any((one.spec.get("drain") or {}).get("mode") == CheckMode.ENFORCE for one in rules.policies.documents)
    if enforces or any(one.stage is Stage.DRAIN for one in known.values()):  # also once the policy drains no more
        failures += resume_drained(cluster)
    tries = current_tries(known, done.evaluation)
    for step in due_steps(given, done.evaluation, tries, done.now):
        decision = done.evaluation.decisions[step.node]
        try:
            said = _begin(environ, cluster, step, decision, done.evaluation.state.nodes[step.node].since)
            about = EventTarget(api_version="v1", kind="Node", name=step.node, uid=step.uid)
            reason = f"{'Drain' if step.is_drain else 'Repair'}{'WouldStart' if step.is_shadow else 'Started'}"
            record_event(cluster, about, reason=reason, message=said, is_warning=False, clock=clock)
        except ReconcilerError as error:
            failures.append(f"{step.node} is not {'drained' if step.is_drain else 'repaired'}: {error.message}")
            continue
        tries[step.node] = RepairTry(attempt=step.attempt, at=done.now, stage=step.stage)
    if tries == known and not failures:
        return done
    stored = store.read()
    store.write(replace(stored.state, repairs=tries), stored)
    return replace(done, failures=(*done.failures, *failures))


def _begin(
    environ: Mapping[str, str], cluster: LiveCluster, step: RepairStep, decision: HealthDecision, since: float
) -> str:
    """Begin one step, unless it is told only; return what is told about it."""
    if step.is_drain:
        if decision.taint is None:
            raise ConfigError("its quarantine has no taint yet, so that workloads could come back")
        moved = drain_node(cluster, step.node, is_shadow=step.is_shadow)
        return f"drain (attempt {step.attempt} of {step.attempts}): {moved}"
    if not step.is_ticket and any(map(uses_gpus, pods_on(cluster, step.node))):
        raise ConfigError("pods with GPUs are left on it")
    if not step.is_shadow and step.template is not None:
        _create_job(cluster, step, step.template, since)
    elif not step.is_shadow:
        webhook_in(environ.get(ALERT_WEBHOOKS, ""), "repair-url").post(msgspec.to_builtins(step.asked))
    what = "a ticket" if step.is_ticket else f"{step.action} (attempt {step.attempt} of {step.attempts})"
    return f"{what}: {step.reason}"


def _create_job(cluster: LiveCluster, step: RepairStep, template: RepairTemplate, since: float) -> None:
    """Create the Job of an attempt from the user's CronJob, as `kubectl create job --from` does."""
    key = ObjectKey(group=CRON_JOB[0], kind=CRON_JOB[1], namespace=template.namespace, name=template.name)
    cron_job = cluster.get(key)
    if cron_job is None:
        raise ConfigError(f"{key} does not exist")
    if not cron_job["spec"].get("suspend"):
        raise ConfigError(f"{key} is not suspended, so it would also run by itself")
    try:
        cluster.create(repair_job(cron_job, step.asked, template, since=since, seconds=step.seconds))
    except ClusterError as error:
        if error.status != _EXISTS:  # an earlier round created it, and could not remember
            raise
