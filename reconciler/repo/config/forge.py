"""`spec.forge`: where change requests, comments and statuses go. Tokens are in the environment, or in a Secret."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from reconciler.kube.problems import Violation

_RULE = "config.forge"
_KINDS = {"github.com": "github", "gitlab.com": "gitlab", "codeberg.org": "gitea"}
_NAME = re.compile(r"[\w.-]+(/[\w.-]+)+", re.ASCII)


class ForgeSettings(Struct, frozen=True, kw_only=True):
    """A forge and a repository on it; what is empty follows from the remote `origin` or from the pipeline.

    commands: those that people may write in comments. owners_approve: reviews of code owners approve plans over budget.
    most: change requests that may be open at a time.
    """

    kind: str = ""
    url: str = ""
    repository: str = ""
    commands: tuple[str, ...] = ()
    owners_approve: bool = False
    most: int = 10


def kind_of_host(host: str) -> str:
    """Return the kind of forge of a well-known host; empty for any other."""
    return _KINDS.get(host.lower(), "")


def parse_forge(spec: Mapping[str, Any]) -> ForgeSettings | None:
    """Read `spec.forge` of settings that their schema has accepted; None without one."""
    entry = spec.get("forge")
    if entry is None:
        return None
    return ForgeSettings(
        kind=entry.get("kind", ""),
        url=entry.get("url", "").rstrip("/"),
        repository=entry.get("repository", ""),
        commands=tuple(entry.get("commands", ())),
        owners_approve=entry.get("ownersApprove", False),
        most=spec.get("budgets", {}).get("changeRequests", ForgeSettings().most),
    )


def forge_violations(spec: Mapping[str, Any]) -> Iterator[Violation]:
    """Yield what the schema cannot say."""
    entry = spec.get("forge", {})
    repository, kind = entry.get("repository", ""), entry.get("kind", "")
    is_nested = repository.count("/") > 1 and kind not in ("", "gitlab")
    if repository and (not _NAME.fullmatch(repository) or is_nested or ".." in repository):
        form = "GROUP/NAME" if kind == "gitlab" else "OWNER/NAME"
        message = f"{repository[:80]!r} is not the name of a repository"
        yield Violation(rule=_RULE, path=("spec", "forge", "repository"), message=message, hint=f"write {form}")
    if entry.get("url") and not kind and not kind_of_host(entry["url"].partition("://")[2].partition("/")[0]):
        message = "the kind of forge does not follow from this address"
        hint = "add kind: github, gitlab or gitea"
        yield Violation(rule=_RULE, path=("spec", "forge", "url"), message=message, hint=hint)
