"""The forge of a repository: from its settings, the remote and the pipeline; and whose token is sent where."""

import base64
import os
import re
import ssl
import stat
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from reconciler.errors import ConfigError, one_line
from reconciler.forge import Forge
from reconciler.forge.client import ForgeClient
from reconciler.forge.gitea import Gitea
from reconciler.forge.github import GitHub
from reconciler.forge.gitlab import GitLab
from reconciler.http import Endpoint, HttpClient
from reconciler.repo.config.forge import ForgeSettings, kind_of_host
from reconciler.settings import (
    FORGE_APP,
    FORGE_APP_KEY,
    FORGE_CA,
    FORGE_HOST,
    FORGE_PROXY,
    FORGE_TOKEN,
)

_KINDS: Mapping[str, Callable[..., Forge]] = {"github": GitHub, "gitlab": GitLab, "gitea": Gitea}
_APIS = {"github": "/api/v3", "gitlab": "/api/v4", "gitea": "/api/v1"}
_LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})
_SSH = re.compile(r"(?:[\w.-]+@)?(?P<host>[\w.-]+):(?P<path>[^/].*)")
_JWT_SECONDS = 540
_WORKFLOW_ACCOUNTS = {"github": "github-actions[bot]", "gitea": "gitea-actions"}


class ForgeAddress(Struct, frozen=True, kw_only=True):
    """A repository on a forge. `host` is that of `url`, with the port if it has one."""

    kind: str
    url: str
    repository: str

    @property
    def host(self) -> str:
        """The host, with the port if the URL has one."""
        return urlsplit(self.url).netloc.lower()

    @property
    def api(self) -> str:
        """The URL of the API."""
        return "https://api.github.com" if self.host == "github.com" else f"{self.url}{_APIS[self.kind]}"


class ForgeAccess(Struct, frozen=True, kw_only=True):
    """The access that is not in the repository: a token or an App, and how to get there. Never shown.

    hosts: those that the token may be sent to. account: who the token is, if it may not ask.
    """

    hosts: tuple[str, ...]
    token: str = ""
    app: str = ""
    app_key: bytes = b""
    authorities: str = ""
    proxy: str = ""
    account: str = ""

    def __repr__(self) -> str:
        return "ForgeAccess(***)"


def address_of(settings: ForgeSettings, remotes: Sequence[str], environ: Mapping[str, str]) -> ForgeAddress:
    """Return the forge: what the settings say, else the pipeline, else the remote. Raises `ConfigError`."""
    ci_url, ci_repository = _pipeline(environ)
    host, path = _remote(remotes)
    url = settings.url or ci_url or (f"https://{host}" if host else "")
    if not url:
        raise ConfigError("the forge is not known: there is no remote origin", hint="set spec.forge.url and repository")
    kind = settings.kind or _pipeline_kind(environ) or kind_of_host(urlsplit(url).netloc)
    if not kind:
        hint = "set spec.forge.kind: github, gitlab or gitea"
        raise ConfigError(f"the kind of the forge {one_line(urlsplit(url).netloc)} is not known", hint=hint)
    repository = settings.repository or ci_repository or path
    if "/" not in repository:
        raise ConfigError("the repository on the forge is not known", hint="set spec.forge.repository")
    return ForgeAddress(kind=kind, url=url.rstrip("/"), repository=repository)


def access_of(remotes: Sequence[str], environ: Mapping[str, str]) -> ForgeAccess:
    """Return the access that the environment gives; a token without a named host is for that of the remote."""
    url, _ = _pipeline(environ)
    named = environ.get(FORGE_HOST, "")
    hosts = [named] if named else [*([urlsplit(url).netloc] if url else []), _remote(remotes)[0]]
    key = environ.get(FORGE_APP_KEY, "")
    return ForgeAccess(
        hosts=tuple(host.lower() for host in hosts if host),
        token=environ.get(FORGE_TOKEN, ""),
        app=environ.get(FORGE_APP, ""),
        app_key=_private_key(Path(key)) if key else b"",
        authorities=_authorities(environ.get(FORGE_CA, "")),
        proxy=environ.get(FORGE_PROXY, ""),
        account=_WORKFLOW_ACCOUNTS.get(_pipeline_kind(environ), ""),
    )


