"""The folder of a workload: its entrypoint (D-06), its variables (D-09), and the files that its pods get."""

import subprocess
from pathlib import Path

import pytest
import yaml

from reconciler.errors import ConfigError, InvalidInput
from reconciler.submit.folder import joined_entrypoint, read_variables, read_workload

README_ENV = b"""\
envVars:
  - name: MY_VAR
    value: "my_value"
  - fromSecret:
      name: "AWS_ACCESS_KEY_ID"
      secret: "gcs-credentials"
      key: "access_key"
  - fromSecret:
      name: "AWS_SECRET_ACCESS_KEY"
      secret: "gcs-credentials"
      key: "secret_key"
  - fromSecret:
      name: "HF_TOKEN"
      secret: "hf-token"
      key: "hf-token"
  - mountSecret:
      name: "GOOGLE_APPLICATION_CREDENTIALS"
      secret: "gcs-credentials"
      key: "gcs-credentials-json"
      path: "/etc/gcp/credentials.json"
"""


@pytest.mark.parametrize(
    ("script", "joined"),
    [
        ("python main.py\n--model=a\n  --batch 4\n", "python main.py --model=a --batch 4"),
        ("echo one\necho two", "echo one\necho two"),
        ("# pretrain\npython main.py\n# the batch\n--batch=4", "# pretrain\npython main.py --batch=4\n# the batch"),
        ("python main.py  # runs\n--batch=4", "python main.py --batch=4"),
        ("python main.py #\n--batch=4", "python main.py --batch=4"),
        ("echo 'a # b' \"c # d\"\n--e", "echo 'a # b' \"c # d\" --e"),
        ("pip install x && \\\npython main.py", "pip install x && \\\npython main.py"),
        ("cat <<E\n- a\nE\n", "cat <<E\n- a\nE"),
        ("--only\n", "--only"),
    ],
)
def test_d_06_flags_continue_the_command_before_them(script: str, joined: str) -> None:
    assert joined_entrypoint(script) == joined


def test_d_06_a_comment_swallows_nothing_and_two_commands_are_two() -> None:
    script = joined_entrypoint("# first\necho one # uno\necho two\n")
    ran = subprocess.run(["/bin/sh", "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout == "one\ntwo\n"


def test_f_068_the_env_of_the_readme_is_read_whole() -> None:
    found = read_variables("env", README_ENV)
    assert [one["name"] for one in found.env] == [
        *("MY_VAR", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "HF_TOKEN", "GOOGLE_APPLICATION_CREDENTIALS")
    ]
    assert found.env[3]["valueFrom"] == {"secretKeyRef": {"name": "hf-token", "key": "hf-token"}}
    assert found.env[4]["value"] == "/etc/gcp/credentials.json"
    assert found.secret_volumes == (
        {
            "name": "gcs-credentials-volume",
            "secretName": "gcs-credentials",
            "key": "gcs-credentials-json",
            "subPath": "credentials.json",
            "mountPath": "/etc/gcp/credentials.json",
        },
    )


def test_d_09_empty_and_quoted_values_stay_and_two_mounts_have_two_volumes() -> None:
    mounts = "".join(
        f"  - mountSecret: {{name: P{key}, secret: s, key: k{key}, path: /etc/{key}}}\n" for key in ("a", "b")
    )
    rows = f"envVars:\n  - {{name: E, value: ''}}\n  - {{name: Q, value: 'a \"b\": c'}}\n  - {{name: NUM, value: 8}}\n{mounts}"
    found = read_variables("env", rows.encode())
    assert [one["value"] for one in found.env[:3]] == ["", 'a "b": c', "8"]
    assert [one["name"] for one in found.secret_volumes] == ["s-volume", "s-volume-2"]


@pytest.mark.parametrize(
    ("rows", "line"),
    [
        ("- {name: A}", 2),
        ("- {name: A, value: 1}\n- {name: A, value: 2}", 3),
        ("- {name: A, value: 1, fromSecret: {name: B, secret: s, key: k}}", 2),
        ("- {mountSecret: {name: A, secret: s, key: k, path: relative}}", 2),
        ("- {name: A, value: [1]}", 2),
    ],
)
def test_wrong_variables_are_errors_with_their_line(rows: str, line: int) -> None:
    with pytest.raises(InvalidInput) as raised:
        read_variables("work/env", f"envVars:\n{rows}\n".encode())
    assert str(raised.value.problems[0]).startswith(f"work/env:{line}:")


def test_the_file_whose_variables_are_wrong_is_named(tmp_path: Path) -> None:
    folder = _folder(tmp_path / "work", {"env": b"envVars: []\n"})
    overlay = _folder(tmp_path / "over", {"env": b"envVars:\n- {name: A}\n"})
    with pytest.raises(InvalidInput) as raised:
        read_workload(folder, overlay)
    assert raised.value.problems[0].place.path == str(overlay / "env")


def _folder(path: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(content)
    return path


def test_f_067_what_a_folder_carries_and_what_it_does_not(tmp_path: Path) -> None:
    files = {
        "main.py": b"x",
        "env": README_ENV,
        "entrypoint": b"python main.py\n",
        "kaiwoconfig": b"a: 1",
        "lib/a.py": b"y",
    }
    folder = _folder(tmp_path / "work", {**files, "weights": b"\0", "big": b"a" * 950_001, ".hidden": b"h"})
    (tmp_path / "key").write_text("private")
    (folder / "link").symlink_to(tmp_path / "key")
    found = read_workload(folder)
    assert sorted(found.carried) == [".hidden", "main.py"]
    assert found.entrypoint == "python main.py"
    assert sorted(line.rpartition("/")[2].partition(":")[0] for line in found.skipped) == [
        "big",
        "lib",
        "link",
        "weights",
    ]
    assert sorted(read_workload(folder, deep=True).carried) == [".hidden", "lib/a.py", "main.py"]


def test_an_overlay_wins_and_a_credential_is_warned_of(tmp_path: Path) -> None:
    folder = _folder(tmp_path / "a", {"main.py": b"old", "other.py": b"o"})
    overlay = _folder(tmp_path / "b", {"main.py": b"new", "token": b"ghp_" + b"a1B2" * 9})
    found = read_workload(folder, overlay)
    assert found.carried["main.py"] == b"new"
    assert [line for line in found.skipped if "credential" in line]
    with pytest.raises(ConfigError, match="is not a folder"):
        read_workload(tmp_path / "absent")


def test_the_readme_of_kaiwo_is_what_is_tested() -> None:
    assert yaml.safe_load(README_ENV)["envVars"][0] == {"name": "MY_VAR", "value": "my_value"}
