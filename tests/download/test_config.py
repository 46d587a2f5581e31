"""Configurations of downloads: what is refused, with its place, and what globs select."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.download.config import below, read_config
from reconciler.download.sources.objects import translate
from reconciler.errors import InvalidInput

HEAD = {"root": "/data", "marker": "abc"}
KEY = {"secretName": "keys", "secretKey": "key"}


def problems(**sources: Any) -> list[str]:
    with pytest.raises(InvalidInput) as raised:
        read_config("config.yaml", json.dumps({**HEAD, **sources}).encode())
    assert raised.value.exit_code == 3
    return [f"{one.field}: {one.message}" for one in raised.value.problems]


def test_the_form_of_kaiwo_is_read() -> None:
    """F-073: the fields of a KaiwoJob are taken as they are written."""
    text = b"""
root: /workload
hfHome: /hf_cache
marker: 3f9c0d1e22aa
s3:
- endpointUrl: https://minio.example.com
  accessKeyId: {secretName: minio, secretKey: id}
  secretKey: {file: /app/secrets/minio/secret}
  buckets:
  - name: models
    folders: [{path: llm, targetPath: models/llm}]
azureBlob:
- connectionString: {secretName: azure, secretKey: text}
  containers: [{name: data, files: [{path: a.bin, targetPath: a.bin}]}]
git:
- repository: https://git.example.com/code.git
  commit: 0123456789abcdef0123456789abcdef01234567
  token: {secretName: git, secretKey: token}
  targetPath: code
hf: [{repoId: org/llm, files: [config.json]}]
"""
    config = read_config("config.yaml", text)
    assert config.s3[0].buckets[0].folders[0].glob == "**/*"
    assert config.hf[0].repo_id == "org/llm"
    assert config.max_workers == 8


@pytest.mark.parametrize("target", ["../other", "a/../../b", "/etc/passwd", ".downloads/first", "a/\u0007", "a/.."])
def test_targets_stay_below_the_mount(target: str) -> None:
    """KA-23: a target that leaves the mount is refused before anything is fetched, wherever it is written."""
    bucket = {"name": "b", "files": [{"path": "x", "targetPath": target}], "folders": [{"targetPath": target}]}
    found = problems(s3=[{"buckets": [bucket]}], git=[{"repository": "https://h/r", "targetPath": target}])
    assert sorted(line.partition(":")[0] for line in found) == [
        "git[0].targetPath",
        "s3[0].buckets[0].files[0].targetPath",
        "s3[0].buckets[0].folders[0].targetPath",
    ]


def test_all_problems_are_reported_at_once_with_their_places() -> None:
    """Unknown fields, contradictions of secrets, credentials in addresses: each at its line, none of them shown."""
    found = problems(
        hf=[{"repoId": "../llm"}],
        s3=[{"accessKeyId": KEY, "buckets": []}],
        gcs=[{"applicationCredentials": {**KEY, "file": "/a"}}],
        azureBlob=[{"connectionString": {}}],
        git=[{"repository": "https://user:very-secret@h/r"}, {"repository": "file:///etc"}],
    )
    assert sorted(found) == sorted(
        [
            "azureBlob[0].connectionString: names no secret",
            "gcs[0].applicationCredentials: names a file and a Secret",
            "git[0].repository: contains a user or a password",
            "git[1].repository: is not the address of a Git server",
            "hfHome: is required",
            "hf[0].repoId: is not a repository of the Hub",
            "s3[0].secretKey: is required",
        ]
    )
    assert problems(s3=[{"endpointURL": "http://x", "buckets": [{"nam": "b"}]}]) == [
        "s3[0].endpointURL: unknown field",
        "s3[0].buckets[0].name: is required",
        "s3[0].buckets[0].nam: unknown field",
    ]
    assert problems(s3=[{"endpointUrl": {"secretName": "s"}}]) == ["s3[0].endpointUrl: must be a string, not a mapping"]


def test_two_objects_with_one_target() -> None:
    """The later one would win by chance."""
    files = [{"path": "a", "targetPath": "x"}, {"path": "b", "targetPath": "./x"}]
    assert problems(s3=[{"buckets": [{"name": "b", "files": files}]}]) == [
        "s3[0].buckets[0].files[1].targetPath: x is the target of another object"
    ]


@pytest.mark.parametrize(
    ("glob", "matching", "others"),
    [
        ("**/*", ["a", "a/b", "a/b/c.csv"], []),
        ("**/*.csv", ["a.csv", "a/b.csv"], ["a.csv/b", "acsv"]),
        ("*.csv", ["a.csv"], ["a/b.csv"]),
        ("part-?/[ab]*", ["part-1/a", "part-2/bc"], ["part-10/a", "part-1/c", "part-1/a/x"]),
        ("a.b", ["a.b"], ["aXb"]),
        ("[!a]*", ["b"], ["a"]),
    ],
)
def test_globs(glob: str, matching: list[str], others: list[str]) -> None:
    expression = re.compile(translate(glob))
    assert [name for name in (*matching, *others) if expression.fullmatch(name)] == matching


@given(st.text(alphabet="ab./\\", max_size=12))
def test_a_path_below_a_folder_stays_there(path: str) -> None:
    """What is not refused is a path of plain names."""
    try:
        found = below(path)
    except ValueError:
        return
    assert not found.startswith("/")
    assert not {"", ".", ".."} & set(found.split("/")) or not found
