"""The Git adapter on unusual, broken and hostile repositories: it works, or says clearly what is wrong."""

import os
import shutil
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reconciler.errors import RepositoryError
from reconciler.kube.objects import OversizedContent
from reconciler.kube.yaml import read
from reconciler.repo.git import GitRepository, command
from reconciler.repo.git.objects import blob_oid
from reconciler.repo.git.worktree import CheckoutFile, WorkTree
from reconciler.repo.port import Draft
from reconciler.repo.revision import resolve_head
from tests.fakes.gitrepo import Sandbox


@pytest.fixture
def box(tmp_path: Path) -> Sandbox:
    return Sandbox.init(tmp_path / "repo")


def contents(repository: GitRepository) -> dict[str, bytes]:
    listed = repository.work_tree()
    files = {path: entry.oid for path, entry in listed.items() if entry.is_file}
    return dict(zip(files, repository.read(files.values()), strict=True))


def test_a_folder_without_git_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(RepositoryError, match="is not in a Git repository") as caught:
        GitRepository.open(
            tmp_path, environ={"PATH": os.environ["PATH"], "GIT_CEILING_DIRECTORIES": str(tmp_path.parent)}
        )
    assert "git init" in caught.value.hint
    assert caught.value.exit_code == 6


def test_a_missing_folder_and_a_missing_git_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(RepositoryError, match="no such folder"):
        GitRepository.open(tmp_path / "nowhere", environ=os.environ)
    with pytest.raises(RepositoryError, match="git was not found"):
        GitRepository.open(tmp_path, environ={"PATH": str(tmp_path)})


def test_a_repository_without_commits_has_a_working_tree_and_no_head(box: Sandbox) -> None:
    box.write({"jobs/a.yaml": b"a: 1\n"})
    repository = box.open()
    assert contents(repository) == {"jobs/a.yaml": b"a: 1\n"}
    assert repository.head_branch() == "main"
    with pytest.raises(RepositoryError, match="no commits yet") as caught:
        repository.resolve("HEAD")
    assert "git commit" in caught.value.hint


def test_sha256_repositories_work(tmp_path: Path) -> None:
    box = Sandbox.init(tmp_path / "repo", "--object-format=sha256")
    oid = box.commit({"jobs/a.yaml": b"a: 1\n"})
    box.write({"jobs/b.yaml": b"b: 2\n"})
    repository = box.open()
    assert repository.object_format == "sha256"
    assert len(oid) == 64
    assert repository.resolve("main").oid == oid
    assert set(repository.tree(oid)) == {"jobs/a.yaml"}
    assert contents(repository) == {"jobs/a.yaml": b"a: 1\n", "jobs/b.yaml": b"b: 2\n"}


def test_a_shallow_clone_says_so(box: Sandbox, tmp_path: Path) -> None:
    first = box.commit({"a": b"1"})
    second = box.commit({"a": b"2"})
    clone = Sandbox(tmp_path / "clone", box.environ)
    box.git("clone", "--quiet", "--depth=1", f"file://{box.folder}", str(clone.folder))
    repository = clone.open()
    assert repository.is_shallow
    assert repository.resolve("HEAD").oid == second
    assert repository.upstream_default() == "refs/remotes/origin/main"
    assert list(repository.tree(second)) == ["a"]
    with pytest.raises(RepositoryError) as caught:
        repository.resolve(first)
    assert "unshallow" in caught.value.hint


def test_a_linked_worktree_reads_its_own_files(box: Sandbox, tmp_path: Path) -> None:
    box.commit({"a": b"1"})
    box.git("worktree", "add", "--quiet", "-b", "other", str(tmp_path / "linked"))
    (tmp_path / "linked" / "a").write_bytes(b"2")
    repository = box.open(tmp_path / "linked")
    assert repository.root == tmp_path / "linked"
    assert repository.head_branch() == "other"
    assert contents(repository) == {"a": b"2"}
    assert contents(box.open()) == {"a": b"1"}


