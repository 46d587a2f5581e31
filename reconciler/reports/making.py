"""A report about the use of GPUs, from what is known of all clusters."""

from msgspec import Struct, field

from reconciler.index.build import CompiledRevision
from reconciler.reports.measured import Measured
from reconciler.reports.pages import Report, idle_jobs
from reconciler.reports.recorded import directory_of, freeing, recorded_use
from reconciler.reports.use import HeldGpus, use_rows


class KnownUse(Struct, kw_only=True, eq=False):
    """The use of GPUs of all clusters, as far as it is known. hours: those of the window of each; windows: in words."""

    windows: list[str] = field(default_factory=list)
    hours: dict[str, float] = field(default_factory=dict)
    held: list[HeldGpus] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def add(self, cluster: str, found: Measured, note: str, *, hours: float, window: str) -> None:
        """Add what was found of a cluster in a window; the note says where."""
        self.hours[cluster] = hours
        self.windows.append(window)
        self.held += found.held
        self.notes += [f"{cluster}: {one}" for one in (note, *found.notes) if one]

    def add_recorded(self, index: CompiledRevision, cluster: str) -> None:
        """Add what the evidence says of a cluster."""
        found, hours, taken = recorded_use(index, directory_of(index, cluster))
        window = f"{hours * 60:,.0f} minutes of evidence" if taken else "no evidence"
        self.add(cluster, found, f"from evidence of {taken}" if taken else "", hours=hours, window=window)


def report_use(index: CompiledRevision, use: KnownUse, kind: str, by: str, window: str = "") -> Report:
    """Return the report `efficiency` or `cost`; the first with the edits that free idle GPUs.

    window: what was asked for, in words, if nothing is known of any cluster.
    """
    prices = {one.name: one.prices for one in index.clusters if one.prices.gpu_hours}
    jobs = use_rows(use.held, "job", prices, use.hours)
    edits = {
        (cluster.name, job): edit
        for cluster in index.clusters
        for job, edit in freeing(index, cluster.name, {row.name for row in jobs if row.idle}).items()
    }
    return Report(
        kind=kind,
        by=by,
        window=", ".join(dict.fromkeys(use.windows)) or window,
        rows=use_rows(use.held, by, prices, use.hours),
        idle_jobs=idle_jobs(jobs, edits) if kind == "efficiency" else (),
        notes=tuple(use.notes),
        failures=tuple(use.failures),
    )


def recorded_report(index: CompiledRevision, kind: str, by: str = "team") -> Report:
    """Return a report from evidence alone."""
    use = KnownUse()
    for cluster in index.clusters:
        use.add_recorded(index, cluster.name)
    return report_use(index, use, kind, by)
