"""Repositories whose Git data is unusual: what is compared is what the commits hold, or the error says why not."""

import shutil
import subprocess
import unicodedata
from pathlib import Path

import pytest

from tests.cli.fleet import Fleet

CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, namespace: default, labels: {team: x}}\n"


def _commit(fleet: Fleet, path: str, name: str) -> str:
    fleet.write(path, CONFIG_MAP % name)
    fleet.git("add", "--all")
    fleet.git("commit", "--quiet", "--message", name)
    return fleet.git("rev-parse", "HEAD")


def _changes(fleet: Fleet, *arguments: str) -> str:
    ran = fleet.run("plan", "-o", "name", *arguments)
    assert ran.code == 0, ran.err
    return ran.out


def test_replace_refs_replace_nothing(fleet: Fleet) -> None:
    """`git replace` shows another commit in place of one; the plan is that of the commit itself."""
    first = _commit(fleet, "jobs/one.yaml", "one")
    second = _commit(fleet, "jobs/two.yaml", "two")
    before = _changes(fleet, "--revision", second)
    fleet.git("replace", second, first)
    assert _changes(fleet, "--revision", second) == before
    assert "two" in before


def test_grafts_change_no_history(fleet: Fleet) -> None:
    """`.git/info/grafts` gives commits other parents; the merge base is that of the commits themselves."""
    base = _commit(fleet, "jobs/one.yaml", "one")
    assert fleet.run("commit").code == 0
    middle = fleet.git("rev-parse", "HEAD")
    head = _commit(fleet, "jobs/two.yaml", "two")
    before = _changes(fleet, "--base", middle)
    (fleet.root / ".git/info").mkdir(exist_ok=True)
    (fleet.root / ".git/info/grafts").write_text(f"{head} {base}\n")
    assert _changes(fleet, "--base", middle) == before


def test_objects_of_an_alternate_repository(fleet: Fleet, tmp_path: Path) -> None:
    """A clone with `--shared` has no objects of its own."""
    _commit(fleet, "jobs/one.yaml", "one")
    fleet.git("clone", "--quiet", "--shared", str(fleet.root), str(tmp_path / "shared"))
    shared = Fleet(tmp_path / "shared", fleet.capture)
    assert _changes(shared, "--base", "HEAD") == _changes(fleet, "--base", "HEAD")


@pytest.mark.parametrize("damage", ["remove", "truncate"])
def test_a_damaged_pack_is_an_error_of_git(fleet: Fleet, damage: str) -> None:
    _commit(fleet, "jobs/one.yaml", "one")
    fleet.git("gc", "--quiet", "--prune=now")
    (pack,) = (fleet.root / ".git/objects/pack").glob("*.pack")
    pack.chmod(0o644)
    if damage == "remove":
        pack.unlink()
    else:
        pack.write_bytes(pack.read_bytes()[:100])
    ran = fleet.run("plan", "--revision", "HEAD", "--cache", "off")
    assert ran.code == 6
    assert "Traceback" not in ran.err
    assert len(ran.err.splitlines()) <= 2, ran.err


def test_a_partial_clone_fetches_nothing(fleet: Fleet, tmp_path: Path) -> None:
    """Missing blobs of `--filter=blob:none` are an error: a plan uses no network."""
    _commit(fleet, "jobs/one.yaml", "one")
    fleet.git("config", "uploadpack.allowFilter", "true")
    target = tmp_path / "partial"
    fleet.git("clone", "--quiet", "--no-checkout", "--filter=blob:none", f"file://{fleet.root}", str(target))
    ran = Fleet(target, fleet.capture).run("plan", "--revision", "HEAD", "--cache", "off")
    assert ran.code == 6, ran.out + ran.err
    assert "Traceback" not in ran.err


def test_names_that_differ_in_unicode_form_only(fleet: Fleet) -> None:
    """MacOS cannot check out both."""
    composed = unicodedata.normalize("NFC", "jobs/é.yaml")
    fleet.write(composed, CONFIG_MAP % "one")
    fleet.write(unicodedata.normalize("NFD", composed), CONFIG_MAP % "two")
    ran = fleet.run("lint")
    assert (ran.code, "git.case-collision" in ran.out) == (3, True), ran.out


def test_a_file_and_a_folder_that_differ_in_case_only(fleet: Fleet) -> None:
    fleet.write("jobs/A.yaml/one.yaml", CONFIG_MAP % "one")
    fleet.write("jobs/a.yaml", CONFIG_MAP % "two")
    ran = fleet.run("lint")
    assert (ran.code, "git.case-collision" in ran.out) == (3, True), ran.out


def test_a_full_disk_leaves_the_branch_as_it_was(fleet: Fleet) -> None:
    """The commit is made before the branch is moved, so an object that cannot be written changes nothing."""
    _commit(fleet, "jobs/one.yaml", "one")
    head = fleet.git("rev-parse", "HEAD")
    limit = "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
    limit += "resource.setrlimit(resource.RLIMIT_FSIZE, (16, 16)); "
    limit += "from reconciler.cli.main import run; sys.exit(run(sys.argv[1:]))"
    python = shutil.which("python3", path=str(Path(__import__("sys").executable).parent)) or "python3"
    done = subprocess.run(
        [python, "-c", limit, "commit", "--repo", str(fleet.root), "--cache", "off"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 6, done.stderr
    assert "Traceback" not in done.stderr
    assert fleet.git("rev-parse", "HEAD") == head
    assert fleet.git("status", "--porcelain") == ""


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("jobs/a.yaml", 'apiVersion: v1\nkind: "Conf\\nerror: x"\nmetadata: {name: a}\n'),
        ("jobs/a.yaml", 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: "a\\n::error::b"}\n'),
        ("jobs/a.yaml", 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"x\\ny\\u2028z": 1\n'),
        ("jobs/a.yaml", 'apiVersion: "v1\\r\\nx"\nkind: ConfigMap\nmetadata: {name: a}\n'),
    ],
)
def test_names_and_contents_stay_on_one_line(path: str, text: str, fleet: Fleet) -> None:
    """A message that repeats what a file holds is one line, in the text and in the log."""
    fleet.write(path, text)
    ran = fleet.run("lint", "--log-level", "debug", "--width", "1000")
    assert ran.code in {3, 4}
    for line in (ran.out + ran.err).split("\n"):
        assert line.isprintable()
        assert not line.startswith(("error: x", "::error", "y", "z"))
