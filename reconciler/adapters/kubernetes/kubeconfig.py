"""Kubeconfig files, as kubectl reads them: several files as one, paths relative to the file that names them."""

import base64
import datetime as dt
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

import yaml
from msgspec import Struct

from reconciler.adapters.kubernetes.connection import Address, Tls
from reconciler.adapters.kubernetes.plugin import run_plugin
from reconciler.adapters.kubernetes.proxies import proxy_of, proxy_url
from reconciler.errors import ConfigError

_SECTIONS = ("clusters", "contexts", "users")
TOKEN_FILE_LASTS = dt.timedelta(minutes=1)
"""How long the content of a token file is used: tokens of pods change."""

_EARLY = dt.timedelta(minutes=5)  # a credential is renewed so long before its end
_PROVIDERS = ("gcp", "oidc")


class Identity(Struct, frozen=True, kw_only=True):
    """Who to act as (impersonation); an empty user is nobody else."""

    user: str = ""
    groups: tuple[str, ...] = ()
    uid: str = ""

    def headers(self) -> Iterator[tuple[str, str]]:
        """Yield the headers of impersonation."""
        if self.user:
            yield "Impersonate-User", self.user
            yield from (("Impersonate-Group", group) for group in self.groups)
            if self.uid:
                yield "Impersonate-Uid", self.uid


NOBODY = Identity()


class Login(Struct, frozen=True, kw_only=True):
    """Where a server is, how to be let in, and who to act as. `renew_at`: when to load it again."""

    address: Address
    authorization: str = ""
    identity: Identity = NOBODY
    renew_at: dt.datetime | None = None


class Proof(Struct, frozen=True, kw_only=True):
    """What lets a user in: the header Authorization, or a certificate. `renew_at`: when it is loaded again."""

    authorization: str = ""
    certificate: bytes = b""
    key: bytes = b""
    renew_at: dt.datetime | None = None


class NamedEntry(Struct, frozen=True, kw_only=True):
    """A named entry of a section, and the folder of its file."""

    name: str = ""
    value: Mapping[str, Any] = {}
    folder: Path = Path()

    def file(self, field: str) -> Path:
        """Return the path that a field holds."""
        return Path(os.path.normpath(self.folder / str(self.value[field])))

    def content(self, field: str) -> bytes:
        """Return what `<field>-data` holds, else the content of the file that the field names; empty without both."""
        if data := self.value.get(f"{field}-data"):
            return base64.standard_b64decode(str(data))
        return read_file(self.file(field)) if self.value.get(field) else b""


class Kubeconfig(Struct, frozen=True, kw_only=True):
    """Kubeconfig files as one."""

    where: str
    sections: Mapping[str, Sequence[NamedEntry]]
    current: str = ""

    def entry(self, section: str, name: Any) -> NamedEntry | None:
        """Return an entry by its name; None if there is none."""
        return next((entry for entry in self.sections[section] if entry.name == str(name)), None)

    def plain(self) -> dict[str, Any]:
        """Return the content as one file has it."""
        rows = {
            section: [{"name": entry.name, section.removesuffix("s"): entry.value} for entry in entries]
            for section, entries in self.sections.items()
        }
        return {**rows, "current-context": self.current}


def merge(paths: Sequence[Path]) -> Kubeconfig:
    """Merge kubeconfig files as kubectl does: the first file that defines something wins."""
    merged: dict[str, list[NamedEntry]] = {section: [] for section in _SECTIONS}
    current = ""
    for path in paths:
        content, folder = _read(path), path.absolute().parent
        for section in _SECTIONS:
            known = {entry.name for entry in merged[section]}
            for row in content.get(section) or ():
                if isinstance(row, dict) and str(row.get("name")) not in known:
                    value = row.get(section.removesuffix("s")) or {}
                    merged[section].append(NamedEntry(name=str(row.get("name")), value=value, folder=folder))
        current = current or str(content.get("current-context") or "")
    return Kubeconfig(where=", ".join(map(str, paths)), sections=merged, current=current)


def log_in(paths: Sequence[Path], context: str, environ: Mapping[str, str]) -> Login:
    """Load a context of kubeconfig files. Raises `ConfigError`, which shows no value of them."""
    merged = merge(paths)
    try:
        return _log_in(merged, context, environ)
    except ConfigError as error:
        raise ConfigError(f"{merged.where}: context {context}: {error.message}", hint=error.hint) from None
    except (ValueError, TypeError, AttributeError, KeyError):  # never the error itself: it may repeat a value
        raise ConfigError(f"{merged.where}: context {context}: a value is not valid") from None


