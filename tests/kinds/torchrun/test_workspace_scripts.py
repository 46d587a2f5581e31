"""F-058: every sync script, run for real against local servers: it ends complete and marked, or failed and unmarked."""

import http.server
import io
import os
import shutil
import socket
import subprocess
import tarfile
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path

import pytest

from reconciler.kinds.torchrun.intent.sections import SourceKind, WorkspaceSource
from reconciler.kinds.torchrun.render.code import default_image, wait_script
from reconciler.kinds.torchrun.render.code import sync_script as script_of_version
from tests.cluster.fixtures import Parts
from tests.cluster.parts import GOFAKES3, S5CMD

SHELLS = [shell for shell in ("sh", "dash", "bash", "busybox") if shutil.which(shell)]
FILES = {
    "train.py": "print('hello')\n",
    ".env": "A=1\n",
    "..odd": "x\n",
    "pkg/deep/module.py": "y = 1\n",
    "a b.txt": "z",
}


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """Give out a folder by a real HTTP server; yield both."""
    folder = tmp_path / "served"
    folder.mkdir()

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args: object, **kwargs: object) -> None:
            super().__init__(*args, directory=str(folder), **kwargs)  # type: ignore[arg-type]

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Keep the test's output quiet."""

        def do_GET(self) -> None:
            if self.path.startswith("/torn"):  # promises more than it sends
                self.send_response(200)
                self.send_header("Content-Length", "100000")
                self.end_headers()
                self.wfile.write(b"PK\x03\x04 only the beginning")
                return
            super().do_GET()

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield folder, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def run(script: str, workspace: Path, shell: str = "sh", **env: str) -> subprocess.CompletedProcess[str]:
    """Run a script as the container would, with the workspace at another place and one try for each download."""
    script = script.replace("/workspace", str(workspace)).replace("wget -q", "wget -q --tries=1 --timeout=5")
    argv = ["busybox", "sh"] if shell == "busybox" else [shell]
    environ = {"PATH": os.environ["PATH"], "HOME": str(workspace.parent), **env}
    return subprocess.run([*argv, "-c", script], capture_output=True, text=True, env=environ, check=False, timeout=60)


def sync_script(source: WorkspaceSource, version: str = "one") -> str:
    return script_of_version(source, version)


def tree(folder: Path) -> dict[str, str]:
    """Return the files as a program in the folder sees them, through links."""
    found = {}
    for parent, folders, names in os.walk(folder, followlinks=True):
        folders[:] = [name for name in folders if name not in (".git", ".sync")]
        for name in names:
            path = Path(parent, name)
            found[str(path.relative_to(folder))] = path.read_text()
    return found


def marked(workspace: Path) -> bool:
    return (workspace / ".sync-success").exists()


def assert_complete(workspace: Path) -> None:
    assert marked(workspace)
    assert tree(workspace) == {**FILES, ".sync-success": ""}


def assert_failed(result: subprocess.CompletedProcess[str], workspace: Path) -> None:
    assert result.returncode != 0
    assert not marked(workspace)


def zip_bytes() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in FILES.items():
            archive.writestr(name, text)
    return buffer.getvalue()


def tar_bytes(mode: str) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:  # type: ignore[call-overload]
        for name, text in FILES.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    return buffer.getvalue()


def zip_source(url: str, digest: str = "") -> WorkspaceSource:
    return WorkspaceSource(kind=SourceKind.ZIP, url=url, sha256=digest)


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("w.zip", zip_bytes),
        ("w.tar.gz", lambda: tar_bytes("w:gz")),
        ("w.tgz", lambda: tar_bytes("w:gz")),
        ("w.tar", lambda: tar_bytes("w")),
    ],
)
def test_archive_by_url(
    workspace: Path, serve: tuple[Path, str], shell: str, name: str, make: Callable[[], bytes]
) -> None:
    """F-058: zip and tar archives arrive whole, dot files included."""
    folder, address = serve
    content = make()
    (folder / name).write_bytes(content)
    result = run(sync_script(zip_source(f"{address}/{name}?token=1", sha256(content).hexdigest())), workspace, shell)
    assert result.returncode == 0, result.stderr
    assert_complete(workspace)


