"""Each source against a server on loopback: what is fetched, verified, not fetched again, and refused.

The server of S3 is moto; those of Google, Azure and Hugging Face are our own and speak the calls that a download makes.
"""

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.cluster.server import free_port, listens, wait_until
from tests.download import servers
from tests.download.conftest import Volume
from tests.download.servers import PASSWORD, SHA, Served

TRAIN = {"data/train/a.csv": b"a,b\n1,2\n", "data/train/deep/b.csv": b"b" * 3000, "data/train/readme.md": b"# data\n"}
BUCKET = {
    "name": "corpus",
    "files": [{"path": "data/train/readme.md", "targetPath": "docs/about.md"}],
    "folders": [{"path": "data/train", "targetPath": "train", "glob": "**/*.csv"}],
}
EXPECTED = {
    "docs/about.md": TRAIN["data/train/readme.md"],
    "train/a.csv": TRAIN["data/train/a.csv"],
    "train/deep/b.csv": TRAIN["data/train/deep/b.csv"],
}


def test_s3_is_fetched_once(volume: Volume, s3_url: str) -> None:
    """F-073, KA-23: a bucket with keys; the second run fetches nothing, and a changed object alone is fetched again."""
    client = _s3(s3_url, "corpus", TRAIN)
    keys = {
        "accessKeyId": volume.secret("AKIDTEST", key="id"),
        "secretKey": volume.secret("s3-secret-value\n", key="key"),
    }
    volume.configure(s3=[{"endpointUrl": s3_url, **keys, "buckets": [BUCKET]}])
    first = volume.run()
    assert (first.code, first.err) == (0, "")
    assert volume.files() == EXPECTED
    assert volume.markers() == ["first"]
    assert [(one["source"], one["fetched"]) for one in first.result["items"]] == [
        ("s3://corpus/data/train/readme.md", 1),
        ("s3://corpus/data/train/", 2),
    ]
    assert _fetched(volume) == [0, 0]
    client.put_object(Bucket="corpus", Key="data/train/a.csv", Body=b"changed")
    assert _fetched(volume) == [0, 1]
    assert volume.files() == {**EXPECTED, "train/a.csv": b"changed"}
    assert "s3-secret-value" not in first.out + first.err


def test_s3_without_keys_and_in_parts(volume: Volume, s3_url: str) -> None:
    """A public bucket is read unsigned, also where the environment has keys; an upload in parts is verified by parts."""
    volume.environ.update(AWS_ACCESS_KEY_ID="unused", AWS_SECRET_ACCESS_KEY="unused")
    client = _s3(s3_url, "open", {})
    part = b"0123456789abcdef" * (5 << 16)
    upload = client.create_multipart_upload(Bucket="open", Key="model.bin")["UploadId"]
    parts = []
    for number, body in enumerate((part, part, b"tail"), 1):
        tag = client.upload_part(Bucket="open", Key="model.bin", UploadId=upload, PartNumber=number, Body=body)["ETag"]
        parts.append({"PartNumber": number, "ETag": tag})
    client.complete_multipart_upload(Bucket="open", Key="model.bin", UploadId=upload, MultipartUpload={"Parts": parts})
    volume.configure(s3=[{"endpointUrl": s3_url, "buckets": [{"name": "open", "files": [{"path": "model.bin"}]}]}])
    assert volume.run().code == 0
    assert volume.files() == {"model.bin": part * 2 + b"tail"}


def test_what_s3_does_not_have(volume: Volume, s3_url: str) -> None:
    """A missing object is reported at once with exit code 6, the other items are fetched, and there is no marker."""
    _s3(s3_url, "partly", TRAIN)
    files = [{"path": "absent.csv"}, {"path": "data/train/a.csv", "targetPath": "here/"}]
    keys = {"accessKeyId": volume.secret("AKIDTEST", key="id"), "secretKey": volume.secret("s3-secret-value")}
    volume.configure(s3=[{"endpointUrl": s3_url, **keys, "buckets": [{"name": "partly", "files": files}]}])
    ran = volume.run("-o", "text")
    assert ran.code == 6
    assert ran.err.startswith("error: s3://partly/absent.csv: ")
    assert "404" in ran.err
    assert volume.files() == {"here/a.csv": TRAIN["data/train/a.csv"]}
    assert volume.markers() == []


