"""Draw the pictures of the README and the documentation: `make pictures`. Needs Chromium.

They show what the product prints for one small edit of a new repository with evidence of use: the comment on a pull
request, as a Markdown engine renders it, the HTML report, and the pages.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from markdown_it import MarkdownIt
from playwright.sync_api import Browser, sync_playwright

from reconciler.plan import opening
from reconciler.repo.evidence.usage import RUNNING, WAITING, Usage, UsedPodSet, UsedWorkload, WaitReason, write_usage
from reconciler.web.guard import local_guard
from reconciler.web.listener import HttpListener
from reconciler.web.site import Website
from reconciler.web.snapshot import Snapshot, read_shown, take

PICTURES = Path(__file__).parents[1] / "docs/pictures"
GPU = "nvidia.com/gpu"
IDENTITY = {"GIT_AUTHOR_NAME": "Ada", "GIT_AUTHOR_EMAIL": "ada@example.com"}
IDENTITY |= {"GIT_COMMITTER_NAME": "Ada", "GIT_COMMITTER_EMAIL": "ada@example.com"}
COMMENT = """<!doctype html><meta charset="utf-8"><title>comment</title><style>
body{font:14px/1.5 system-ui,sans-serif;margin:16px;background:#f6f8fa;color:#1f2328}
main{background:#fff;border:1px solid #d1d9e0;border-radius:6px;padding:16px}
header{font-weight:600;border-bottom:1px solid #d1d9e0;margin:-16px -16px 12px;padding:8px 16px;background:#f6f8fa}
h3{font-size:1.25em}h4{margin:1.2em 0 .4em}table{border-collapse:collapse;display:block;overflow-x:auto}
td,th{border:1px solid #d1d9e0;padding:6px 13px}tr:nth-child(2n){background:#f6f8fa}
code{background:#818b981f;border-radius:6px;padding:.2em .4em;font:85% ui-monospace,monospace}
pre{background:#f6f8fa;padding:12px;border-radius:6px;overflow:auto}pre code{background:none;padding:0}
blockquote{border-left:.25em solid #d1242f;margin:0;padding:0 1em}
</style><main><header>gpu-reconciler commented</header>"""


def run(folder: Path, *words: str) -> str:
    """Run the program in a folder."""
    program = Path(sys.executable).with_name("reconciler")
    found = subprocess.run((program, *words), cwd=folder, capture_output=True, text=True, check=False)
    return found.stdout


@contextmanager
def fleet() -> Iterator[Path]:
    """Make a repository in which two jobs ask for more, and two others wait."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "fleet"
        os.environ.update(IDENTITY)
        run(Path(folder), "init", "fleet")
        (root / "evidence/main/usage.yaml").write_bytes(write_usage(_usage()))
        settings = root / "reconciler.yaml"
        text = settings.read_text(encoding="utf-8")
        if "prices:" not in text:
            settings.write_text(f"{text}{_PRICES}", encoding="utf-8")
        for words in (("add", "--all"), ("commit", "--quiet", "--message", "Evidence of use, prices")):
            subprocess.run(("git", *words), cwd=root, check=True)
        run(root, "commit")
        _edit(root / "jobs/vision/vit.yaml", "numGPUs: 16", "numGPUs: 32")
        _edit(root / "jobs/language/llama-lora.yaml", "--max_seq_length 4096", "--max_seq_length 8192")
        yield root


_PRICES = """\
  prices:
    currency: USD
    source: contract of 2026
    date: "2026-10-01"
    gpuHours: {NVIDIA-H100-80GB-HBM3: 2.49}
    storageMonths: {standard: 0.08}
"""


def _edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text, f"{old} is not in {path}"  # noqa: S101 - a picture of nothing is of no use
    path.write_text(text.replace(old, new), encoding="utf-8")


def _usage() -> Usage:
    """Return what runs: `vit` on two nodes, an evaluation on half of a third; two wait."""
    run_on = (("vit", 8, (("h100-01", 1), ("h100-02", 1))), ("eval", 4, (("h100-03", 1),)))
    workloads = [_workload(name, RUNNING, gpus=gpus, nodes=nodes, conditions=()) for name, gpus, nodes in run_on]
    why = (WaitReason(reason="OverLimit", message="the queue has no more GPUs"),)
    workloads += [_workload(name, WAITING, gpus=8, nodes=(), conditions=why) for name in ("llama-lora", "whisper")]
    return Usage(cluster="main", observed_at="2026-11-01T06:00:00Z", workloads=tuple(workloads))


def _workload(
    name: str, state: str, *, gpus: int, nodes: tuple[tuple[str, int], ...], conditions: tuple[WaitReason, ...]
) -> UsedWorkload:
    return UsedWorkload(
        api_version="kubeflow.org/v1",
        kind="PyTorchJob",
        namespace="default",
        name=name,
        queue="h100",
        state=state,
        created_at="2026-11-01T05:00:00Z",
        admitted_at="2026-11-01T05:00:02Z" if state == RUNNING else "",
        started_at="2026-11-01T05:00:30Z" if state == RUNNING else "",
        conditions=conditions,
        pod_sets=(UsedPodSet(name="worker", count=max(1, len(nodes)), requests={GPU: str(gpus)}, nodes=nodes),),
    )


def main() -> None:
    """Draw all pictures."""
    PICTURES.mkdir(exist_ok=True)
    with fleet() as root, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=os.environ.get("CHROMIUM", "/usr/bin/chromium"))
        comment = MarkdownIt("gfm-like", {"linkify": False, "html": True}).render(run(root, "plan", "-o", "markdown"))
        _draw_text(browser, "comment", COMMENT + comment + "</main>", height=900)
        _draw_text(browser, "report", run(root, "plan", "-o", "html"), height=1000)
        with serving(root) as address:
            for name, path in (("page-overview", "/"), ("page-nodes", "/nodes"), ("page-queues", "/queues")):
                _draw(browser, name, f"{address}{path}", height=800)
        browser.close()


def _draw_text(browser: Browser, name: str, text: str, *, height: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "page.html"
        file.write_text(text, encoding="utf-8")
        _draw(browser, name, f"file://{file}", height=height)


def _draw(browser: Browser, name: str, address: str, *, height: int) -> None:
    page = browser.new_page(viewport={"width": 1100, "height": height})
    page.goto(address)
    target = PICTURES / f"{name}.png"
    page.screenshot(path=target)
    page.close()
    print(f"{target.name}: {target.stat().st_size:,} bytes")


@contextmanager
def serving(root: Path) -> Iterator[str]:
    """Serve the pages of the repository."""
    repository = opening.open_run(str(root), {}, dict(os.environ)).workspace.repository

    def snapshot() -> Snapshot:
        return take(opening.open_run(str(root), {}, dict(os.environ)), name="fleet")

    listener = HttpListener(
        "127.0.0.1:0", Website(snapshot, local_guard, lambda path: read_shown(repository, path)).answer
    )
    listener.start()
    yield f"http://127.0.0.1:{listener.port}"
    listener.stop()


if __name__ == "__main__":
    main()
