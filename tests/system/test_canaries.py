"""Planted secrets: none of them comes out of any door, in any spelling."""

import base64
import json
import re
import urllib.parse
from pathlib import Path

import pytest

from reconciler.outputs import output_names
from tests.cli.fleet import Fleet, Ran

# One unique token a hiding place, so that a leak names its source.
_CANARIES = (
    "secretdata", "stringdata", "envtoken", "urlcredential", "lastapplied", "flagequals", "flagspace", "brokenyaml",
    "brokenjson", "remoteurl", "configmapkey", "duplicatekey", "queryparameter", "unknownfield", "multiline",
    "wrongtype", "workspaceurl", "bearer", "badquantity",
)  # fmt: skip


def _token(name: str) -> str:
    return f"Canary+{name}/8f3aQ=="


def _spellings(name: str) -> set[str]:
    token = _token(name)
    once = base64.b64encode(token.encode()).decode()
    return {
        token,
        once,
        urllib.parse.quote(token),
        urllib.parse.quote(token, safe=""),
        f"Canary+{name}",
        f"Canary%2B{name}",
    }


def _plant(fleet: Fleet) -> None:
    data = base64.b64encode(_token("secretdata").encode()).decode()
    applied = json.dumps({"data": {"password": _token("lastapplied")}})
    fleet.write(
        "jobs/secret.yaml",
        "apiVersion: v1\nkind: Secret\nmetadata:\n  name: s\n  labels: {team: x}\n  annotations:\n"
        f"    kubectl.kubernetes.io/last-applied-configuration: '{applied}'\n"
        f"data: {{password: {data}}}\nstringData:\n  token: {_token('stringdata')}\n"
        f"  key.pem: |\n    -----BEGIN PRIVATE KEY-----\n    {_token('multiline')}\n    -----END PRIVATE KEY-----\n",
    )
    fleet.write(
        "jobs/pod.yaml",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p, labels: {team: x}}\nspec:\n  containers:\n  - name: c\n"
        "    image: registry.example.com/a:1\n"
        f"    command: [serve, '--password={_token('flagequals')}', '--api-key', '{_token('flagspace')}']\n"
        f"    args: ['-H', 'Authorization: Bearer {_token('bearer')}']\n"
        f"    env:\n    - {{name: HF_TOKEN, value: '{_token('envtoken')}'}}\n"
        f"    - {{name: DATABASE, value: 'postgres://user:{urllib.parse.quote(_token('urlcredential'), safe='')}@db/x'}}\n"
        f"    - {{name: HOOK, value: 'https://example.com/hook?token={urllib.parse.quote(_token('queryparameter'), safe='')}'}}\n",
    )
    fleet.write(
        "jobs/map.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m, labels: {team: x}}\n"
        f"data: {{API_TOKEN: '{_token('configmapkey')}', other: x}}\n",
    )
    fleet.write(
        "jobs/train.yaml",
        "apiVersion: torchrun.ai/v1alpha1\nkind: TorchrunJob\nmetadata: {name: t, labels: {team: x}}\nspec:\n"
        "  jobQueue: h100\n  numGPUs: 8\n  command: python train.py\n  workspaceStorage:\n    source: git\n"
        "    url: https://git.example.com/a.git\n    ref: v1\n",
    )


def _plant_broken(fleet: Fleet) -> None:
    fleet.write(
        "jobs/url.yaml",
        "apiVersion: torchrun.ai/v1alpha1\nkind: TorchrunJob\nmetadata: {name: url, labels: {team: x}}\nspec:\n"
        "  jobQueue: h100\n  numGPUs: 8\n  command: python train.py\n  workspaceStorage:\n    source: git\n"
        f"    url: https://bot:{urllib.parse.quote(_token('workspaceurl'), safe='')}@git.example.com/a.git\n    ref: v1\n",
    )
    fleet.write(
        "jobs/broken.yaml", f"apiVersion: v1\nkind: Secret\nstringData:\n  password: {_token('brokenyaml')}\n bad: [\n"
    )
    fleet.write("jobs/broken.json", '{"kind": "Secret", "stringData": {"p": "' + _token("brokenjson") + '"')
    fleet.write(
        "jobs/twice.yaml", f"kind: Secret\napiVersion: v1\nstringData:\n  a: {_token('duplicatekey')}\n  a: x\n"
    )
    fleet.write(
        "jobs/field.yaml",
        "apiVersion: v1\nkind: Secret\nmetadata: {name: f}\n"
        f"passwords: {{a: '{_token('unknownfield')}'}}\nstringData: ['{_token('wrongtype')}']\n",
    )
    fleet.write(
        "jobs/quantity.yaml",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: q, labels: {team: x}}\nspec:\n  containers:\n  - name: c\n"
        f"    image: a:1\n    resources: {{limits: {{memory: 1Gi}}}}\n    env:\n    - {{name: API_TOKEN, value: {{x: '{_token('badquantity')}'}}}}\n",
    )