def test_gcs_takes_the_content_of_a_key(volume: Volume, gcs: Served) -> None:
    """D-19: the Secret holds the key itself, not a path; it signs the request for a token, and is never shown."""
    gcs.objects |= {f"corpus/{key}": content for key, content in TRAIN.items()}
    secret = volume.secret(_service_account(gcs.url))
    volume.configure(gcs=[{"applicationCredentials": secret, "buckets": [BUCKET]}])
    ran = volume.run()
    assert (ran.code, ran.err) == (0, "")
    assert volume.files() == EXPECTED
    assert any("assertion=" in headers.get("Body", "") for _, path, headers in gcs.requests if path == "/token")
    assert all(headers["Authorization"] == "Bearer ya29.token" for _, path, headers in gcs.requests if path != "/token")
    gcs.bodies()
    assert _fetched(volume) == [0, 0]
    assert gcs.bodies() == []


def test_gcs_refuses_what_is_no_key(volume: Volume, gcs: Served) -> None:
    """A path in the Secret is named as the mistake; nothing of the Secret is printed."""
    volume.configure(gcs=[{"applicationCredentials": volume.secret("/var/run/private.json"), "buckets": [BUCKET]}])
    ran = volume.run()
    assert ran.code == 6
    assert "the secret holds no key of a service account" in ran.err
    assert "private.json" not in ran.out + ran.err
    assert gcs.requests == []


def test_azure(volume: Volume, azure: Served) -> None:
    """F-073: a container by a connection string, whose key is not shown when the server refuses it."""
    azure.objects |= {f"corpus/{key}": content for key, content in TRAIN.items()} | {"corpus/data/train/empty.csv": b""}
    key = "c2VjcmV0LW9mLWF6dXJl"
    connection = f"DefaultEndpointsProtocol=http;AccountName=account;AccountKey={key};BlobEndpoint={azure.url}/account;"
    volume.configure(azureBlob=[{"connectionString": volume.secret(connection), "containers": [BUCKET]}])
    ran = volume.run()
    assert (ran.code, ran.err) == (0, "")
    assert volume.files() == {**EXPECTED, "train/empty.csv": b""}
    azure.bodies()
    assert _fetched(volume) == [0, 0]
    assert azure.bodies() == []
    volume.secret(connection.replace("AccountName=account", "AccountName=other"))
    ran = volume.run()
    assert ran.code == 6
    assert key not in ran.out + ran.err


def test_hub_writes_the_cache_of_its_library(volume: Volume, hub: Served) -> None:
    """F-073, KA-23: files of a model, linked as the libraries look for them; equal files are fetched once."""
    weights = b"w" * 100_000
    hub.objects |= {
        "org/llm/config.json": b"{}",
        "org/llm/a/model.safetensors": weights,
        "org/llm/b/model.safetensors": weights,
        "org/llm/unused.bin": b"-",
    }
    files = ["config.json", "a/model.safetensors", "b/model.safetensors"]
    volume.configure(hf=[{"repoId": "org/llm", "files": files}])
    ran = volume.run()
    assert (ran.code, ran.err) == (0, "")
    assert len(hub.bodies()) == 2
    cache = volume.folder / "hf/hub/models--org--llm"
    assert (cache / "refs/main").read_text() == SHA
    assert (cache / f"snapshots/{SHA}/a/model.safetensors").read_bytes() == weights
    assert (cache / f"snapshots/{SHA}/b/model.safetensors").resolve().name == hashlib.sha256(weights).hexdigest()
    assert _loaded(volume, "org/llm", "b/model.safetensors") == str(cache / f"snapshots/{SHA}/b/model.safetensors")
    assert _fetched(volume) == [0]
    assert hub.bodies() == []
    volume.configure(hf=[{"repoId": "org/llm", "revision": SHA}])
    assert _fetched(volume) == [1]
    hub.requests.clear()
    assert _fetched(volume) == [0]
    assert hub.requests == [], "a pinned revision that is complete asks nobody"