def test_a_submodule_worktree_is_a_repository_of_its_own(box: Sandbox, tmp_path: Path) -> None:
    inner = Sandbox.init(tmp_path / "inner")
    inner.commit({"x": b"1"})
    box.commit({"a": b"1"})
    box.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner.folder), "jobs/inner")
    box.git("commit", "--quiet", "-m", "submodule")
    repository = box.open()
    for tree in (repository.tree(repository.resolve("HEAD").oid), repository.work_tree()):
        assert tree["jobs/inner"].mode == "160000"
        assert not tree["jobs/inner"].is_file
    assert contents(box.open(box.folder / "jobs/inner")) == {"x": b"1"}


def test_the_config_repo_may_be_a_folder_of_a_larger_repository(box: Sandbox) -> None:
    """All paths are below the folder that holds reconciler.yaml, from wherever the command is run."""
    oid = box.commit(
        {"app/main.py": b"", "gpu/reconciler.yaml": b"kind: X\n", "gpu/jobs/team/a.yaml": b"a: 1\n", "gpux/b": b""}
    )
    box.write({"gpu/jobs/b.yaml": b"b: 2\n", "submit/new.py": b""})
    repository = box.open(box.folder / "gpu/jobs/team")
    assert repository.root == box.folder / "gpu"
    assert set(repository.tree(oid)) == {"reconciler.yaml", "jobs/team/a.yaml"}
    assert set(repository.tree(oid, ("jobs",))) == {"jobs/team/a.yaml"}
    assert set(repository.changed_since(oid)) == {"jobs/b.yaml"}
    assert set(repository.work_tree(("jobs",))) == {"jobs/team/a.yaml", "jobs/b.yaml"}


def test_names_are_data_whatever_they_hold(box: Sandbox) -> None:
    names = [
        "-rf",
        "jobs/%2f..yaml",
        "jobs/a\nb.yaml",
        "jobs/tab\there",
        'jobs/"q"',
        "jobs/*.yaml",
        "jobs/CON",
        "jobs/é",
        "JOBS/é",
    ]
    files = {name: name.encode() for name in names}
    oid = box.commit(files)
    repository = box.open()
    assert set(repository.tree(oid)) == set(names)
    assert contents(repository) == files
    assert set(repository.tree(oid, ("jobs/*.yaml",))) == {"jobs/*.yaml"}
    box.write({"jobs/*.yaml": b"edited", "jobs/another.yaml": b"new"})
    assert set(repository.changed_since(oid, ("jobs/*.yaml",))) == {"jobs/*.yaml"}
    assert repository.changed_since(oid, (":(top)",)) == {}
    box.git("reset", "--quiet", "--hard")
    (box.folder / "jobs/another.yaml").unlink()
    (box.folder / "jobs/\udcff\udcfe").write_bytes(b"not utf-8")
    assert contents(repository)["jobs/\udcff\udcfe"] == b"not utf-8"


def test_links_and_strange_files_are_told_and_never_followed(box: Sandbox, tmp_path: Path) -> None:
    secret = tmp_path / "secret.yaml"
    secret.write_text("token: hunter2")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "team.yaml").write_text("token: hunter2")
    box.commit({"jobs/a.yaml": b"a", "jobs/team/team.yaml": b"t", "jobs/pipe.yaml": b"p", "jobs/b.yaml": b"b"})
    (box.folder / "jobs/link.yaml").symlink_to(secret)
    (box.folder / "jobs/b.yaml").unlink()
    (box.folder / "jobs/b.yaml").symlink_to(secret)
    (box.folder / "jobs/team/team.yaml").unlink()
    (box.folder / "jobs/team").rmdir()
    (box.folder / "jobs/team").symlink_to(tmp_path / "outside")
    (box.folder / "jobs/pipe.yaml").unlink()
    os.mkfifo(box.folder / "jobs/pipe.yaml")
    repository = box.open()
    modes = {path: entry.mode for path, entry in repository.work_tree().items()}
    assert modes["jobs/link.yaml"] == modes["jobs/b.yaml"] == modes["jobs/team"] == "120000"
    assert modes.get("jobs/pipe.yaml", "000000") == "000000"
    assert "jobs/team/team.yaml" not in modes
    assert contents(repository) == {"jobs/a.yaml": b"a"}
    box.git("add", "jobs/link.yaml")
    box.git("commit", "--quiet", "-m", "links")
    assert box.open().tree(box.git("rev-parse", "HEAD"))["jobs/link.yaml"].mode == "120000"