def _hits(text: str) -> list[str]:
    plain = re.sub(r"\s+", "", text)
    return sorted(
        {name for name in _CANARIES for spelling in _spellings(name) if spelling in text or spelling in plain}
    )


def _clean(ran: Ran) -> Ran:
    assert _hits(ran.out) == []
    assert _hits(ran.err) == []
    return ran


def _everywhere(fleet: Fleet, tmp_path: Path) -> None:
    for form in output_names("plan"):
        saved = tmp_path / f"plan-{form}.json"
        _clean(fleet.run("plan", "-o", form, "--out", str(saved)))
        _clean(
            fleet.run("plan", "--full", "-o", form if form in {"text", "markdown"} else "text", "--log-level", "debug")
        )
        assert _hits(saved.read_text()) == []

    for form in output_names("lint"):
        _clean(fleet.run("lint", "-o", form))
    for cached in (tmp_path / "cache").rglob("*"):
        if cached.is_file():
            assert _hits(cached.read_bytes().decode("latin-1")) == [], cached


def test_no_canary_of_a_good_repository_is_seen(fleet: Fleet, tmp_path: Path) -> None:
    """Secrets in fields, flags, URLs, environment, annotations: every output, the saved plan and the cache are clean."""
    fleet.git(
        "remote", "add", "origin", f"https://x:{urllib.parse.quote(_token('remoteurl'), safe='')}@git.example.com/a.git"
    )
    _plant(fleet)
    _everywhere(fleet, tmp_path)
    fleet.edit(
        "reconciler.yaml",
        "  budgets:",
        "  rules:\n    no-secrets-in-git: {enabled: false}\n    no-literal-secrets: {enabled: false}\n  budgets:",
    )
    _everywhere(fleet, tmp_path)
    for name in ("Secret/s", "Pod/p", "ConfigMap/m", "Job/t"):
        assert _clean(fleet.run("explain", name)).code == 0
        assert _clean(fleet.run("explain", name, "-o", "json")).code == 0
    fleet.commit()
    assert _clean(fleet.run("commit")).code == 0
    assert _hits(fleet.git("log", "-1", "--format=%B%n%an%n%N")) == []
    fleet.edit("jobs/map.yaml", "other: x", "other: y")
    fleet.edit("jobs/secret.yaml", "name: s\n", "name: s\n  namespace: other\n")
    (fleet.root / "jobs/pod.yaml").unlink()
    _everywhere(fleet, tmp_path)
    assert _clean(fleet.run("verify")).code == 0


def test_no_canary_of_a_broken_repository_is_seen(fleet: Fleet, tmp_path: Path) -> None:
    """Messages about broken files quote neither documents nor values of secrets."""
    _plant(fleet)
    _plant_broken(fleet)
    assert fleet.run("plan").code == 3
    _everywhere(fleet, tmp_path)
    _clean(fleet.run("render"))
    _clean(fleet.run("commit"))


@pytest.mark.parametrize("verb", ["plan", "lint", "commit", "verify", "render"])
def test_no_canary_in_the_errors_of_git(fleet: Fleet, verb: str) -> None:
    """A repository whose git fails does not tell the credentials in its remote."""
    fleet.git(
        "remote", "add", "origin", f"https://x:{urllib.parse.quote(_token('remoteurl'), safe='')}@git.example.com/a.git"
    )
    (fleet.root / ".git/refs/remotes/origin").mkdir(parents=True)
    (fleet.root / ".git/refs/remotes/origin/HEAD").write_text("ref: refs/remotes/origin/nowhere\n")
    (fleet.root / ".git/packed-refs").write_text("broken\n")
    _clean(fleet.run(verb))


@pytest.mark.parametrize("rest", ["", "---\na: [\n"], ids=["whole", "broken"])
def test_a_secret_beside_a_definition_is_not_cached(fleet: Fleet, tmp_path: Path, rest: str) -> None:
    """Files with definitions are cached with their text, unless they hold a secret or a part that cannot be read."""
    queue = (fleet.root / "queues/h100.yaml").read_text()
    secret = f"---\napiVersion: v1\nkind: Secret\nmetadata: {{name: s}}\nstringData:\n  token: {_token('stringdata')}\n"
    fleet.write("queues/h100.yaml", queue.rstrip("\n") + "\n" + secret + rest)
    for _ in range(2):
        _clean(fleet.run("plan"))
        for cached in (tmp_path / "cache").rglob("*.cache"):
            assert _hits(cached.read_bytes().decode("latin-1")) == [], cached
