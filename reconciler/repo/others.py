"""Files among the sources that are no Kubernetes manifests: they get one note, and none of their content is judged."""

import posixpath

from reconciler.kube.objects import SourceRef
from reconciler.kube.patterns import later
from reconciler.kube.problems import Problem, Severity
from reconciler.kube.yaml import Reading
from reconciler.kube.yaml.reader import CONFLICT

_TYPED = later(rb"(?:^|\n|[{,])[ \t]*-?[ \t]*[\"']?(?:apiVersion|kind|metadata|spec)[\"']?[ \t]*:")
"""A key that a manifest has: with one of them a file is meant to be a manifest, however wrong it is."""

_TEMPLATE_ACTION = b"{{"
_SIGNS = (
    (later(rb"AWSTemplateFormatVersion|!(?:Ref|Sub|GetAtt|Join)\b"), "a CloudFormation template"),
    (later(rb"(?:^|\n)runs-on:|(?:^|\n)on:[\s\S]*\njobs:"), "a GitHub workflow"),
    (later(rb"(?:^|\n)services:"), "a Compose file"),
    (later(rb"(?:^|\n)(?:repos|default_language_version):"), "a pre-commit configuration"),
)
_NAMES = {
    "Chart.yaml": "the description of a Helm chart",
    "values.yaml": "values of a Helm chart",
    "package.json": "an npm package",
}
_UNREAD = frozenset({"yaml.empty", "yaml.encoding", "yaml.file-size", "yaml.document-count", "git.lfs-pointer"})
"""Rules about files of which nobody knows what they are."""
_HINT = "move it out of the source folders, or name it in spec.exclude of reconciler.yaml"


def not_a_manifest(path: str, raw: bytes, reading: Reading) -> Problem | None:
    """Return the note about a file that is no manifest; None for a manifest, or a file that is meant to be one."""
    name = posixpath.basename(path)
    if reading.documents and name != "Chart.yaml" and _TYPED.search(raw):
        return None  # nearly every file: the signs of others, which take longer, are not looked for
    is_empty = not reading.documents and not reading.problems
    if is_empty or CONFLICT.search(raw) or any(problem.rule in _UNREAD for problem in reading.problems):
        return None
    what, hint = _NAMES.get(name) or next((text for sign, text in _SIGNS if sign.search(raw)), ""), _HINT
    if _TEMPLATE_ACTION in raw and not reading.documents and "/templates/" in f"/{path}":
        what, hint = "a template of a Helm chart", "build the chart: add {path, build: helm, release} to spec.sources"
    elif name != "Chart.yaml" and (_TYPED.search(raw) or (reading.problems and not what)):
        return None  # what is broken and unknown may be a manifest
    return Problem(
        rule="layout.not-a-manifest",
        place=SourceRef(path=path),
        message=f"is not a Kubernetes manifest{f': {what}' if what else ''}, and is not read",
        hint=hint,
        severity=Severity.WARNING,
    )
