"""Evidence of live clusters, committed to the branch that a source reads."""

import datetime as dt
from collections.abc import Mapping

from reconciler.console.access import ClusterFlags
from reconciler.controller.outcome import PassFailure
from reconciler.controller.sources.source import ConfigSource
from reconciler.errors import ConfigError, one_line
from reconciler.kube.secrets import mask_text
from reconciler.live.observe.evidence import Observed, observe
from reconciler.plan import opening
from reconciler.plan.live.clusters import cluster_opener
from reconciler.plan.outputs.commit import ENGINE, SOURCE_COMMIT, commit
from reconciler.version import __version__


def commit_evidence(
    source: ConfigSource, run: opening.Run, access: ClusterFlags, environ: Mapping[str, str]
) -> tuple[str, PassFailure | None]:
    """Observe the clusters of a source and commit what changed in the mirror.

    Returns the id of the commit, empty if nothing changed, and what could not be observed: evidence of it stays.
    """
    head = run.workspace.tree.commit
    if head is None or not source.target or f"refs/heads/{source.target}" != source.ref:
        raise ConfigError("spec.evidence commits to the branch of spec.ref", hint="remove spec.commit.branch")
    opener = cluster_opener(access, environ, run.workspace.config, run.settings)
    seen = list(observe(run.workspace, opener, now=dt.datetime.now(dt.UTC)))
    files = {path: content for one in seen for path, content in one.files.items()}
    if not files:
        return "", _notes(seen)
    clusters = ", ".join(one.cluster for one in seen if one.files)
    made = commit(
        run.workspace.repository,
        files=files,
        message=f"Evidence of {clusters}",
        trailers={SOURCE_COMMIT: head.oid, ENGINE: __version__},
        branch=source.target,
        expected_head=head.oid,
    )
    return made.oid if made else "", _notes(seen)


def _notes(seen: list[Observed]) -> PassFailure | None:
    refused = [f"{one.cluster}: {one.refused}" for one in seen if one.refused]
    kept = [f"{one.cluster}: {path} {why}" for one in seen for path, why in one.kept]
    if not refused and not kept:
        return None
    reason = "EvidenceRefused" if refused else "EvidenceNotRead"
    return PassFailure(
        reason=reason, message=one_line(mask_text("; ".join(refused or kept)), 1000), stalled=bool(refused)
    )
