"""Alerts and dashboard of node health. They name metrics of the catalogue and values of its enums only."""

from typing import Any

from reconciler.nodehealth.exports.gauges import AUTOPILOT_CHECKS, STATUS_VALUES
from reconciler.nodehealth.findings import CheckStatus, FindingSeverity
from reconciler.nodehealth.fleet.state import HealthPhase
from tools.chart.alerts import rule
from tools.chart.dashboard import Panel, Sections, datasource, model, variable
from tools.chart.queries import metric, process

_STATUS = metric("gpuhealth_check_status")
_NODES = metric("gpuhealth_nodes")
_AUTOPILOT = metric("autopilot_health_checks")
_FAIL, _UNKNOWN, _WARN = (
    f"{STATUS_VALUES[status]:g}" for status in (CheckStatus.FAIL, CheckStatus.UNKNOWN, CheckStatus.WARN)
)
_SELECT = 'node=~"$node"'
_RUNBOOK = "See the section on alerts in docs/health-agent.md."
_STALE_SECONDS = 300
_PCIE_FLOOR = 4  # GB/s, the limit of Autopilot's own alert


def health_groups() -> dict[str, Any]:
    """Return the body of a rule file."""
    return {
        "groups": [
            {"name": "gpuhealth", "rules": [*_about_gpus(), *_about_agents(), *_about_fleet()]},
            {"name": "autopilot", "rules": _of_autopilot()},
        ]
    }


def _about_gpus() -> list[dict[str, Any]]:
    fatal, app = FindingSeverity.FATAL, FindingSeverity.APP
    by_slot = "max by (node, check, gpu_slot, model)"
    return [
        _rule(
            "GPUHealthFatal",
            f'{by_slot} ({_STATUS}{{severity="{fatal}"}}) == {_FAIL}',
            wait="1m",
            severity="critical",
            summary="{{ $labels.node }}: {{ $labels.check }} fails",
            description="GPU {{ $labels.gpu_slot }} ({{ $labels.model }}) cannot be used. `kubectl get nodehealthreport"
            " {{ $labels.node }} -o yaml` has the reason and the recommended action.",
        ),
        _rule(
            "GPUHealthDegraded",
            f'{by_slot} ({_STATUS}{{severity!~"{fatal}|{app}"}}) == {_FAIL}',
            wait="10m",
            severity="warning",
            summary="{{ $labels.node }}: {{ $labels.check }} fails",
            description="GPU {{ $labels.gpu_slot }} ({{ $labels.model }}) works worse than it should.",
        ),
        _rule(
            "GPUHealthUnknown",
            f"count by (node) ({_STATUS} == {_UNKNOWN}) > 0",
            wait="15m",
            severity="warning",
            summary="{{ $labels.node }}: {{ $value }} checks cannot measure",
            description="Unknown is not healthy. The report of the node says why: a missing library, a hanging driver.",
        ),
        _rule(
            "GPUHealthSameCheckSpike",
            f"count by (check) (max by (check, node) ({_STATUS}) == {_FAIL}) >= 3",
            wait="5m",
            severity="critical",
            summary="{{ $labels.check }} fails on {{ $value }} nodes",
            description="A common cause or a wrong threshold is more likely than so many broken GPUs.",
        ),
    ]


def _about_agents() -> list[dict[str, Any]]:
    age = metric("gpuhealth_report_age_seconds")
    writes = metric("gpuhealth_agent_report_writes_total")
    return [
        _rule(
            "GPUHealthReportStale",
            f"max by (node) ({age}) > {_STALE_SECONDS}",
            wait="1m",
            severity="warning",
            summary="{{ $labels.node }}: no health report for {{ $value | humanizeDuration }}",
            description="The health of the node is unknown. Look at its agent, the pod of the DaemonSet on this node.",
        ),
        _rule(
            "GPUHealthAgentAbsent",
            f"absent({metric('gpuhealth_agent_info')})",
            wait="15m",
            severity="critical",
            summary="No agent exports health metrics",
            description="No node is measured.",
        ),
        _rule(
            "GPUHealthSweepOverdue",
            f"max by (instance) ({metric('gpuhealth_agent_sweep_overdue')}) > 0",
            wait="5m",
            severity="warning",
            summary="Agent {{ $labels.instance }}: a sweep does not end",
            description="A call into the driver hangs, which is often a dying GPU.",
        ),
        _rule(
            "GPUHealthReportNotWritten",
            f'sum by (instance) (increase({writes}{{result="failure"}}[15m])) > 0',
            wait="15m",
            severity="warning",
            summary="Agent {{ $labels.instance }} cannot write its report",
            description="Check the API server and the role of the agents. Metrics go on.",
        ),
    ]


def _about_fleet() -> list[dict[str, Any]]:
    hang = metric("gpuhealth_job_hang_suspected")
    return [
        _rule(
            "GPUHealthQuarantine",
            f'sum by (pool) ({_NODES}{{state="{HealthPhase.QUARANTINED}"}}) > 0',
            wait="0m",
            severity="warning",
            summary="Pool {{ $labels.pool }}: {{ $value }} nodes in quarantine",
            description="`reconciler health` lists them with their reasons.",
        ),
        _rule(
            "GPUHealthBreakerTripped",
            f"max by (limit) ({metric('gpuhealth_breaker_state')}) > 0",
            wait="0m",
            severity="critical",
            summary="The circuit breaker stops quarantines: {{ $labels.limit }}",
            description="More nodes fail than chance explains, so this waits until it is over or a commit resets it.",
        ),
        _rule(
            "GPUHealthJobHangSuspected",
            f"max by (job_namespace, job_name) ({hang}) > 0",
            wait="0m",
            severity="warning",
            summary="{{ $labels.job_namespace }}/{{ $labels.job_name }} seems to hang",
            description="Events of the job say what was seen.",
        ),
    ]