def _log_in(merged: Kubeconfig, context: str, environ: Mapping[str, str]) -> Login:
    named = merged.entry("contexts", context)
    chosen = named.value if named is not None else {}
    cluster = merged.entry("clusters", chosen["cluster"])
    if cluster is None:
        raise ConfigError(f"its cluster {chosen['cluster']!r} is not among the clusters")
    user = merged.entry("users", chosen.get("user")) or NamedEntry()
    url = server_url(str(cluster.value.get("server") or ""))
    proxy = str(cluster.value.get("proxy-url") or "")
    proof = _proof(user, cluster, merged, context)
    return Login(
        address=Address(
            url=url,
            tls=_tls(cluster, user, proof) if url.scheme == "https" else Tls(),
            proxy=proxy_url(proxy) if proxy else proxy_of(url, environ),
        ),
        authorization=proof.authorization,
        identity=_identity(user.value),
        renew_at=proof.renew_at,
    )


def server_url(text: str) -> SplitResult:
    """Parse the URL of a server. Raises `ConfigError`, which does not show it: it may hold a password."""
    url = urlsplit(text)
    if url.scheme not in ("http", "https") or not url.hostname or url.query or url.fragment:
        raise ConfigError("its server is not a URL", hint="write it as https://HOST:PORT")
    _ = url.port  # a ValueError if it is not a number
    return url


def _tls(cluster: NamedEntry, user: NamedEntry, proof: Proof) -> Tls:
    return Tls(
        authority=cluster.content("certificate-authority"),
        certificate=proof.certificate or user.content("client-certificate"),
        key=proof.key or user.content("client-key"),
        server_name=str(cluster.value.get("tls-server-name") or ""),
        is_verified=not cluster.value.get("insecure-skip-tls-verify"),
    )


def _identity(user: Mapping[str, Any]) -> Identity:
    groups = tuple(str(group) for group in user.get("as-groups") or ())
    return Identity(user=str(user.get("as") or ""), groups=groups, uid=str(user.get("as-uid") or ""))


def _proof(user: NamedEntry, cluster: NamedEntry, merged: Kubeconfig, context: str) -> Proof:
    """Return what lets a user in: the first of a provider, a token, a plugin and a password, as the official client."""
    row = user.value
    if (row.get("auth-provider") or {}).get("name") in _PROVIDERS:
        from reconciler.adapters.kubernetes.official import provider_token  # noqa: PLC0415 - rare, and slow to import

        if token := provider_token(merged.plain(), context):
            return Proof(authorization=token)
    if given := row.get("token"):
        return Proof(authorization=f"Bearer {given}")
    if "token" not in row and row.get("tokenFile"):
        content = read_file(user.file("tokenFile")).decode().strip()
        if content:
            return Proof(authorization=f"Bearer {content}", renew_at=dt.datetime.now(dt.UTC) + TOKEN_FILE_LASTS)
    if row.get("exec"):
        return _plugin_proof(user, cluster)
    if "username" in row and "password" in row:
        pair = f"{row['username']}:{row['password']}".encode()
        return Proof(authorization=f"Basic {base64.b64encode(pair).decode()}")
    return Proof()


def _plugin_proof(user: NamedEntry, cluster: NamedEntry) -> Proof:
    printed = run_plugin(user.value["exec"], cluster.value, user.folder)
    end = printed.expiration_timestamp
    return Proof(
        authorization=f"Bearer {printed.token}" if printed.token else "",
        certificate=printed.client_certificate_data.encode(),
        key=printed.client_key_data.encode(),
        renew_at=_moment(end) - _EARLY if end else None,
    )


def _moment(text: str) -> dt.datetime:
    found = dt.datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=dt.UTC)


def read_file(path: Path) -> bytes:
    """Read a file that a kubeconfig names. Raises `ConfigError`."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None


def _read(path: Path) -> dict[str, Any]:
    try:
        content = yaml.load(path.read_bytes(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - safe
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)  # never the error itself: it repeats lines of the file
        place = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else str(path)
        raise ConfigError(f"{place}: not valid YAML") from None
    if not isinstance(content, dict) or any(not isinstance(content.get(key) or [], list) for key in _SECTIONS):
        raise ConfigError(f"{path} is not a kubeconfig")
    return content
