"""Hundreds of planted secrets: none of them comes out of any door, in any spelling."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import yaml

from reconciler.outputs import output_names
from tests import sizes
from tests.cli.fleet import Fleet, run_verb
from tests.system.canaries import Corpus, broken, good, places

LEAST = 250  # planted secrets


def _plant(fleet: Fleet, corpus: Corpus) -> None:
    """Plant a corpus where the rules that would refuse it are disabled."""
    rules = "  rules:\n    no-secrets-in-git: {enabled: false}\n    no-literal-secrets: {enabled: false}\n"
    fleet.edit("reconciler.yaml", "  budgets:", f"{rules}  budgets:")
    fleet.commit()
    for path, text in corpus.files.items():
        fleet.write(path, text)


def _doors(fleet: Fleet, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """Yield everything that leaves the process, with the name of its door."""
    saved = tmp_path / "plan.json"
    for form in output_names("plan"):
        ran = fleet.run("plan", "-o", form, "--out", str(saved))
        yield f"plan -o {form}", ran.out + ran.err
    yield "saved plan", saved.read_text()
    for form in ("text", "markdown"):
        ran = fleet.run("plan", "--full", "-o", form, "--log-level", "debug")
        yield f"plan --full -o {form}", ran.out + ran.err
    for form in output_names("lint"):
        ran = fleet.run("lint", "-o", form)
        yield f"lint -o {form}", ran.out + ran.err
    for form in output_names("show"):
        ran = run_verb(fleet.capture, ["show", str(saved), "-o", form])
        yield f"show -o {form}", ran.out + ran.err
    for verb in (
        ["verify"], ["commit"], ["size", "jobs"], ["resolve"],
        ["new", "job", "canary", "--output", "-"], ["new", "queue", "canary", "--output", "-"],
    ):  # fmt: skip
        ran = fleet.run(*verb)
        yield " ".join(verb), ran.out + ran.err
    yield from _cache(tmp_path)


def _approval(fleet: Fleet, reason: str) -> Iterator[tuple[str, str]]:
    """Yield what `approve` says and writes, for a plan that exceeds its budgets."""
    ran = fleet.run("approve", "--reason", reason)
    assert ran.code == 0, ran.err
    yield "approve", ran.out + ran.err
    for path in (fleet.root / "approvals").glob("*.yaml"):
        yield "approval file", path.read_text()


def _cache(tmp_path: Path) -> Iterator[tuple[str, str]]:
    for cached in sorted((tmp_path / "cache").rglob("*")):
        if cached.is_file():
            yield "cache", cached.read_bytes().decode("latin-1")


def _explanations(fleet: Fleet) -> Iterator[tuple[str, str]]:
    """Yield what `explain` says of each rendered file, in one form or the other."""
    for number, path in enumerate(fleet.files()):
        for form in ("text", "json") if sizes.LARGE else (("text", "json")[number % 2],):
            ran = fleet.run("explain", f"rendered/{path}", "-o", form)
            yield f"explain {path} -o {form}", ran.out + ran.err


def _leaks(corpus: Corpus, doors: Iterator[tuple[str, str]]) -> list[str]:
    return sorted({f"{door}: {place}" for door, text in doors for place in corpus.hits(text)})


def test_the_corpus_is_large() -> None:
    assert len(set(places((good(), broken())))) >= LEAST


def test_no_canary_of_valid_files_leaks(fleet: Fleet, tmp_path: Path) -> None:
    """Created, explained, committed, changed and deleted: no output, cache, saved plan, commit or log shows a secret."""
    corpus = good()
    _plant(fleet, corpus)
    assert fleet.run("plan").code == 0
    assert _leaks(corpus, _doors(fleet, tmp_path)) == []
    fleet.commit()
    assert fleet.run("commit").code == 0
    assert corpus.hits(fleet.git("log", "-2", "--format=%B%n%an%n%N")) == []
    assert _leaks(corpus, _explanations(fleet)) == []
    _change(fleet, corpus)
    assert _leaks(corpus, _doors(fleet, tmp_path)) == []
    for path in corpus.files:
        (fleet.root / path).unlink(missing_ok=True)
    assert _leaks(corpus, _approval(fleet, f"rotate password={corpus.canaries[0].token} now")) == []


def test_no_canary_leaks_from_conflicts(fleet: Fleet) -> None:
    """Both sides of a merge change secrets: `resolve` renders them and prints names only."""
    corpus = good()
    _plant(fleet, corpus)
    fleet.commit()
    assert fleet.run("commit").code == 0
    for branch, word in (("ours", "Zqo"), ("theirs", "Zqt")):
        fleet.git("checkout", "--quiet", "-B", branch, "main")
        path, text = next((path, text) for path, text in corpus.files.items() if "kind: ConfigMap" in text)
        fleet.write(path, text.replace("Zq", word))
        fleet.commit()
        assert fleet.run("commit").code == 0
    merge = ["git", "-C", str(fleet.root), "merge", "ours"]
    assert subprocess.run(merge, check=False, capture_output=True).returncode == 1
    ran = fleet.run("resolve")
    assert (ran.code, corpus.hits(ran.out + ran.err)) == (5, [])  # sources have conflicts as well
    fleet.git("checkout", "--theirs", "jobs")
    fleet.git("add", "jobs")
    ran = fleet.run("resolve")
    assert (ran.code, corpus.hits(ran.out + ran.err)) == (0, [])


def _change(fleet: Fleet, corpus: Corpus) -> None:
    """Change every secret of most files, and remove the other files."""
    for number, (path, text) in enumerate(corpus.files.items()):
        if number % 5 == 0:
            (fleet.root / path).unlink(missing_ok=True)
        else:
            fleet.write(path, text.replace("Zq", "Zqx"))


def test_no_canary_of_broken_files_leaks(fleet: Fleet, tmp_path: Path) -> None:
    """No message about a file that is not valid quotes a secret in it."""
    corpus = broken()
    _plant(fleet, corpus)
    assert fleet.run("plan").code == 3
    assert _leaks(corpus, _doors(fleet, tmp_path)) == []


def test_render_tells_of_a_single_masked_secret(fleet: Fleet) -> None:
    fleet.write("jobs/secret.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {a: hunter2}\n")
    assert fleet.run("render").err == "the values of 1 Secret are masked; print them with --show-secrets\n"


def test_render_masks_the_values_of_secrets(fleet: Fleet, tmp_path: Path) -> None:
    """Standard output ends in logs; a masked Secret is one that no API server accepts. Folders have the values."""
    corpus = good()
    _plant(fleet, corpus)
    ran = fleet.run("render")
    assert not [place for place in corpus.hits(ran.out) if place.startswith(("data ", "stringData ", "neighbour"))]
    assert "the values of 2 Secrets are masked; print them with --show-secrets" in ran.err
    plain = next(
        one for one in yaml.safe_load_all(ran.out) if one["kind"] == "Secret" and "plain" in str(one["metadata"])
    )
    assert set(plain["data"].values()) == {"***"}
    assert "stringData" not in plain
    assert "stringData a" in corpus.hits(fleet.run("render", "--show-secrets").out)
    assert fleet.run("render", "--to", str(tmp_path / "out")).code == 0
    secret = next((tmp_path / "out").rglob("secret-plain.yaml"))
    assert "stringData a" in corpus.hits(secret.read_text())
