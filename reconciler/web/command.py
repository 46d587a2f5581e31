"""`reconciler web`: the pages of a config repository, until Ctrl-C."""

import contextlib
import webbrowser
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from reconciler.console import options
from reconciler.console.printing import emit
from reconciler.errors import ConfigError, ReconcilerError
from reconciler.kube.secrets import mask_text
from reconciler.plan import opening
from reconciler.plan.live.clusters import access_flags, open_cluster
from reconciler.repo.port import Repository
from reconciler.web import guard as guards
from reconciler.web.guard import Guard
from reconciler.web.listener import HttpListener
from reconciler.web.site import Website
from reconciler.web.snapshot import take

ADDRESS = "127.0.0.1:8484"
_MAX_SHOWN = 3 << 20


@click.command(
    "web",
    epilog="""\b
Examples:
  reconciler web                                  pages of this repository on http://127.0.0.1:8484
  reconciler web --base main --open               the plan against main, in the browser
  reconciler web --address :8484 --token-file /run/secrets/token
  reconciler web --address :8484 --proxy-secret-file /run/secrets/proxy
""",
)
@options.repo
@options.base
@options.cluster
@click.option("--address", metavar="HOST:PORT", default=ADDRESS, show_default=True, help="Address to listen on.")
@click.option("--open", "is_opened", is_flag=True, help="Open the first page in the browser.")
@click.option(
    "--token-file",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File with the token that readers send: as Authorization: Bearer, or as the password of a browser.",
)
@click.option(
    "--proxy-secret-file",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File with the secret by which a proxy that logs readers in proves itself (X-Proxy-Secret, X-Forwarded-User).",
)
@click.option("--token-review", is_flag=True, help="Ask Kubernetes whose token it is, and what that user may read.")
@options.access
@options.date
@options.run_options
def command(*, repo: str, address: str, is_opened: bool, **flags: Any) -> int:
    """Show plan, queues, jobs, nodes and history as pages in a browser. Nothing can be changed there.

    On this machine nobody logs in. Any other address needs --token-file, --proxy-secret-file or --token-review.
    """
    return run(repo, address, flags, is_opened=is_opened)


def serve_pages(address: str, repo: str) -> int:
    """Serve the pages of a repository as `reconciler web` does without other flags."""
    return run(repo, address, {"token_file": None, "proxy_secret_file": None, "token_review": False}, is_opened=False)


def run(repo: str, address: str, flags: dict[str, Any], *, is_opened: bool) -> int:
    """Serve the pages until Ctrl-C."""
    environ = options.environment()
    chosen = _guard(address, flags, environ)

    def snapshot() -> Any:
        found = opening.open_run(repo, options.setting_flags(flags), environ)
        return take(found, name=found.workspace.repository.root.name)

    first = opening.open_run(repo, options.setting_flags(flags), environ)
    site = Website(snapshot, chosen, lambda path: read_shown(first.workspace.repository, path))
    listener = HttpListener(address, site.answer)
    listener.start()
    host = address.rpartition(":")[0] or "0.0.0.0"  # noqa: S104 - what the user asked for
    emit(f"http://{host}:{listener.port}/   (Ctrl-C ends)", err=True)
    if is_opened:
        webbrowser.open(f"http://{host}:{listener.port}/")
    try:
        with opening.watching(repo, environ) as wait:
            while True:
                wait()
                site.renew()
    except KeyboardInterrupt:
        return 0
    finally:
        listener.stop()


def _guard(address: str, flags: dict[str, Any], environ: Mapping[str, str]) -> Guard:
    """Return the guard that the flags ask for. Raises `ConfigError` where everybody could read."""
    token, proxy, review = (flags.pop(name) for name in ("token_file", "proxy_secret_file", "token_review"))
    if sum(map(bool, (token, proxy, review))) > 1:
        raise click.UsageError("choose one of --token-file, --proxy-secret-file and --token-review")
    if token:
        return guards.token_guard(token)
    if proxy:
        return guards.proxy_guard(proxy)
    if review:
        return guards.cluster_guard(open_cluster(access_flags(flags), environ), environ.get("POD_NAMESPACE", "default"))
    if not guards.is_loopback(address):
        raise ConfigError(
            f"--address {address}: everybody who reaches this address could read the pages",
            hint="add --token-file, --proxy-secret-file or --token-review, or listen on 127.0.0.1",
        )
    return guards.local_guard


def read_shown(repository: Repository, path: str) -> str | None:
    """Return a file of the working tree for people: only YAML, and none with a Secret in it."""
    if not path.endswith((".yaml", ".yml")):
        return None
    with contextlib.suppress(ReconcilerError):
        entry = repository.work_file(path)
        if entry is not None and entry.is_file:
            raw = next(iter(repository.read([entry.oid])))
            if len(raw) <= _MAX_SHOWN and b"Secret" not in raw:
                return mask_text(raw.decode("utf-8", "replace"))
    return None
