"""Replay a policy on stored health reports: files in, what it would have done out."""

from collections.abc import Iterable, Mapping

from reconciler.errors import ConfigError, InvalidInput
from reconciler.kinds.health import POLICY, parse_policy, policy_of
from reconciler.kube.problems import Problem, Severity
from reconciler.kube.schemas import Catalogue
from reconciler.kube.yaml import Document, read
from reconciler.nodehealth.fleet.replay import Replay, catalogue_rules, replay
from reconciler.nodehealth.fleet.state import FleetNode
from reconciler.nodehealth.policy import PolicyBook
from reconciler.nodehealth.report import NodeReport


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
