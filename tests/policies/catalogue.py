"""The shipped rules and their examples, as tests read them."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reconciler import resources
from reconciler.kinds.manifests.manifest import Manifest, manifest
from reconciler.kube.reasons import Reason
from reconciler.kube.schemas import Catalogue
from reconciler.kube.yaml import Document, read
from reconciler.policy.admission import Policies, ServerView, Subject, load
from reconciler.policy.verdict import Verdict
from reconciler.repo.config import RuleSetting

ROOT = Path(__file__).parents[2]
POLICIES = ROOT / "policies"
RULES = tuple(sorted(path.parent.name for path in POLICIES.glob("*/rule.yaml")))


SERVER = ServerView(served=Catalogue(resources).resource)


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One example file: `verdict` is pass or fail."""

    rule: str
    verdict: str
    path: Path

    def __str__(self) -> str:
        return f"{self.rule}-{self.verdict}-{self.path.stem}"

    @property
    def document(self) -> Document:
        (document,) = documents(self.path)
        return document


ABOUT_PLANS = ("gpus-per-plan", "no-data-loss-in-plan")
"""Rules about a plan as a whole, which are off by default; an API server has no such objects."""

OPTIONAL = (*ABOUT_PLANS, "kaiwo-managed")
"""Rules that are off by default."""

EXAMPLES = tuple(
    Example(rule=path.parts[-4], verdict=path.parts[-2], path=path)
    for path in sorted(POLICIES.glob("*/examples/*/*.yaml"))
)


def documents(path: Path) -> tuple[Document, ...]:
    """Read one file that must be right."""
    reading = read(str(path.relative_to(ROOT)), path.read_bytes())
    assert not reading.problems, "\n".join(map(str, reading.problems))
    return reading.documents


def shipped() -> list[Document]:
    """All documents of all rules."""
    return [document for rule in RULES for document in documents(POLICIES / rule / "rule.yaml")]


def catalogue(settings: Mapping[str, RuleSetting] | None = None) -> Policies:
    """Load the catalogue, as a repository without policies of its own gets it, with the optional rules."""
    optional = {rule: RuleSetting() for rule in OPTIONAL}
    return load([], {**optional, **(settings or {})}, shipped=shipped(), server=SERVER)


def rendered(document: Document) -> Manifest:
    """Take the document for a manifest of a cluster."""
    reason = Reason(rule="source")
    return manifest(cluster="main", tree=document.data, source=document.source, reason=reason)


def verdicts(policies: Policies, body: Document | Manifest, *, old: Mapping[str, Any] | None = None) -> list[Verdict]:
    """Ask the policies about one object."""
    subject = rendered(body) if isinstance(body, Document) else body
    return list(policies.policies.evaluate(Subject(subject, old, None)))