def _of_autopilot() -> list[dict[str, Any]]:
    """Return the alerts of Autopilot that have a gauge here, by their own names."""
    known = {
        "remapped": ("RemappedRowsActive", "1m", "warning"),
        "power-slowdown": ("GPUPowerSlowdownEnabled", "1m", "warning"),
        "dcgm": ("DCGMErrors", "1m", "warning"),
        "gpumem": ("GPUMemoryTestFailures", "1m", "warning"),
        "ping": ("PingFailures", "10m", "critical"),
        "pvc": ("PVCAlert", "5m", "critical"),
    }
    rules = [
        _rule(
            "LowPCIeBandwidth",
            f'min by (node, deviceid) ({_AUTOPILOT}{{health="pciebw"}}) <= {_PCIE_FLOOR}',
            wait="1m",
            severity="warning",
            summary="{{ $labels.node }}: PCIe bandwidth of GPU {{ $labels.deviceid }} is {{ $value }} GB/s",
            description="The limit of Autopilot for every generation; GPUHealthDegraded knows the link.",
        )
    ]
    for health in AUTOPILOT_CHECKS:
        if health in known:
            name, wait, severity = known[health]
            rules.append(
                _rule(
                    name,
                    f'max by (node, deviceid) ({_AUTOPILOT}{{health="{health}"}}) == 1',
                    wait=wait,
                    severity=severity,
                    summary=f"{{{{ $labels.node }}}}: {health} fails",
                    description="GPU {{ $labels.deviceid }}; empty: the node.",
                )
            )
    return [{**one, "labels": {**one["labels"], "alert": "autopilot"}} for one in rules]


def _rule(name: str, expr: str, *, wait: str, severity: str, summary: str, description: str) -> dict[str, Any]:
    return rule(name, expr, wait=wait, severity=severity, summary=summary, description=description, runbook=_RUNBOOK)


# The dashboard.


def health_dashboard() -> dict[str, Any]:
    """Return the JSON model."""
    nodes = variable("node", "Node", f"label_values({_STATUS}, node)")
    return model("gpu-health", "GPU health", _sections(), [datasource(), nodes])


def _sections() -> Sections:
    return ("Fleet", _fleet()), ("GPUs", _gpus()), ("Agents", _agents())


def _fleet() -> tuple[Panel, ...]:
    age = metric("gpuhealth_report_age_seconds")
    return (
        Panel("Nodes by phase", ((f"sum by (state) ({_NODES})", "{{state}}"),)),
        Panel("Out of service by pool", ((f'sum by (pool) ({_NODES}{{state!~"healthy|suspect"}})', "{{pool}}"),)),
        Panel("Breaker", ((f"max by (limit) ({metric('gpuhealth_breaker_state')})", "{{limit}}"),)),
        Panel("Age of the oldest report", ((f"max({age}{{{_SELECT}}})", "age"),), unit="s"),
        Panel(
            "Jobs that seem to hang",
            ((f"sum by (job_namespace) ({metric('gpuhealth_job_hang_suspected')})", "{{job_namespace}}"),),
        ),
        Panel("Agents by version", ((f"count by (version) ({metric('gpuhealth_agent_info')})", "{{version}}"),)),
    )


def _gpus() -> tuple[Panel, ...]:
    def count(value: str, by: str) -> str:
        return f"count by ({by}) ({_STATUS}{{{_SELECT}}} == {value})"

    return (
        Panel("Failing checks", ((count(_FAIL, "check"), "{{check}}"),)),
        Panel("Warnings", ((count(_WARN, "check"), "{{check}}"),)),
        Panel("Unknown", ((count(_UNKNOWN, "check"), "{{check}}"),)),
        Panel("Nodes with most failures", ((f"topk(10, {count(_FAIL, 'node')})", "{{node}}"),)),
        Panel("Failures by model", ((count(_FAIL, "model"), "{{model}}"),)),
        Panel(
            "Checks of Autopilot",
            ((f'sum by (health) ({_AUTOPILOT}{{{_SELECT},health!="pciebw"}})', "{{health}}"),),
        ),
    )


def _agents() -> tuple[Panel, ...]:
    last = metric("gpuhealth_agent_last_sweep_timestamp_seconds")
    writes = metric("gpuhealth_agent_report_writes_total")
    job = '{service=~".*-agent"}'
    return (
        Panel("Longest sweep", ((f"max({metric('gpuhealth_agent_sweep_seconds')})", "seconds"),), unit="s"),
        Panel("Oldest sweep", ((f"time() - min({last} > 0)", "age"),), unit="s"),
        Panel("Sweeps that do not end", ((f"sum({metric('gpuhealth_agent_sweep_overdue')})", "overdue"),)),
        Panel("Writes of reports", ((f"sum by (result) (rate({writes}[$__rate_interval]))", "{{result}}"),), "ops"),
        Panel("Memory", ((f"max({process('process_resident_memory_bytes')}{job})", "largest"),), "bytes"),
        Panel("CPU", ((f"max(rate({process('process_cpu_seconds_total')}{job}[$__rate_interval]))", "largest"),)),
    )
