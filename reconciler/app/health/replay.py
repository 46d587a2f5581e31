"""Replay a policy on stored health reports: files in, what it would have done out."""

from collections.abc import Callable, Iterable, Mapping

from reconciler.core.documents import Document, read
from reconciler.core.health.fleet.replay import Replay, catalogue_rules, replay
from reconciler.core.health.fleet.state import FleetNode
from reconciler.core.health.policy import PolicyBook
from reconciler.core.health.published import MalformedReport
from reconciler.core.health.report import NodeReport
from reconciler.core.health.stored import file_time, stored_reports
from reconciler.core.kinds.health import POLICY, parse_policy, policy_of
from reconciler.core.problems import Problem, Severity
from reconciler.core.schemas import Catalogue
from reconciler.errors import ConfigError, InvalidInput

_DAY = 86400.0


def read_policies(files: Mapping[str, bytes], catalogue: Catalogue) -> PolicyBook:
    """Return the policies in these files. Raises `ConfigError` with all problems."""
    documents: list[Document] = []
    problems: list[Problem] = []
    for path, content in files.items():
        reading = read(path, content)
        problems += reading.problems
        for document in reading.documents:
            if (document.group, document.kind) == POLICY:
                found = list(catalogue.validate(document))
                problems += found or parse_policy(document).problems
                documents.append(document)
    wrong = [problem for problem in problems if problem.severity is Severity.ERROR]
    if wrong:
        raise InvalidInput(wrong, where="in these files")
    if not documents:
        raise ConfigError(f"{', '.join(files)}: no {POLICY[1]} in it")
    return PolicyBook(map(policy_of, documents))


def read_reports(files: Mapping[str, bytes]) -> list[NodeReport]:
    """Return the reports in these files: objects of the cluster, one by one, as a list, or one in each line.

    Raises `ConfigError` for a file that holds no report: a report that is left out would look like a healthy node.
    """
    reports: list[NodeReport] = []
    for path, content in sorted(files.items()):
        try:
            reports += stored_reports(path, content)
        except MalformedReport as error:
            raise ConfigError(f"{path}: {error}") from None
    if not reports:
        raise ConfigError("there are no health reports", hint="`reconciler observe --reports` stores them")
    return reports


def last_stored(files: Iterable[tuple[str, Callable[[], bytes]]], now: float) -> dict[str, NodeReport]:
    """Return the last report of each node that `store_reports` wrote within a day. Files of others are not read.

    Raises `ConfigError` for a file that was damaged since.
    """
    last: dict[str, NodeReport] = {}
    for name, read_bytes in files:
        at = file_time(name)
        if at is None or now - at > _DAY:
            continue
        for one in read_reports({name: read_bytes()}):
            if one.node not in last or one.measured_at > last[one.node].measured_at:
                last[one.node] = one
    return last


def run_replay(policies: PolicyBook, reports: Iterable[NodeReport]) -> Replay:
    """Replay the policies on the reports, with the nodes as the reports describe them."""
    listed = list(reports)
    return replay(policies, listed, described_nodes(listed), catalogue_rules())


def described_nodes(reports: Iterable[NodeReport]) -> dict[str, FleetNode]:
    """Return the nodes as their reports describe them."""
    facts = {}
    for one in reports:
        product = one.gpus[0].product if one.gpus else ""
        facts[one.node] = FleetNode(name=one.node, uid=one.node_uid, product=product, gpus=len(one.gpus))
    return facts
