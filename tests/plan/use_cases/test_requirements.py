"""The requirements file of a config repository: one exact version, from where the team says."""

from typing import Any

import pytest

from reconciler.errors import ConfigError
from reconciler.submit.init import installed_source, requirements

COMMIT = "8c0e8b9d7f0a4c1f3b2a5e6d7c8b9a0f1e2d3c4b"


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("", ["gpu-reconciler==0.4.0"]),
        ("git+https://git.example.com/ml/gpu-reconciler.git@v0.4.0",) * 2,
        ("git+ssh://git.example.com/ml/gpu-reconciler.git@" + COMMIT,) * 2,
        ("https://files.example.com/gpu_reconciler-0.4.0-py3-none-any.whl",) * 2,
        ("gpu_reconciler-0.4.0-py3-none-any.whl", ["./gpu_reconciler-0.4.0-py3-none-any.whl"]),
        ("./wheels/gpu_reconciler-0.4.0-py3-none-any.whl", ["./wheels/gpu_reconciler-0.4.0-py3-none-any.whl"]),
        (
            "https://pypi.example.com/simple",
            ["--index-url https://pypi.example.com/simple", "gpu-reconciler==0.4.0"],
        ),
    ],
)
def test_every_source_is_pinned(source: str, lines: list[str] | str) -> None:
    text = requirements("0.4.0", source)
    pins = [line for line in text.splitlines() if not line.startswith("#")]
    assert pins == ([f"gpu-reconciler @ {lines}"] if isinstance(lines, str) else lines)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("git+https://git.example.com/gpu-reconciler.git", "git+https://git.example.com/gpu-reconciler.git@v0.4.0"),
        ("https://git.example.com/gpu-reconciler.git", "write git+https://git.example.com/gpu-reconciler.git@v0.4.0"),
        ("https://bot:hunter2@git.example.com/simple", "credentials"),
        ("git+https://hunter2@git.example.com/gpu-reconciler.git@v1", "credentials"),
        ("gpu-reconciler", "is not a package source"),
        ("a b", "spaces"),
        ("https://x/simple\n--extra-index-url https://y", "control characters"),
    ],
)
def test_what_is_no_exact_source_is_refused(source: str, words: str) -> None:
    with pytest.raises(ConfigError, match=r"--source") as failure:
        requirements("0.4.0", source)
    assert words in str(failure.value)
    assert "hunter2" not in str(failure.value)


@pytest.mark.parametrize(
    ("record", "source"),
    [
        ({"url": "https://git.example.com/r.git", "vcs_info": {"vcs": "git", "commit_id": COMMIT}}, f"git+https://git.example.com/r.git@{COMMIT}"),
        ({"url": "https://files.example.com/r-1-py3-none-any.whl", "archive_info": {}},) * 2,
        ({"url": "file:///home/me/r", "dir_info": {"editable": True}}, ""),
        ({"url": "https://bot:hunter2@git.example.com/r.git", "vcs_info": {"vcs": "git", "commit_id": COMMIT}}, ""),
        (None, ""),
        ({"url": 1}, ""),
    ],
)  # fmt: skip
def test_the_source_of_an_installation(record: Any, source: Any) -> None:
    assert installed_source(record) == (source if isinstance(source, str) else source["url"])
    assert requirements("0.4.0", installed_source(record))