@pytest.mark.parametrize("path", ["missing.zip", "torn.zip", "broken.zip"])
def test_failed_download_leaves_no_marker(workspace: Path, serve: tuple[Path, str], path: str) -> None:
    """F-058: nothing is marked as done after a 404, a torn transfer or a broken archive, and old code stays."""
    folder, address = serve
    (folder / "broken.zip").write_bytes(b"this is no archive")
    (workspace / "train.py").write_text("as before")
    result = run(sync_script(zip_source(f"{address}/{path}")), workspace)
    assert_failed(result, workspace)
    assert (workspace / "train.py").read_text() == "as before"
    assert sorted(item.name for item in workspace.iterdir()) == [".sync", "train.py"]
    assert [item.name for item in (workspace / ".sync").iterdir()] == ["lock"]


def test_wrong_digest_is_refused(workspace: Path, serve: tuple[Path, str]) -> None:
    folder, address = serve
    (folder / "w.zip").write_bytes(zip_bytes())
    assert_failed(run(sync_script(zip_source(f"{address}/w.zip", "0" * 64)), workspace), workspace)


def test_unreachable_server(workspace: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/w.zip"
        assert_failed(run(sync_script(zip_source(url)), workspace), workspace)


def test_second_sync_failing_keeps_the_first(workspace: Path, serve: tuple[Path, str]) -> None:
    """F-060: a reload that fails leaves the code that trains untouched, and its marker."""
    folder, address = serve
    (folder / "w.zip").write_bytes(zip_bytes())
    assert run(sync_script(zip_source(f"{address}/w.zip")), workspace).returncode == 0
    assert run(sync_script(zip_source(f"{address}/missing.zip"), "two"), workspace).returncode != 0
    assert_complete(workspace)


def zip_of(**files: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in files.items():
            archive.writestr(name.replace("__", "/").replace("_py", ".py"), text)
    return buffer.getvalue()


@pytest.fixture
def sync(workspace: Path, serve: tuple[Path, str]) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Return a function that syncs a version with these files."""
    folder, address = serve

    def run_version(version: str, shell: str = "sh", **files: str) -> subprocess.CompletedProcess[str]:
        (folder / f"{version}.zip").write_bytes(zip_of(**files))
        return run(sync_script(zip_source(f"{address}/{version}.zip"), version), workspace, shell)

    return run_version


@pytest.mark.parametrize("shell", SHELLS)
def test_a_new_version_replaces_the_code_and_keeps_what_jobs_wrote(
    workspace: Path, sync: Callable[..., subprocess.CompletedProcess[str]], shell: str
) -> None:
    """F-058, F-060: checkpoints, logs and edited files survive every sync, wherever they are."""
    assert sync("one", shell, train_py="1", gone_py="1", out__keep="").returncode == 0
    (workspace / "checkpoint.pt").write_text("results")
    (workspace / "out" / "epoch 1.pt").write_text("results")
    (workspace / "out" / "deep").mkdir()
    (workspace / "out" / "deep" / "a\tb").write_text("results")
    (workspace / "gone.py").write_text("edited in the pod")
    done = sync("two", shell, train_py="2", new_py="2", out__keep="")
    assert done.returncode == 0, done.stderr
    assert tree(workspace) == {
        "train.py": "2",
        "new.py": "2",
        "out/keep": "",
        "out/epoch 1.pt": "results",
        "out/deep/a\tb": "results",
        "checkpoint.pt": "results",
        ".sync-success": "",
    }
    assert not (workspace / "gone.py").is_symlink(), "a link to code that is gone is removed"
    for version in ("three", "four"):
        assert sync(version, shell, train_py=version).returncode == 0
    assert (workspace / "out" / "epoch 1.pt").read_text() == "results", "also in a folder that the code no longer has"


def test_old_versions_are_removed_without_what_was_edited(
    workspace: Path, sync: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    """Two versions stay; of an older one only files that differ from what the sync wrote."""
    assert sync("one", train_py="1", deep__settings="as it was").returncode == 0
    (workspace / "deep" / "settings").write_text("tuned for hours")
    assert sync("two", train_py="2").returncode == 0
    assert (workspace / ".sync" / "one" / "train.py").read_text() == "1", "processes that run may still read it"
    assert sync("three", train_py="3").returncode == 0
    one = workspace / ".sync" / "one"
    assert [str(path.relative_to(one)) for path in one.rglob("*") if path.is_file()] == ["deep/settings"]
    assert sync("four", train_py="4").returncode == 0
    assert not (workspace / ".sync" / "two").exists()
    assert tree(workspace) == {"train.py": "4", ".sync-success": ""}


def test_something_else_of_the_name_is_not_touched(
    workspace: Path, sync: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    """Code never runs mixed with other files, and never replaces them: the sync fails, and says what is in the way."""
    assert sync("one", train_py="1").returncode == 0
    (workspace / "results").mkdir()
    (workspace / "results" / "a").write_text("mine")
    failed = sync("two", train_py="2", results__b="code")
    assert failed.returncode != 0
    assert "results is part of the code" in failed.stderr
    assert tree(workspace) == {"train.py": "1", "results/a": "mine", ".sync-success": ""}


def test_a_version_is_fetched_once(
    workspace: Path, serve: tuple[Path, str], sync: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    """A pod that starts again runs the code of its job, although the server has other code by now, or none."""
    assert sync("one", train_py="1").returncode == 0
    (serve[0] / "one.zip").unlink()
    assert run(sync_script(zip_source(f"{serve[1]}/one.zip"), "one"), workspace).returncode == 0
    assert tree(workspace) == {"train.py": "1", ".sync-success": ""}


@pytest.mark.parametrize("has_locks", [True, False])
def test_pods_that_sync_at_once(workspace: Path, serve: tuple[Path, str], tmp_path: Path, *, has_locks: bool) -> None:
    """Eight pods of a job fetch at once, with and without locks on the volume: all end well, with whole code."""
    folder, address = serve
    (folder / "w.zip").write_bytes(zip_bytes())
    path = os.environ["PATH"]
    if not has_locks:
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin" / "flock").write_text("#!/bin/sh\nexit 71\n")
        (tmp_path / "bin" / "flock").chmod(0o755)
        path = f"{tmp_path / 'bin'}:{path}"
    script = sync_script(zip_source(f"{address}/w.zip"))
    with ThreadPoolExecutor(8) as pods:
        done = list(pods.map(lambda _: run(script, workspace, PATH=path), range(8)))
    assert [each.stderr for each in done if each.returncode] == []
    assert_complete(workspace)


def test_two_versions_at_once_never_mix(workspace: Path, serve: tuple[Path, str]) -> None:
    """F-060: an old and a new sync Job that overlap leave the code of one of them."""
    folder, address = serve
    for name in ("a", "b"):
        (folder / f"{name}.zip").write_bytes(zip_of(**{f"file{number}": name for number in range(20)}))
    scripts = [sync_script(zip_source(f"{address}/{name}.zip"), name) for name in ("a", "b") * 4]
    with ThreadPoolExecutor(8) as pods:
        assert all(done.returncode == 0 for done in pods.map(lambda script: run(script, workspace), scripts))
    found = tree(workspace)
    assert len(found) == 21
    assert len({text for name, text in found.items() if name != ".sync-success"}) == 1


def test_what_a_killed_sync_left_is_removed(
    workspace: Path, sync: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    (workspace / ".sync" / "new.123456").mkdir(parents=True)
    (workspace / ".sync" / "new.123456.archive").write_text("half")
    assert sync("one", train_py="1").returncode == 0
    assert sorted(path.name for path in (workspace / ".sync").iterdir()) == [
        *("current", "lock", "one", "one.files", "one.sums"),
    ]


@pytest.fixture
def upstream(tmp_path: Path) -> Path:
    folder = tmp_path / "up stream"
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    for arguments in (
        ["init", "-q", "-b", "main"],
        ["add", "-A"],
        ["commit", "-q", "-m", "one"],
        ["tag", "v1"],
        ["branch", "feature/x"],
    ):
        git(folder, *arguments)
    (folder / "later.py").write_text("later")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "two")
    return folder


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.com"]
    return subprocess.run(
        ["git", "-C", str(folder), *identity, *arguments], check=True, capture_output=True, text=True
    ).stdout


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("ref", ["v1", "feature/x", "main~1", "<commit>"])
def test_git_at_a_ref(workspace: Path, upstream: Path, ref: str, shell: str) -> None:
    """F-058: a tag, a branch, an expression and a full commit id, each by its own way through the script."""
    if ref == "<commit>":
        ref = git(upstream, "rev-parse", "v1").strip()
    url = f"file://{upstream}"
    result = run(sync_script(WorkspaceSource(kind=SourceKind.GIT, url=url, ref=ref)), workspace, shell)
    if ref == "main~1":  # no name on the server, and no commit by itself
        assert_failed(result, workspace)
        return
    assert result.returncode == 0, result.stderr
    assert_complete(workspace)
    assert (workspace / ".git").is_dir()


def test_git_without_a_ref_takes_the_head(workspace: Path, upstream: Path) -> None:
    assert run(sync_script(WorkspaceSource(kind=SourceKind.GIT, url=f"file://{upstream}")), workspace).returncode == 0
    assert (workspace / "later.py").exists()
    assert marked(workspace)


def test_git_server_that_refuses_single_commits(workspace: Path, upstream: Path) -> None:
    """Older protocol versions refuse a commit by id; the script then fetches all branches and tags."""
    commit = git(upstream, "rev-parse", "v1").strip()
    script = sync_script(WorkspaceSource(kind=SourceKind.GIT, url=f"file://{upstream}", ref=commit))
    config = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "protocol.version", "GIT_CONFIG_VALUE_0": "0"}
    result = run(script, workspace, **config)
    assert result.returncode == 0, result.stderr
    assert_complete(workspace)


@pytest.mark.parametrize("ref", ["nowhere", "--upload-pack=touch canary", "$(touch canary)", "'; touch canary; '"])
def test_git_hostile_or_missing_ref(workspace: Path, upstream: Path, ref: str) -> None:
    """A ref can fail, but never run anything."""
    result = run(sync_script(WorkspaceSource(kind=SourceKind.GIT, url=f"file://{upstream}", ref=ref)), workspace)
    assert_failed(result, workspace)
    assert not list(workspace.rglob("canary"))


@pytest.mark.parametrize(
    "url",
    [
        "ext::sh -c touch% canary",
        "--output-document=canary",
        "http://127.0.0.1:1/$(touch canary)",
        "'`touch canary`'",
        "/nowhere\n touch canary",
    ],
)
@pytest.mark.parametrize("kind", [SourceKind.GIT, SourceKind.ZIP])
def test_hostile_url(workspace: Path, kind: SourceKind, url: str) -> None:
    """A URL can fail, but never run anything nor pass as an option."""
    result = run(sync_script(WorkspaceSource(kind=kind, url=url)), workspace)
    assert_failed(result, workspace)
    assert not list(workspace.rglob("canary"))


def test_full_disk_leaves_no_marker(workspace: Path, serve: tuple[Path, str]) -> None:
    """A write that fails (here: a file size limit of 1 KiB) ends the script before the marker."""
    folder, address = serve
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("big.bin", os.urandom(4096))
    (folder / "w.zip").write_bytes(buffer.getvalue())
    script = "ulimit -f 1; trap '' XFSZ; " + sync_script(zip_source(f"{address}/w.zip"))
    assert_failed(run(script, workspace), workspace)


def test_wait_ends_when_the_marker_appears(workspace: Path) -> None:
    (workspace / ".sync-success").touch()
    assert run(wait_script(), workspace).returncode == 0


def test_wait_gives_up(workspace: Path) -> None:
    result = run(wait_script().replace("left=600", "left=0"), workspace)
    assert result.returncode == 1
    assert "not complete" in result.stderr


@pytest.fixture(scope="session")
def s3_tools(parts: Parts, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the real s5cmd and a real S3 server."""
    folder = tmp_path_factory.mktemp("s3-tools")
    for what in (S5CMD, GOFAKES3):
        (folder / what.name).symlink_to(parts.program(what))
    return folder


@pytest.fixture
def s3(s3_tools: Path, tmp_path: Path) -> Iterator[dict[str, str]]:
    """Yield the environment that points s5cmd at a running server with an empty bucket `code`."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = (tmp_path / "s3.log").open("w")
    argv = [str(s3_tools / "gofakes3"), "-backend", "memory", "-host", f"127.0.0.1:{port}", "-initialbucket", "code"]
    server = subprocess.Popen(argv, stdout=log, stderr=log)
    try:
        for _ in range(100):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        keys = {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s", "AWS_REGION": "us-east-1"}
        yield {**keys, "S3_ENDPOINT_URL": f"http://127.0.0.1:{port}"}
    finally:
        server.terminate()
        server.wait(timeout=10)
        log.close()


def put(s3_tools: Path, s3: dict[str, str], local: Path, key: str) -> None:
    subprocess.run([s3_tools / "s5cmd", "cp", str(local), f"s3://code/{key}"], env=s3, check=True, capture_output=True)


@pytest.mark.parametrize("key", ["w.tar.gz", "w.zip", "folder/"])
def test_s3(workspace: Path, tmp_path: Path, s3_tools: Path, s3: dict[str, str], key: str) -> None:
    """F-058: an archive or a whole prefix from a real S3 server by the real s5cmd."""
    if key.endswith("/"):
        for name, text in FILES.items():
            (tmp_path / "one").write_text(text)
            put(s3_tools, s3, tmp_path / "one", key + name)
    else:
        (tmp_path / "archive").write_bytes(zip_bytes() if key.endswith("zip") else tar_bytes("w:gz"))
        put(s3_tools, s3, tmp_path / "archive", key)
    source = WorkspaceSource(kind=SourceKind.S3, url=f"s3://code/{key}")
    result = run(sync_script(source).replace("/s5cmd", str(s3_tools / "s5cmd")), workspace, **s3)
    assert result.returncode == 0, result.stderr
    assert_complete(workspace)


@pytest.mark.parametrize("url", ["s3://code/missing.tar.gz", "s3://nowhere/w.tar.gz", "s3://code/missing/"])
def test_s3_missing(workspace: Path, s3_tools: Path, s3: dict[str, str], url: str) -> None:
    """F-058: a missing object, bucket or prefix fails and leaves no marker."""
    source = WorkspaceSource(kind=SourceKind.S3, url=url)
    result = run(sync_script(source).replace("/s5cmd", str(s3_tools / "s5cmd")), workspace, **s3)
    assert_failed(result, workspace)


def test_an_existing_workspace_is_not_fetched() -> None:
    with pytest.raises(ValueError, match="not fetched"):
        sync_script(WorkspaceSource(kind=SourceKind.EXISTING))


def test_images_are_pinned() -> None:
    """The default images carry a version, so that the same manifest means the same tools."""
    for kind in (SourceKind.ZIP, SourceKind.GIT, SourceKind.S3):
        image = default_image(WorkspaceSource(kind=kind, url="x"))
        assert not image.endswith(":latest")
        assert ":" in image