def test_hub_names_what_is_missing(volume: Volume, hub: Served) -> None:
    """A misspelt file, and a revision that does not exist, are final: exit code 6 without a second try."""
    hub.objects["org/llm/tokenizer.json"] = b"{}"
    volume.configure(hf=[{"repoId": "org/llm", "files": ["tokeniser.json"]}, {"repoId": "org/llm", "revision": "v9"}])
    ran = volume.run("-o", "text")
    assert ran.code == 6
    assert "hf://org/llm: there is no file tokeniser.json; did you mean tokenizer.json?" in ran.err
    assert len(hub.requests) == 2


@pytest.fixture
def upstream(tmp_path: Path) -> Path:
    """Make a repository with two commits on main, and a branch."""
    root = tmp_path / "repositories" / "code"
    root.mkdir(parents=True)
    _git(root, "init", "--quiet", "--initial-branch=main")
    (root / "src/pkg").mkdir(parents=True)
    (root / "src/pkg/__init__.py").write_text("VERSION = 1\n")
    (root / "src/old.py").write_text("gone = True\n")
    (root / "src/run.sh").write_text("#!/bin/sh\n")
    (root / "src/run.sh").chmod(0o755)
    (root / "src/link.py").symlink_to("pkg/__init__.py")
    (root / "README.md").write_text("# code\n")
    _commit(root, "first")
    _git(root, "rm", "--quiet", "src/old.py")
    (root / "src/pkg/__init__.py").write_text("VERSION = 2\n")
    _commit(root, "second")
    _git(root, "branch", "stable", "HEAD~1")
    return root


@pytest.fixture
def daemon(upstream: Path) -> Iterator[str]:
    """Run a git daemon that serves the repository."""
    port = free_port()
    argv = ["git", "daemon", "--reuseaddr", "--export-all", f"--base-path={upstream.parent}", "--listen=127.0.0.1"]
    with subprocess.Popen([*argv, f"--port={port}", str(upstream.parent)], stderr=subprocess.DEVNULL) as process:
        try:
            wait_until(lambda: listens(port), "the git daemon")
            yield f"git://127.0.0.1:{port}/code"
        finally:
            process.terminate()


def test_git_checks_out_the_commit(volume: Volume, upstream: Path, daemon: str) -> None:
    """D-20: with a commit, its files are fetched, also beside a branch; a file that a later commit lacks is removed."""
    first = _git(upstream, "rev-parse", "HEAD~1")
    source = {"repository": daemon, "path": "src", "targetPath": "code"}
    volume.configure(git=[{**source, "branch": "main", "commit": first}])
    ran = volume.run()
    assert (ran.code, ran.err) == (0, "")
    assert ran.result["items"][0]["version"] == first
    assert volume.files()["code/pkg/__init__.py"] == b"VERSION = 1\n"
    assert "code/old.py" in volume.files()
    assert (volume.root / "code/run.sh").stat().st_mode & 0o100
    assert (volume.root / "code/link.py").readlink() == Path("pkg/__init__.py")
    assert not list((volume.root / ".downloads").glob(".git-*"))
    (volume.root / "code/notes.txt").write_text("mine")
    volume.configure(marker="second", git=[{**source, "branch": "main"}])
    ran = volume.run()
    assert [(one["fetched"], one["removed"]) for one in ran.result["items"]] == [(1, 1)]
    assert volume.files()["code/pkg/__init__.py"] == b"VERSION = 2\n"
    assert volume.files()["code/notes.txt"] == b"mine"
    assert "code/old.py" not in volume.files()
    assert volume.markers() == ["second"]
    assert _fetched(volume) == [0]