def access_of_secret(url: str, secret: Mapping[str, bytes], environ: Mapping[str, str]) -> ForgeAccess:
    """Return the access that the Secret of a source gives: its own token, or else the password of Git."""

    def text(key: str) -> str:
        return secret.get(key, b"").decode("utf-8", "replace").strip()

    app = text("forgeApp")
    return ForgeAccess(
        hosts=tuple(filter(None, (text("forgeHost").lower(), _remote([url])[0]))),
        token="" if app else text("forgeToken") or text("bearerToken") or text("password"),
        app=app,
        app_key=secret.get("forgeAppKey", b""),
        authorities=text("ca.crt"),
        proxy=environ.get(FORGE_PROXY, ""),
    )


def open_forge(address: ForgeAddress, access: ForgeAccess) -> Forge:
    """Open the repository. Raises `ConfigError` without a token, or if the token is not for this host."""
    if not access.token and not access.app:
        raise ConfigError("there is no token for the forge", hint=f"set {FORGE_TOKEN}")
    if address.host not in access.hosts:
        named = f"is for {one_line(', '.join(access.hosts))}" if access.hosts else "is for no named host"
        raise ConfigError(
            f"the token of the forge {named}, so it is not sent to {one_line(address.host)}, as the repository asks",
            hint=f"set {FORGE_HOST}={one_line(address.host)} if the token is for this host",
        )
    if address.url.startswith("http://") and urlsplit(address.url).hostname not in _LOCAL:
        raise ConfigError("the token of the forge would be sent without encryption", hint="use https in spec.forge.url")
    endpoint = _endpoint(address, access, access.token)
    account = access.account
    if access.app:
        token, account = installation_token(address, access, int(time.time()))
        endpoint = _endpoint(address, access, token)
    return _KINDS[address.kind](ForgeClient(HttpClient(endpoint)), address.repository, account=account)


def _endpoint(address: ForgeAddress, access: ForgeAccess, token: str) -> Endpoint:
    if access.proxy and not re.fullmatch(r"[\w.-]+:[0-9]{1,5}", access.proxy, re.ASCII):
        raise ConfigError(f"{FORGE_PROXY} is not valid", hint="write HOST:PORT")
    endpoint = Endpoint.parse(address.api, token=token, purpose="forge")
    return replace(endpoint, authorities=access.authorities, proxy=access.proxy)


def _authorities(name: str) -> str:
    """Read certificates in PEM form. Raises `ConfigError` for a file that holds none."""
    if not name:
        return ""
    try:
        content = Path(name).read_text("ascii")
        ssl.create_default_context().load_verify_locations(cadata=content)
    except (OSError, ValueError) as error:
        hint = "name a file with certificates in PEM form"
        raise ConfigError(f"{FORGE_CA} names no file of certificates: {one_line(error)}", hint=hint) from error
    return content


def _private_key(path: Path) -> bytes:
    """Read the key of an App. Raises `ConfigError` if others may read it."""
    try:
        mode = path.stat().st_mode
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"{FORGE_APP_KEY}: {error.strerror}", hint="name the file of the App's private key"
        ) from error
    if stat.S_IMODE(mode) & (stat.S_IRWXG | stat.S_IRWXO):
        raise ConfigError(f"{FORGE_APP_KEY}: others may read the file", hint=f"chmod 600 {path.name}")
    return content


def installation_token(address: ForgeAddress, access: ForgeAccess, now: int) -> tuple[str, str]:
    """Return a token of an hour of the App's installation in the repository, and the App's account."""
    client = ForgeClient(HttpClient(_endpoint(address, access, app_token(access.app, access.app_key, now))))
    right = "the App's own key"
    slug = client.get("/app", right, lambda found: str(found["slug"]))
    number = client.get(f"/repos/{address.repository}/installation", right, lambda found: int(found["id"]))
    path = f"/app/installations/{number}/access_tokens"
    token = client.send("POST", path, right, {}, lambda found: str(found["token"]))
    return token, f"{slug}[bot]"