def test_every_kind_of_uncommitted_change_is_seen(box: Sandbox) -> None:
    oid = box.commit(
        {"same": b"s", "edited": b"1", "staged": b"1", "both": b"1", "gone": b"1", "dropped": b"1", "kept": b"k"}
    )
    box.write(
        {
            ".gitignore": b"ignored\n",
            "ignored": b"i",
            "new": b"n",
            "edited": b"2",
            "staged": b"2",
            "both": b"2",
            "gone": None,
        }
    )
    box.git("add", "staged", "both")
    box.write({"both": b"3"})
    box.git("rm", "--quiet", "--cached", "kept")
    box.git("rm", "--quiet", "dropped")
    box.write({"added": b"a"})
    box.git("add", "added")
    repository = box.open()
    wanted = {
        "same": b"s",
        "edited": b"2",
        "staged": b"2",
        "both": b"3",
        "kept": b"k",
        "new": b"n",
        "added": b"a",
        ".gitignore": b"ignored\n",
    }
    assert contents(repository) == wanted
    assert repository.work_tree()["edited"].oid == blob_oid(b"2", "sha1")
    changed = repository.changed_since(oid)
    assert {path for path, entry in changed.items() if entry is None} == {"gone", "dropped"}
    assert changed.get("kept") in (None, repository.tree(oid)["kept"])


def test_a_change_of_the_same_size_within_the_clock_tick_is_seen(box: Sandbox) -> None:
    box.commit({"a": b"1"})
    status = (box.folder / "a").stat()
    box.git("status")
    (box.folder / "a").write_bytes(b"2")
    os.utime(box.folder / "a", ns=(status.st_atime_ns, status.st_mtime_ns))
    assert contents(box.open()) == {"a": b"2"}


def test_conflicts_show_the_file_as_it_lies_there(box: Sandbox) -> None:
    box.commit({"a": b"1\n"})
    box.git("switch", "--quiet", "-c", "side")
    box.commit({"a": b"2\n"})
    box.git("switch", "--quiet", "main")
    box.commit({"a": b"3\n"})
    box.git("merge", "side", check=False)
    assert b"<<<<<<<" in contents(box.open())["a"]


def test_the_content_of_a_file_over_the_limit_is_never_produced(box: Sandbox) -> None:
    oid = box.commit({"big": b"x" * 5000, "small": b"y"})
    box.write({"other": b"z" * 5000})
    repository = GitRepository.open(box.folder, environ=box.environ, largest_file=1000)
    tree = repository.tree(oid)
    big, small = repository.read([tree["big"].oid, tree["small"].oid])
    assert isinstance(big, OversizedContent)
    assert (big, big.size, small) == (b"", 5000, b"y")
    other = contents(repository)["other"]
    assert isinstance(other, OversizedContent)
    assert other.size == 5000