def test_git_resolves_short_commits_branches_and_files(volume: Volume, upstream: Path, daemon: str) -> None:
    """A short commit, another branch, a single file; a branch that does not exist is named."""
    short = _git(upstream, "rev-parse", "--short=10", "HEAD~1")
    volume.configure(
        git=[
            {"repository": daemon, "commit": short, "targetPath": "short"},
            {"repository": daemon, "branch": "stable", "path": "README.md", "targetPath": "one"},
        ]
    )
    assert volume.run().code == 0
    assert volume.files()["one/README.md"] == b"# code\n"
    assert volume.files()["short/src/pkg/__init__.py"] == b"VERSION = 1\n"
    volume.configure(git=[{"repository": daemon, "branch": "absent"}])
    ran = volume.run("-o", "text")
    assert ran.code == 6
    assert f"error: {daemon}: there is no branch absent" in ran.err


def test_git_sends_the_token_to_its_server_alone(volume: Volume, upstream: Path) -> None:
    """The token is in no argument, no address and no file; a wrong one is refused without being shown."""
    with servers.serving(servers.GitHttp) as served:
        served.objects["root"] = str(upstream.parent).encode()
        source = {"repository": f"{served.url}/code/.git", "targetPath": "code", "token": volume.secret(PASSWORD)}
        volume.configure(git=[source])
        process = volume.start("-o", "json")
        seen = set[str]()
        while process.poll() is None:
            seen |= {_arguments(path) for path in Path("/proc").glob("[0-9]*/cmdline")}
        _, err = process.communicate()
        assert (process.returncode, err) == (0, "")
        assert volume.files()["code/README.md"] == b"# code\n"
        assert not any(PASSWORD in line for line in seen)
        assert not any(PASSWORD.encode() in path.read_bytes() for path in volume.root.rglob("*") if path.is_file())
        assert all("@" not in path for _, path, _ in served.requests)
        volume.secret("a-wrong-token-here")
        (volume.root / "code/README.md").unlink()
        ran = volume.run()
        assert ran.code == 6
        assert "a-wrong-token-here" not in ran.out + ran.err


def _arguments(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def _fetched(volume: Volume) -> list[int]:
    ran = volume.run()
    assert (ran.code, ran.err) == (0, "")
    return [one["fetched"] for one in ran.result["items"]]


def _loaded(volume: Volume, repository: str, name: str) -> str:
    """Return the path at which the library itself finds a file, without a network."""
    code = (
        f"from huggingface_hub import hf_hub_download as d; print(d({repository!r}, {name!r}, local_files_only=True))"
    )
    environ = {**volume.environ, "HF_HOME": str(volume.folder / "hf"), "HF_HUB_OFFLINE": "1"}
    return subprocess.run(
        [sys.executable, "-c", code], env=environ, check=True, capture_output=True, text=True
    ).stdout.strip()


def _s3(url: str, bucket: str, objects: dict[str, bytes]) -> Any:
    keys = {"aws_access_key_id": "AKIDTEST", "aws_secret_access_key": "s3-secret-value", "region_name": "us-east-1"}
    client = boto3.session.Session().client("s3", endpoint_url=url, **keys)
    client.create_bucket(Bucket=bucket)
    for key, content in objects.items():
        client.put_object(Bucket=bucket, Key=key, Body=content)
    return client


def _service_account(url: str) -> str:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    account = {"type": "service_account", "project_id": "p", "private_key_id": "1", "client_id": "1"}
    return json.dumps(
        {**account, "private_key": pem, "client_email": "reader@p.example.com", "token_uri": f"{url}/token"}
    )


def _git(root: Path, *argv: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", "-C", str(root), *identity, *argv], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def _commit(root: Path, message: str) -> None:
    _git(root, "add", "--all")
    _git(root, "commit", "--quiet", "--message", message)