def app_token(app: str, key: bytes, now: int) -> str:
    """Return the JSON Web Token by which an App proves who it is, signed with RS256."""
    try:
        from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415 - an extra
        from cryptography.hazmat.primitives.asymmetric import padding, rsa  # noqa: PLC0415 - an extra
    except ImportError as error:
        hint = "pip install 'gpu-reconciler[github-app]'"
        raise ConfigError("the token of a GitHub App needs the package cryptography", hint=hint) from error
    try:
        signer = serialization.load_pem_private_key(key, None)
    except (ValueError, TypeError) as error:
        raise ConfigError(
            "the key of the GitHub App is not a private key", hint="use the PEM file of GitHub"
        ) from error
    if not isinstance(signer, rsa.RSAPrivateKey):
        raise ConfigError("the key of the GitHub App is not an RSA key", hint="use the PEM file of GitHub")
    claims = {"iat": now - 60, "exp": now + _JWT_SECONDS, "iss": app}
    head = b".".join(_base64(msgspec.json.encode(part)) for part in ({"alg": "RS256", "typ": "JWT"}, claims))
    return (head + b"." + _base64(signer.sign(head, padding.PKCS1v15(), hashes.SHA256()))).decode()


def _base64(content: bytes) -> bytes:
    return base64.urlsafe_b64encode(content).rstrip(b"=")


def _pipeline_kind(environ: Mapping[str, str]) -> str:
    """Return the kind of forge whose pipeline this is; Gitea's says that it is GitHub's, too."""
    names = {"gitea": ("GITEA_ACTIONS", "FORGEJO_ACTIONS"), "github": ("GITHUB_ACTIONS",), "gitlab": ("GITLAB_CI",)}
    return next((kind for kind, flags in names.items() if any(environ.get(flag) == "true" for flag in flags)), "")


def _pipeline(environ: Mapping[str, str]) -> tuple[str, str]:
    """Return the URL and the repository that a pipeline says; empty outside of one."""
    match _pipeline_kind(environ):
        case "github" | "gitea":
            return environ.get("GITHUB_SERVER_URL", ""), environ.get("GITHUB_REPOSITORY", "")
        case "gitlab":
            return environ.get("CI_SERVER_URL", ""), environ.get("CI_PROJECT_PATH", "")
    return "", ""


def _remote(remotes: Sequence[str]) -> tuple[str, str]:
    """Return the host and the path of the first remote that is on a server."""
    for url in remotes:
        parts = urlsplit(url)
        if parts.scheme in {"https", "http", "ssh", "git"} and parts.hostname:
            port = f":{parts.port}" if parts.scheme in {"https", "http"} and parts.port else ""
            return f"{parts.hostname}{port}", _path(parts.path)
        if (short := _SSH.fullmatch(url)) and "://" not in url and not os.path.exists(url):  # noqa: PTH110
            return short["host"].lower(), _path(short["path"])
    return "", ""


def _path(path: str) -> str:
    return path.strip("/").removesuffix(".git")


def pipeline_request(environ: Mapping[str, str]) -> int:
    """Return the number of the change request that a pipeline is about; 0 if it is about none."""
    if number := environ.get("CI_MERGE_REQUEST_IID", ""):
        return int(number) if number.isdecimal() else 0
    found = re.fullmatch(r"refs/pull/([0-9]+)/(?:merge|head)", environ.get("GITHUB_REF", ""))
    return int(found[1]) if found else 0


def pipeline_branch(environ: Mapping[str, str]) -> str:
    """Return the branch whose push a pipeline is about; empty if it is about none."""
    pushed = environ.get("GITHUB_REF", "")
    return (
        pushed.removeprefix("refs/heads/") if pushed.startswith("refs/heads/") else environ.get("CI_COMMIT_BRANCH", "")
    )


def pipeline_link(environ: Mapping[str, str]) -> str:
    """Return the page of the run of a pipeline; empty outside of one."""
    server, repository = environ.get("GITHUB_SERVER_URL", ""), environ.get("GITHUB_REPOSITORY", "")
    number = environ.get("GITHUB_RUN_NUMBER" if _pipeline_kind(environ) == "gitea" else "GITHUB_RUN_ID", "")
    if server and repository and number:
        return f"{server}/{repository}/actions/runs/{number}"
    return environ.get("CI_JOB_URL", "")
