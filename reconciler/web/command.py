"""`reconciler web`: the pages of a config repository, until Ctrl-C."""

import webbrowser
from typing import Any

import click

from reconciler.console import options
from reconciler.console.access import access_flags, open_cluster
from reconciler.console.printing import emit
from reconciler.plan import opening
from reconciler.web.guard import PageLogin, choose_guard
from reconciler.web.listener import HttpListener
from reconciler.web.site import Website
from reconciler.web.snapshot import Snapshot, read_shown, take

ADDRESS = "127.0.0.1:8484"


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
    type=click.Path(dir_okay=False),
    default="",
    help="File with the token that readers send: as Authorization: Bearer, or as the password of a browser.",
)
@click.option(
    "--proxy-secret-file",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    default="",
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
    return run(repo, address, {"token_file": "", "proxy_secret_file": "", "token_review": False}, is_opened=False)


def run(repo: str, address: str, flags: dict[str, Any], *, is_opened: bool) -> int:
    """Serve the pages until Ctrl-C."""
    environ = options.environment()
    login = PageLogin(**{name: flags.pop(name) for name in PageLogin.__struct_fields__})
    chosen = choose_guard(
        address,
        login,
        lambda: open_cluster(access_flags(flags), environ),
        namespace=environ.get("POD_NAMESPACE", "default"),
    )

    def snapshot() -> Snapshot:
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