def test_git_does_not_unpack_a_file_over_the_limit(box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pack of a few kilobytes may hold a blob of gigabytes: git is not asked for its content."""
    oid = box.commit({"big": b"x" * (64 << 20)})
    box.git("gc", "--quiet")
    repository = box.open()
    entry = repository.tree(oid)["big"]
    asked: list[tuple[str, ...]] = []
    stream = command.Git.stream

    def record(git: command.Git, *arguments: str, **options: Any) -> Any:
        asked.append(arguments)
        return stream(git, *arguments, **options)

    monkeypatch.setattr(command.Git, "stream", record)
    (content,) = repository.read([entry.oid])
    assert [arguments[1] for arguments in asked] == ["--batch-check=%(objectsize)"]
    (problem,) = read("jobs/big.yaml", content).problems
    assert problem.rule == "yaml.file-size"
    assert problem.message == "the file has 64.0 MiB, the maximum is 3 MiB"


def _commit_object(box: Sandbox, committer: str) -> str:
    tree = box.git("write-tree")
    text = f"tree {tree}\nauthor {committer}\ncommitter {committer}\n\nbroken\n"
    return box.git("hash-object", "-t", "commit", "-w", "--literally", "--stdin", data=text.encode())


def _impossible_zone(box: Sandbox) -> None:
    box.git("update-ref", "refs/heads/main", _commit_object(box, "A <a@example.com> 1750000000 +9999"))


def _damaged_reference(box: Sandbox) -> None:
    (box.folder / ".git/refs/heads/main").write_text("garbage\n")


def _missing_commit(box: Sandbox) -> None:
    (box.folder / ".git/refs/heads/main").write_text("1" * 40 + "\n")


def _missing_packed_commit(box: Sandbox) -> None:
    (box.folder / ".git/refs/heads/main").unlink()
    (box.folder / ".git/packed-refs").write_text(
        "# pack-refs with: peeled fully-peeled sorted\n" + "1" * 40 + " refs/heads/main\n"
    )


def _detached_at_nothing(box: Sandbox) -> None:
    (box.folder / ".git/HEAD").write_text("1" * 40 + "\n")


@pytest.mark.parametrize(
    "damage", [_impossible_zone, _damaged_reference, _missing_commit, _missing_packed_commit, _detached_at_nothing]
)
def test_a_head_that_cannot_be_read_is_an_error(box: Sandbox, damage: Callable[[Sandbox], None]) -> None:
    """Without a base nothing looks deleted: only a branch without any commit counts as empty."""
    box.commit({"a": b"1"})
    damage(box)
    with pytest.raises(RepositoryError) as caught:
        resolve_head(box.open(), "")
    assert caught.value.exit_code == 6


def test_only_an_unborn_branch_is_empty(box: Sandbox) -> None:
    assert resolve_head(box.open(), "").tip is None
    box.commit({"a": b"1"})
    box.git("pack-refs", "--all")
    assert not box.open().is_unborn()
    box.git("switch", "--quiet", "--orphan", "new")
    assert resolve_head(box.open(), "").tip is None


CANARY = "#!/bin/sh\ntouch {canary}\ncat\n"


def plant(box: Sandbox, canary: Path) -> None:
    """Make every program that a configuration can name touch a file."""
    script = box.folder.parent / "evil.sh"
    script.write_text(CANARY.format(canary=canary))
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    hooks = box.folder / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for hook in (
        "pre-commit",
        "post-commit",
        "reference-transaction",
        "post-index-change",
        "post-checkout",
        "fsmonitor-watchman",
    ):
        shutil.copy(script, hooks / hook)
    for name in (
        "core.fsmonitor", "core.sshCommand", "core.pager", "core.askPass", "core.editor", "diff.external", "credential.helper",
        "filter.evil.clean", "filter.evil.smudge", "filter.evil.process", "diff.evil.textconv", "diff.evil.command", "gpg.program",
        "core.alternateRefsCommand", "alias.ls-tree", "merge.evil.driver", "uploadpack.packObjectsHook",
    ):  # fmt: skip
        box.git("config", name, str(script))
    for name in ("filter.evil.required", "commit.gpgSign", "log.showSignature", "core.untrackedCache"):
        box.git("config", name, "true")
    (box.folder / ".git/info/attributes").write_text("* filter=evil diff=evil merge=evil\n")


def test_no_program_of_a_hostile_repository_is_run(box: Sandbox, tmp_path: Path) -> None:
    """Hooks, fsmonitor, filters, textconv, pagers, signing programs: none of them runs while reading."""
    oid = box.commit({"jobs/a.yaml": b"a: 1\n", ".gitattributes": b"* filter=evil diff=evil\n"})
    canary = tmp_path / "canary"
    plant(box, canary)
    (box.folder / "jobs/a.yaml").write_bytes(b"a: 2\n")
    box.write({"jobs/b.yaml": b"b: 2\n"})
    canary.unlink(missing_ok=True)
    repository = box.open()
    assert repository.resolve("HEAD").oid == oid
    assert contents(repository)["jobs/a.yaml"] == b"a: 2\n"
    repository.tree(oid)
    repository.changed(oid, oid)
    repository.merge_base(oid, oid)
    repository.last_change(oid, "jobs")
    repository.upstream_default()
    repository.head_branch()
    assert not canary.exists()
    box.git("status", check=False)
    assert canary.exists()  # the plant bites whoever is not careful


def test_a_file_behind_a_lazy_fetch_is_missing_and_not_fetched(box: Sandbox, tmp_path: Path) -> None:
    oid = box.commit({"a": b"1"})
    box.git("config", "uploadpack.allowFilter", "true")
    clone = Sandbox(tmp_path / "clone", box.environ)
    box.git("clone", "--quiet", "--no-checkout", "--filter=blob:none", f"file://{box.folder}", str(clone.folder))
    canary = tmp_path / "canary"
    script = tmp_path / "evil.sh"
    script.write_text(CANARY.format(canary=canary))
    script.chmod(0o755)
    clone.git("config", "remote.origin.url", f"ext::{script} %S")
    clone.git("config", "remote.origin.uploadpack", str(script))
    clone.git("config", "protocol.ext.allow", "always")
    clone.git("config", "protocol.file.allow", "always")
    for url in (f"ext::{script} %S", f"file://{box.folder}", str(box.folder)):
        clone.git("config", "remote.origin.url", url)
        repository = clone.open()
        with pytest.raises(RepositoryError, match=r"missing|cat-file") as caught:
            list(repository.read([repository.tree(oid)["a"].oid]))
        assert caught.value.hint
    assert not canary.exists()


def test_a_working_tree_elsewhere_is_refused(box: Sandbox, tmp_path: Path) -> None:
    """core.worktree in a hostile configuration could make us read, and write, any folder."""
    box.commit({"a": b"1"})
    other = Sandbox.init(tmp_path / "victim")
    other.commit({"secret": b"1"})
    for target in (str(other.folder), "/", str(tmp_path)):
        box.git("config", "core.worktree", target)
        with pytest.raises(RepositoryError) as caught:
            box.open()
        assert "core.worktree" in caught.value.hint


def test_a_bare_repository_is_refused_with_a_hint(tmp_path: Path) -> None:
    box = Sandbox.init(tmp_path / "repo")
    box.git("config", "core.bare", "true")
    with pytest.raises(RepositoryError) as caught:
        box.open()
    assert "clone" in caught.value.hint


def test_git_variables_of_the_surroundings_do_not_redirect(box: Sandbox, tmp_path: Path) -> None:
    """Inside a hook, or by mistake, GIT_DIR and its kind point somewhere else."""
    oid = box.commit({"a": b"1"})
    other = Sandbox.init(tmp_path / "other")
    other.commit({"b": b"2"})
    box.environ |= {
        "GIT_DIR": str(other.folder / ".git"), "GIT_WORK_TREE": str(other.folder), "GIT_INDEX_FILE": "/nonexistent",
        "GIT_OBJECT_DIRECTORY": "/nonexistent", "GIT_ALTERNATE_OBJECT_DIRECTORIES": "/nonexistent", "GIT_NAMESPACE": "x",
        "GIT_CONFIG_PARAMETERS": "'core.bare=true'", "GIT_TRACE": str(tmp_path / "trace"), "GIT_TRACE2": str(tmp_path / "trace"),
    }  # fmt: skip
    repository = box.open()
    assert repository.resolve("HEAD").oid == oid
    assert contents(repository) == {"a": b"1"}
    assert not (tmp_path / "trace").exists()


@pytest.mark.parametrize(
    "revision",
    [
        "",
        "-h",
        "--all",
        "--output=x",
        "a b",
        "HEAD\nHEAD",
        "HEAD\0",
        "\tHEAD",
        "nowhere",
        "HEAD~9",
        "HEAD^{tree}x",
        "@{u}",
    ],
)
def test_what_names_no_commit_is_an_error(box: Sandbox, revision: str) -> None:
    box.commit({"a": b"1"})
    with pytest.raises(RepositoryError) as caught:
        box.open().resolve(revision)
    assert caught.value.hint
    assert "\n" not in str(caught.value)


def test_a_tag_and_a_branch_of_one_name_are_refused(box: Sandbox) -> None:
    first = box.commit({"a": b"1"})
    box.git("tag", "v1")
    second = box.commit({"a": b"2"})
    box.git("branch", "v1")
    repository = box.open()
    for revision in ("v1", "v1~0", "v1^{commit}"):
        with pytest.raises(RepositoryError, match="both") as caught:
            repository.resolve(revision)
        assert "refs/" in caught.value.hint
    assert repository.resolve("refs/tags/v1").oid == first
    assert repository.resolve("refs/heads/v1").oid == second


def test_refs_that_look_like_options_or_ids_do_no_harm(box: Sandbox) -> None:
    oid = box.commit({"a": b"1"})
    refs = box.folder / ".git/refs/heads"
    (refs / "--upload-pack=touch x").write_text(oid + "\n")
    (refs / "-x").write_text(oid + "\n")
    (refs / ("a" * 40)).write_text(oid + "\n")
    repository = box.open()
    assert repository.resolve("HEAD").oid == oid
    assert repository.resolve("refs/heads/-x").oid == oid
    with pytest.raises(RepositoryError):
        repository.resolve("-x")
    with pytest.raises(RepositoryError):
        repository.resolve("a" * 40)  # an id, not the branch


def test_annotated_tags_and_short_ids_lead_to_their_commit(box: Sandbox) -> None:
    oid = box.commit({"a": b"1"}, "First line\n\nmore")
    box.git("tag", "-a", "v1", "-m", "tag")
    repository = box.open()
    commit = repository.resolve("v1")
    assert (commit.oid, commit.subject, commit.parents) == (oid, "First line", ())
    assert commit.committed_at == "2025-06-15T17:06:40+02:00"
    assert repository.resolve(oid[:10]).oid == oid
    with pytest.raises(RepositoryError):
        repository.resolve("HEAD:a")


def test_replaced_objects_are_not_believed(box: Sandbox) -> None:
    first = box.commit({"a": b"1"})
    second = box.commit({"a": b"2"})
    box.git("replace", second, first)
    repository = box.open()
    commit = repository.resolve("HEAD")
    assert commit.parents == (first,)
    assert list(repository.read([repository.tree(second)["a"].oid])) == [b"2"]


def object_file(box: Sandbox, oid: str) -> Path:
    return box.folder / ".git/objects" / oid[:2] / oid[2:]


@pytest.mark.parametrize("damage", ["missing", "empty", "garbage", "cut"])
@pytest.mark.parametrize("kind", ["blob", "tree", "commit"])
def test_damaged_objects_are_named(box: Sandbox, damage: str, kind: str) -> None:
    oid = box.commit({"jobs/a": os.urandom(3000).hex().encode(), "jobs/b": b"2"})
    victim = {"blob": f"{oid}:jobs/a", "tree": f"{oid}:jobs", "commit": oid}[kind]
    path = object_file(box, box.git("rev-parse", victim))
    data = path.read_bytes()
    path.chmod(0o600)
    path.unlink()
    if damage != "missing":
        path.write_bytes({"empty": b"", "garbage": b"garbage" * 100, "cut": data[: len(data) // 2]}[damage])
    repository = box.open()
    with pytest.raises(RepositoryError) as caught:
        list(repository.read([entry.oid for entry in repository.tree(repository.resolve("HEAD").oid).values()]))
    assert "\n" not in str(caught.value)
    assert caught.value.hint


def test_an_object_of_another_kind_is_no_file(box: Sandbox) -> None:
    oid = box.commit({"a": b"1"})
    with pytest.raises(RepositoryError, match="not a file"):
        list(box.open().read([oid]))
    with pytest.raises(RepositoryError, match="not an object id"):
        list(box.open().read(["HEAD"]))


def children() -> set[str]:
    """Process ids of this process's children: other tests may have servers running."""
    answer = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(os.getpid())], capture_output=True, text=True, check=False
    )
    return {pid for pid in answer.stdout.split() if Path(f"/proc/{pid}/exe").exists()}


