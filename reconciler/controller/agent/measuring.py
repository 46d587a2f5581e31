"""The gauges of an agent, set from what it knows whenever somebody asks."""

from reconciler.app.health.agent import Agent, AgentState
from reconciler.controller.metrics import Metrics
from reconciler.core.health.exports.gauges import autopilot_samples, check_samples

_CPU_MODEL = "model name"


class AgentGauges:
    """Sets the metrics of an agent. `with_autopilot`: also the gauge of Autopilot."""

    def __init__(self, metrics: Metrics, *, with_autopilot: bool, cpu_model: str = "") -> None:
        self._metrics, self._with_autopilot, self._cpu_model = metrics, with_autopilot, cpu_model
        self._counted = {"success": 0, "failure": 0}

    def update(self, state: AgentState) -> None:
        """Set all metrics to a state. Slots and checks that are gone have no sample any more."""
        metrics = self._metrics
        metrics.set("gpuhealth_agent_sweep_seconds", state.sweep_seconds)
        metrics.set("gpuhealth_agent_sweep_overdue", float(state.is_overdue))
        for result, total in (("success", state.writes), ("failure", state.failures)):
            metrics.count("gpuhealth_agent_report_writes_total", total - self._counted[result], result=result)
            self._counted[result] = total
        if state.report is None or state.result is None:
            return
        metrics.set("gpuhealth_agent_last_sweep_timestamp_seconds", state.result.sweep.taken_at)
        metrics.replace("gpuhealth_check_status", check_samples(state.report, state.findings))
        if self._with_autopilot:
            found = autopilot_samples(state.report, state.findings, self._cpu_model)
            metrics.replace("autopilot_health_checks", found)


def unready(agent: Agent) -> str:
    """Return why the agent has nothing to tell yet; empty once it has. A GPU or server that hangs does not count."""
    return "" if agent.state.report is not None else "the first sweep has not finished"


def cpu_model(cpuinfo: str) -> str:
    """Return the model of the processor from /proc/cpuinfo."""
    lines = (line.partition(":") for line in cpuinfo.splitlines())
    return next((value.strip() for name, _, value in lines if name.strip() == _CPU_MODEL), "")
