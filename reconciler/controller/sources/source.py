"""`ConfigSource`: a config repository to watch, and what to do with its changes."""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct

REQUESTED_AT = "gpureconciler.io/requestedAt"
"""Annotation whose new value asks for a pass now."""

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"([0-9]+)(ms|s|m|h)")  # of a duration such as `1m30s`
_MIN_INTERVAL = 1.0  # seconds
_BRANCHES = "refs/heads/"


class Mode(StrEnum):
    """The permissions of a source."""

    OBSERVE = "observe"
    COMMIT = "commit"
    APPLY = "apply"


class ConfigSource(Struct, frozen=True, kw_only=True):
    """One ConfigSource. Secrets are named by reference; their content is never part of it."""

    namespace: str
    name: str
    url: str
    uid: str = ""
    generation: int = 1
    ref: str = "refs/heads/main"
    path: str = ""
    cluster: str = ""
    mode: Mode = Mode.OBSERVE
    evidence: bool = False
    health: bool = False  # make rounds of node health
    reviews: bool = False  # plan and comment open change requests
    interval: float = 60.0  # seconds
    timeout: float = 300.0
    wait: bool = False  # in the mode apply: for all objects to be ready
    suspend: bool = False
    service_account: str = ""
    secret: str = ""
    webhook_secret: str = ""
    branch: str = ""  # to push to, instead of the one that is read
    author: str = "gpu-reconciler"
    email: str = "gpu-reconciler@localhost"
    requested_at: str = ""

    @property
    def key(self) -> str:
        """`namespace/name`, which identifies the source among all."""
        return f"{self.namespace}/{self.name}"

    @property
    def refs(self) -> tuple[str, ...]:
        """The references to fetch: the one that is read, and the one that is written."""
        written = f"{_BRANCHES}{self.target}" if self.target and self.mode is Mode.COMMIT else self.ref
        return tuple(dict.fromkeys((self.ref, written)))

    @property
    def target(self) -> str:
        """The branch to push to; empty if a tag is read and no branch is named."""
        return self.branch or (self.ref.removeprefix(_BRANCHES) if self.ref.startswith(_BRANCHES) else "")

    @property
    def is_live(self) -> bool:
        """True if a pass looks at clusters, so that it is due at every interval."""
        return self.mode is Mode.APPLY or (self.mode is Mode.COMMIT and self.evidence)

    def revision(self, commit: str) -> str:
        """Name a commit as Flux does: `main@sha1:<id>`."""
        form = "sha1" if len(commit) == 40 else "sha256"  # noqa: PLR2004 - hexadecimal digits
        return f"{self.ref.removeprefix(_BRANCHES)}@{form}:{commit}"


def parse_source(body: Mapping[str, Any]) -> ConfigSource:
    """Read an object that its schema has accepted."""
    metadata, spec = body["metadata"], body["spec"]
    commit = spec.get("commit", {})
    ref = spec.get("ref", "main")
    ref = ref if ref.startswith("refs/") else f"{_BRANCHES}{ref}"
    return ConfigSource(
        namespace=metadata.get("namespace") or "default",
        name=metadata["name"],
        uid=metadata.get("uid", ""),
        generation=metadata.get("generation", 1),
        requested_at=metadata.get("annotations", {}).get(REQUESTED_AT, ""),
        url=spec["url"],
        ref=ref,
        path=spec.get("path", ""),
        cluster=spec.get("cluster", ""),
        mode=Mode(spec.get("mode", Mode.OBSERVE)),
        evidence=spec.get("evidence", False),
        health=spec.get("health", False),
        reviews=spec.get("reviews", False),
        interval=max(seconds(spec.get("interval", "1m")), _MIN_INTERVAL),
        timeout=max(seconds(spec.get("timeout", "5m")), _MIN_INTERVAL),
        wait=spec.get("wait", False),
        suspend=spec.get("suspend", False),
        service_account=spec.get("serviceAccount", ""),
        secret=spec.get("secretRef", {}).get("name", ""),
        webhook_secret=spec.get("webhookSecretRef", {}).get("name", ""),
        branch=commit.get("branch", ""),
        author=commit.get("name", "gpu-reconciler"),
        email=commit.get("email", "gpu-reconciler@localhost"),
    )


def seconds(text: str) -> float:
    """Return the seconds of a duration such as `1h30m`."""
    return sum(int(number) * _UNITS[unit] for number, unit in _PART.findall(text))