def test_a_reader_that_stops_early_leaves_no_process(box: Sandbox) -> None:
    oid = box.commit({f"f{number}": os.urandom(20000) for number in range(50)})
    repository = box.open()
    others = children()
    reading = repository.read([entry.oid for entry in repository.tree(oid).values()])
    assert len(next(reading)) == 20000
    assert children() - others
    reading.close()  # type: ignore[attr-defined]  # it is a generator
    assert not children() - others


def test_objects_of_alternates_are_found(box: Sandbox, tmp_path: Path) -> None:
    oid = box.commit({"a": b"1"})
    clone = Sandbox(tmp_path / "clone", box.environ)
    box.git("clone", "--quiet", "--shared", str(box.folder), str(clone.folder))
    repository = clone.open()
    assert list(repository.read([repository.tree(oid)["a"].oid])) == [b"1"]
    shutil.rmtree(box.folder / ".git/objects")
    with pytest.raises(RepositoryError):
        clone.open().resolve("HEAD")


@pytest.mark.parametrize("date", ["99999999999999 +0000", "1750000000 +9999", "x"])
def test_a_commit_with_an_impossible_date_is_refused(box: Sandbox, date: str) -> None:
    box.commit({"a": b"1"})
    raw = box.git("cat-file", "commit", "HEAD").replace("1750000000 +0200", date)
    oid = box.git("hash-object", "--literally", "-t", "commit", "-w", "--stdin", data=raw.encode() + b"\n")
    with pytest.raises(RepositoryError):
        box.open().resolve(oid)


def test_the_users_own_ignores_count_as_they_do_in_git_status(box: Sandbox) -> None:
    box.commit({"a": b"1"})
    home = Path(box.environ["HOME"])
    (home / "ignores").write_text("*.swp\n")
    (home / ".gitconfig").write_text("[core]\nexcludesFile = ~/ignores\n")
    box.write({"jobs/.a.yaml.swp": b"", "jobs/a.yaml": b"a"})
    assert set(contents(box.open())) == {"a", "jobs/a.yaml"}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to somebody else")
def test_another_users_repository_needs_safe_directory(box: Sandbox) -> None:
    """As in containers of CI, where the checkout belongs to another user: what the user trusts, we trust."""
    oid = box.commit({"a": b"1"})
    os.chown(box.folder, 12345, 12345)
    os.chown(box.folder / ".git", 12345, 12345)
    with pytest.raises(RepositoryError) as caught:
        box.open()
    assert "safe.directory" in caught.value.hint
    (Path(box.environ["HOME"]) / ".gitconfig").write_text(f"[safe]\n\tdirectory = {box.folder}\n")
    assert box.open().resolve("HEAD").oid == oid


def test_a_git_that_hangs_is_ended(box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    box.commit({"a": b"1"})
    os.mkfifo(box.folder / ".gitignore")
    repository = box.open()
    monkeypatch.setattr(command, "DEADLINE_SECONDS", 0.5)
    with pytest.raises(RepositoryError, match="did not finish within"):
        repository.work_tree()


def test_a_listing_without_end_is_refused(box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    oid = box.commit({f"jobs/{number}": b"1" for number in range(100)})
    repository = box.open()
    monkeypatch.setattr(command, "LISTING_BYTES", 1000)
    with pytest.raises(RepositoryError, match="too many files"):
        repository.tree(oid)


def test_the_root_may_be_asked_for_by_name(box: Sandbox) -> None:
    oid = box.commit({"reconciler.yaml": b"1", "jobs/a": b"2"})
    repository = box.open()
    for paths in ((".",), ("",), (), ("jobs", ".")):
        assert set(repository.tree(oid, paths)) == set(repository.work_tree(paths)) == {"reconciler.yaml", "jobs/a"}
    with pytest.raises(RepositoryError):
        repository.work_tree(("../..",))


NAMES = st.text(st.sampled_from("ab.-*?[\\\"'\n\t ~:é\udcff%"), min_size=1, max_size=6).filter(
    lambda name: name not in {".", ".."}
)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(files=st.dictionaries(st.tuples(NAMES, NAMES).map("/".join), st.binary(max_size=50), max_size=8))
def test_any_files_come_back_as_they_were(tmp_path: Path, files: dict[str, bytes]) -> None:
    """From the working tree, from a commit of git's own, and from one of ours."""
    shutil.rmtree(tmp_path / "any", ignore_errors=True)
    box = Sandbox.init(tmp_path / "any" / "repo")
    head = box.commit({"start": b""})
    ours = box.open().commit(Draft(parent=head, files=files, message="m", branch="ours"))
    box.write(files)
    assert contents(box.open()) == files | {"start": b""}
    theirs = box.commit({})
    assert box.git("rev-parse", f"{theirs}^{{tree}}") == box.git("rev-parse", f"{ours or head}^{{tree}}")
    assert contents(box.open()) == files | {"start": b""}


def test_files_are_opened_without_following_links_even_if_git_was_deceived(tmp_path: Path) -> None:
    """Somebody may swap a folder for a link between git's look at it and ours."""
    top, outside = tmp_path / "top", tmp_path / "outside"
    top.mkdir()
    outside.mkdir()
    (outside / "a").write_bytes(b"secret")
    (top / "jobs").symlink_to(outside)
    (top / "file").symlink_to(outside / "a")
    files = WorkTree(top=top)
    assert files.read("jobs/a") is None
    assert files.read("file") == CheckoutFile(mode="120000")
    files.remove("jobs/a")
    for path in ("jobs/a", "jobs/new", "jobs/deep/new"):
        assert files.blocked(path, ())
        with pytest.raises(RepositoryError, match="cannot be written"):
            files.write(path, b"x")
    files.write("file", b"mine")  # takes the place of the link
    assert (top / "file").read_bytes() == b"mine"
    assert [(path.name, path.read_bytes()) for path in outside.iterdir()] == [("a", b"secret")]


def test_a_folder_is_part_of_the_identity_and_a_cut_history_has_none(tmp_path: Path) -> None:
    """F-142: two config repositories in one Git repository differ; a shallow clone does not know what it is."""
    box = Sandbox.init(tmp_path / "top")
    first = box.commit({"a/reconciler.yaml": b"", "b/reconciler.yaml": b""})
    last = box.commit({"a/jobs.yaml": b"1"})
    assert [_open(tmp_path / "top" / name).identity(last) for name in ("a", "b")] == [f"{first}:a", f"{first}:b"]
    box.git("clone", "--quiet", "--depth", "1", f"file://{tmp_path / 'top'}", str(tmp_path / "shallow"))
    assert _open(tmp_path / "shallow").identity(last) == ""


def _open(folder: Path) -> GitRepository:
    return GitRepository.open(folder, environ=dict(os.environ))


def test_files_of_a_folder_that_cannot_be_opened_are_not_deleted(box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """Git lists what it may not look at as deleted: a plan would delete the jobs of an unreadable folder."""
    box.commit({"jobs/team-a/a.yaml": b"a: 1\n", "jobs/b.yaml": b"b: 1\n"})
    (box.folder / "jobs/team-a/a.yaml").unlink()
    (box.folder / "jobs/b.yaml").unlink()
    assert contents(box.open()) == {}

    real = os.open

    def refused(path: Any, *arguments: Any, **options: Any) -> int:
        if path == "team-a":
            raise PermissionError(13, "Permission denied")
        return real(path, *arguments, **options)

    monkeypatch.setattr(os, "open", refused)
    with pytest.raises(RepositoryError, match=r"jobs/team-a/a\.yaml: cannot be read: Permission denied"):
        box.open().work_tree()
