"""`commit` on real repositories: what it leaves alone, what it refuses, and what a crash leaves behind."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from reconciler.errors import ConfigError, RepositoryError, StalePlan, UnsafePlan
from reconciler.plan.outputs.commit import Committed, commit
from reconciler.repo.git import GitRepository
from reconciler.repo.git.commit import CommitJournal
from tests.fakes.gitrepo import Sandbox
from tests.processes import living

FIRST: dict[str, bytes | None] = {
    "jobs/a.yaml": b"a\n", "jobs/b.yaml": b"b\n", "rendered/c/a.yaml": b"ra\n", "rendered/c/gone/x.yaml": b"rx\n", "rendered/c/same.yaml": b"rs\n",
}  # fmt: skip
FILES: dict[str, bytes | None] = {
    "rendered/c/a.yaml": b"new\n", "rendered/c/gone/x.yaml": None, "rendered/c/same.yaml": b"rs\n", "rendered/d/e/new.yaml": b"n\n",
}  # fmt: skip


@pytest.fixture
def box(tmp_path: Path) -> Sandbox:
    box = Sandbox.init(tmp_path / "repo")
    box.commit(FIRST)
    return box


def render(
    box: Sandbox, files: dict[str, bytes | None] = FILES, branch: str | None = None, head: str = ""
) -> Committed | None:
    repository = box.open()
    expected = head or repository.resolve("HEAD").oid
    return commit(
        repository,
        files=files,
        message="Render",
        trailers={"Reconciler-Plan-Digest": "1"},
        branch=branch,
        expected_head=expected,
    )


def status(box: Sandbox) -> list[str]:
    return box.git("status", "--porcelain=v1", "--untracked-files=all").splitlines()


def tree(box: Sandbox, revision: str = "HEAD") -> dict[str, bytes]:
    names = box.git("ls-tree", "-r", "-z", "--name-only", revision).split("\0")
    return {name: box.git("show", f"{revision}:{name}").encode() + b"\n" for name in names if name}


AFTER = {
    "jobs/a.yaml": b"a\n",
    "jobs/b.yaml": b"b\n",
    "rendered/c/a.yaml": b"new\n",
    "rendered/c/same.yaml": b"rs\n",
    "rendered/d/e/new.yaml": b"n\n",
}


def test_git_status_is_clean_and_the_users_edits_are_as_before(box: Sandbox) -> None:
    box.write({"jobs/a.yaml": b"staged\n", "jobs/new.yaml": b"added\n", "rendered/c/same.yaml": b"mine\n"})
    box.git("add", "jobs/a.yaml", "jobs/new.yaml")
    box.write({"jobs/a.yaml": b"staged and edited\n", "untracked": b"u\n"})
    box.git("rm", "--quiet", "--cached", "jobs/b.yaml")
    before = status(box)
    index = box.git("ls-files", "--stage", "jobs")
    assert render(box)
    assert status(box) == before
    assert box.git("ls-files", "--stage", "jobs") == index
    assert tree(box) == AFTER
    assert (box.folder / "jobs/a.yaml").read_bytes() == b"staged and edited\n"
    assert (box.folder / "rendered/c/a.yaml").read_bytes() == b"new\n"
    assert not (box.folder / "rendered/c/gone").exists()
    assert not list((box.folder / "rendered").rglob(".reconciler*"))
    assert box.git("fsck", "--strict") == ""
    assert "refs/reconciler" not in box.git("for-each-ref")
    assert (
        box.git("log", "-1", "--format=%an <%ae> %ad|%cd", "--date=raw")
        == "Ada <ada@example.com> 1750000000 +0200|1750000000 +0200"
    )


def test_the_index_knows_the_new_files_by_their_times(box: Sandbox) -> None:
    """Or else git, and we, would read every rendered file again on the next look."""
    render(box)
    assert box.git("diff-files", "--name-only") == ""


def test_the_same_commit_has_the_same_id(box: Sandbox, tmp_path: Path) -> None:
    shutil.copytree(box.folder, tmp_path / "again", symlinks=True)
    again = Sandbox(tmp_path / "again", box.environ | {"TZ": "Asia/Tokyo", "LC_ALL": "de_DE.UTF-8"})
    assert render(box) == render(again)


def test_sha256_worktrees_and_folders_of_a_larger_repository(tmp_path: Path) -> None:
    box = Sandbox.init(tmp_path / "repo", "--object-format=sha256")
    box.commit({f"gpu/{path}": data for path, data in FIRST.items()} | {"gpu/reconciler.yaml": b"x\n", "app": b"y\n"})
    box.git("worktree", "add", "--quiet", "-b", "other", str(tmp_path / "linked"))
    linked = Sandbox(tmp_path / "linked" / "gpu" / "jobs", box.environ)  # found from below
    done = render(linked)
    assert done is not None
    assert (done.branch, len(done.oid)) == ("other", 64)
    assert status(linked) == status(box) == []
    assert set(tree(box, "other")) == {f"gpu/{path}" for path in AFTER} | {"gpu/reconciler.yaml", "app"}
    with pytest.raises(UnsafePlan, match="checked out"):
        render(box, branch="other", files={"rendered/z": b"z"})


def test_a_shallow_clone_commits(box: Sandbox, tmp_path: Path) -> None:
    box.commit({"jobs/c.yaml": b"c\n"})
    box.git("clone", "--quiet", "--depth=1", f"file://{box.folder}", str(tmp_path / "clone"))
    clone = Sandbox(tmp_path / "clone", box.environ)
    assert render(clone)
    assert status(clone) == []
    assert render(clone, branch="other", files={"rendered/x": b"x\n"})


def test_names_are_data(box: Sandbox) -> None:
    files: dict[str, bytes | None] = {
        f"rendered/{name}": b"x\n" for name in ("a\nb", 'q"q', "back\\slash", "-rf", "é", "\udcff", "*", " ", "a\tb")
    }
    assert render(box, files)
    assert status(box) == []
    assert set(box.open().work_tree(("rendered",))) >= set(files)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/etc/x",
        "../x",
        "rendered/../../x",
        "rendered//x",
        ".git/config",
        "rendered/.GIT/x",
        "rendered/x/",
        "rendered/\0",
        "./x",
    ],
)
def test_paths_that_leave_the_tree_are_refused(box: Sandbox, path: str) -> None:
    for branch in (None, "other"):
        with pytest.raises(RepositoryError):
            render(box, {path: b"x"}, branch)
    assert status(box) == []


def test_executables_stay_so_and_new_files_are_plain(box: Sandbox) -> None:
    (box.folder / "rendered/c/a.yaml").chmod(0o755)
    box.git("commit", "--quiet", "-am", "mode")
    render(box)
    assert box.git("ls-tree", "HEAD", "rendered/c/a.yaml").startswith("100755")
    assert status(box) == []


@pytest.mark.parametrize(
    "kind",
    [
        "edited",
        "staged",
        "staged then undone",
        "deleted",
        "new",
        "ignored",
        "folder",
        "link",
        "linked folder",
        "file in the way",
    ],
)
def test_whatever_would_be_lost_is_refused(box: Sandbox, tmp_path: Path, kind: str) -> None:
    target = box.folder / "rendered/c/a.yaml"
    (tmp_path / "outside").mkdir()
    if kind in {"edited", "staged", "staged then undone"}:
        target.write_bytes(b"mine\n")
        if kind != "edited":
            box.git("add", "--all")
        if kind == "staged then undone":
            target.write_bytes(b"ra\n")
    elif kind == "deleted":
        target.unlink()
    elif kind in {"new", "ignored"}:
        box.write({"rendered/d/e/new.yaml": b"mine\n"})
        (box.folder / ".git/info/exclude").write_text("rendered/d\n" if kind == "ignored" else "")
    elif kind == "folder":
        box.write({"rendered/d/e/new.yaml/mine": b"mine\n"})
    elif kind == "link":
        target.unlink()
        target.symlink_to(tmp_path / "outside")
    elif kind == "linked folder":
        (box.folder / "rendered/d").symlink_to(tmp_path / "outside")
    else:
        box.write({"rendered/d": b"mine\n"})
    before, index, head = status(box), box.git("ls-files", "--stage"), box.git("rev-parse", "HEAD")
    with pytest.raises(UnsafePlan, match="would be lost") as caught:
        render(box)
    assert "rendered/" in caught.value.message
    assert "git" in caught.value.hint
    assert (status(box), box.git("ls-files", "--stage"), box.git("rev-parse", "HEAD")) == (before, index, head)
    assert not list((tmp_path / "outside").iterdir())
    assert render(box, branch="elsewhere")  # there it does no harm
    assert status(box) == before


def test_a_file_and_a_folder_cannot_share_a_name(box: Sandbox) -> None:
    for files in ({"rendered/c": b"x"}, {"rendered/c/a.yaml/x": b"x"}, {"rendered/z": b"x", "rendered/z/y": b"x"}):
        with pytest.raises(UnsafePlan, match="both a file and a folder"):
            render(box, dict(files))
    assert render(box, {"rendered/c/a.yaml": None, "rendered/c/a.yaml/x": b"x\n"})
    assert status(box) == []


def test_a_merge_under_way_and_a_locked_index_are_refused(box: Sandbox) -> None:
    (box.folder / ".git/index.lock").write_bytes(b"")
    with pytest.raises(RepositoryError, match="locked"):
        render(box)
    (box.folder / ".git/index.lock").unlink()
    (box.folder / ".git/MERGE_HEAD").write_text(box.git("rev-parse", "HEAD") + "\n")
    with pytest.raises(UnsafePlan, match="in progress"):
        render(box)


def test_nobody_is_invented_as_author(box: Sandbox) -> None:
    box.environ = {
        name: value for name, value in box.environ.items() if not name.startswith(("GIT_AUTHOR", "GIT_COMMITTER"))
    }
    with pytest.raises(ConfigError) as caught:
        render(box)
    assert "user.name" in caught.value.hint
    (Path(box.environ["HOME"]) / ".gitconfig").write_text("[user]\n\tname = Grace \xe9\n\temail = g@example.com\n")
    assert render(box)
    assert box.git("log", "-1", "--format=%an %ae") == "Grace \xe9 g@example.com"
    box.environ["GIT_COMMITTER_DATE"] = "yesterday-ish??"
    with pytest.raises(ConfigError):
        render(box, {"rendered/x": b"x\n"})


def test_no_program_of_a_hostile_repository_is_run(box: Sandbox, tmp_path: Path) -> None:
    script = tmp_path / "evil.sh"
    script.write_text(f"#!/bin/sh\ntouch {tmp_path / 'canary'}\ncat\n")
    script.chmod(0o755)
    for hook in (
        "pre-commit",
        "post-commit",
        "reference-transaction",
        "post-index-change",
        "commit-msg",
        "prepare-commit-msg",
        "post-rewrite",
    ):
        shutil.copy(script, box.folder / ".git/hooks" / hook)
    for name in (
        "core.fsmonitor",
        "filter.evil.clean",
        "filter.evil.smudge",
        "filter.evil.process",
        "gpg.program",
        "core.editor",
        "gc.recentObjectsHook",
    ):
        box.git("config", name, str(script))
    for name in ("filter.evil.required", "commit.gpgSign"):
        box.git("config", name, "true")
    (box.folder / ".git/info/attributes").write_text("* filter=evil\n")
    (tmp_path / "canary").unlink(missing_ok=True)
    assert render(box)
    assert render(box, {"rendered/y": b"y\n"}, "branch")
    assert not (tmp_path / "canary").exists()


def test_two_at_once_make_one_commit(box: Sandbox) -> None:
    """The second finds the lock, the moved branch, or nothing left to do; never a damaged repository."""
    head = box.git("rev-parse", "HEAD")
    running = [subprocess.Popen(child(box, head), env=own(box), stderr=subprocess.PIPE) for _ in range(3)]
    errors = [process.communicate()[1] for process in running]
    assert 0 in [process.returncode for process in running], errors
    assert box.git("rev-list", "--count", f"{head}..HEAD") == "1"
    assert status(box) == []
    assert tree(box) == AFTER


def test_a_ref_that_moves_meanwhile_is_not_overwritten(box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between looking and moving: what another git did there stays, and so do all files."""
    repository = box.open()
    head = repository.resolve("HEAD").oid
    original = os.fsync
    moved: list[str] = []

    def meanwhile(descriptor: int) -> None:  # the journal is written: the branch is about to move
        original(descriptor)
        moved.append(box.git("commit-tree", "-p", head, "-m", "theirs", f"{head}^{{tree}}"))
        box.git("update-ref", "refs/heads/main", moved[0])

    monkeypatch.setattr(os, "fsync", meanwhile)
    with pytest.raises(StalePlan):
        commit(repository, files=FILES, message="m", trailers={}, expected_head=head)
    assert box.git("rev-parse", "HEAD") == moved[0]
    assert status(box) == []
    monkeypatch.undo()
    assert render(box)


CHILD = """
import json, os, sys
from pathlib import Path
from reconciler.repo.git import GitRepository
from reconciler.plan.outputs.commit import commit

folder, head, files = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
repository = GitRepository.open(Path(folder), environ=os.environ)
print("ready", flush=True)
contents = {path: None if text is None else text.encode() for path, text in files.items()}
commit(repository, files=contents, message="Render", trailers={"Reconciler-Plan-Digest": "1"}, expected_head=head)
"""


def child(box: Sandbox, head: str) -> list[str]:
    files = json.dumps({path: None if data is None else data.decode() for path, data in FILES.items()})
    return [sys.executable, "-c", CHILD, str(box.folder), head, files]


def killed_before(stop: int, box: Sandbox, head: str, branch: str = "") -> int:
    """Commit in a forked process that is killed before this step; return its exit code."""
    process = os.fork()
    if process:
        return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    code = 1
    try:
        _die_before(stop)
        render(box, branch=branch or None, head=head)
        code = 0
    finally:
        os._exit(code)


def _die_before(stop: int) -> None:
    step = 0

    def count(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal step
        acts = event in {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "subprocess.Popen", "fcntl.flock"}
        flags = arguments[2] if event == "open" and isinstance(arguments[2], int) else 0
        nameless = flags & os.O_TMPFILE == os.O_TMPFILE  # vanishes with the process
        if acts or (flags & (os.O_WRONLY | os.O_RDWR) and not nameless):
            step += 1
            if step == stop:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)


def own(box: Sandbox) -> dict[str, str]:
    return box.environ | {"PYTHONPATH": str(Path(__file__).parents[3])}


def copy(box: Sandbox, folder: Path) -> Sandbox:
    shutil.copytree(box.folder, folder, symlinks=True)
    return Sandbox(folder, box.environ)


@pytest.mark.parametrize("branch", ["", "render"])
def test_killed_before_every_single_step_it_is_as_before_or_done(box: Sandbox, tmp_path: Path, branch: str) -> None:
    """SIGKILL before every process that is started and every file that is opened, renamed or removed."""
    box.write({"jobs/a.yaml": b"staged\n"})
    box.git("add", "jobs/a.yaml")
    box.write({"jobs/a.yaml": b"edited\n", "untracked": b"u\n"})
    head, before = box.git("rev-parse", "HEAD"), status(box)
    outcomes, trees, stop = set(), set(), 0
    while True:
        stop += 1
        again = copy(box, tmp_path / f"{stop}")
        code = killed_before(stop, again, head, branch)
        assert code in (0, -signal.SIGKILL)
        ref = f"refs/heads/{branch or 'main'}"
        now = again.git("rev-parse", "--verify", "--quiet", ref, check=False)
        outcomes.add(now)
        assert now in (("" if branch else head), now if again.git("rev-parse", f"{now}^", check=False) == head else "-")
        assert again.git("fsck", "--strict", "--no-dangling") == ""
        assert (again.folder / "jobs/a.yaml").read_bytes() == b"edited\n"
        assert again.git("show", ":jobs/a.yaml") == "staged"
        render(again, branch=branch or None)  # the next run
        assert status(again) == before
        trees.add(again.git("rev-parse", f"{ref}^{{tree}}"))
        assert again.git("rev-list", "--count", f"{head}..{ref}") == "1"
        assert not list((again.folder / "rendered").rglob(".reconciler*"))
        assert [path.name for path in (again.folder / ".git/reconciler").iterdir()] == ["lock"]
        if code == 0:
            break
        shutil.rmtree(again.folder)
    assert (len(trees), tree(again, ref)) == (1, AFTER)
    assert len(outcomes) == 2  # both sides of the moment were seen
    assert stop > (10 if branch else 30)


@pytest.mark.parametrize("turn", range(12))
def test_killed_together_with_git_it_is_as_before_or_done(box: Sandbox, turn: int) -> None:
    """As when the machine stops: git may leave a lock. The next run names it if it needs it; without it, it finishes."""
    head = box.git("rev-parse", "HEAD")
    box.write({"jobs/a.yaml": b"edited\n"})
    running = subprocess.Popen(child(box, head), env=own(box), start_new_session=True, stdout=subprocess.PIPE)
    assert running.stdout is not None
    assert running.stdout.readline() == b"ready\n"
    with suppress(subprocess.TimeoutExpired):
        running.wait(turn * 0.006)
    with suppress(ProcessLookupError):
        os.killpg(running.pid, signal.SIGKILL)
    running.communicate()
    while living(running.pid):  # git may finish a system call
        time.sleep(0.01)
    locks = list((box.folder / ".git").rglob("*.lock"))
    # The lock of HEAD outlives the change of its branch by a moment; the run after that changes no branch.
    is_needed = box.git("rev-parse", "HEAD") == head or any(lock.name == "index.lock" for lock in locks)
    if locks and is_needed:
        with pytest.raises(RepositoryError, match="lock") as caught:
            render(box)
        assert "lock" in caught.value.hint
    for lock in locks:
        lock.unlink()
    assert box.git("fsck", "--strict", "--no-dangling") == ""
    assert box.git("rev-list", "--count", f"{head}..HEAD") in ("0", "1")
    render(box)
    assert status(box) == [" M jobs/a.yaml"]
    assert tree(box) == AFTER
    assert box.git("rev-list", "--count", f"{head}..HEAD") == "1"


def test_a_lock_that_is_left_when_only_file_times_are_missing_is_named(box: Sandbox, tmp_path: Path) -> None:
    """Nothing is left to be staged, so the refresh of the index is the first to meet the lock."""
    head = box.git("rev-parse", "HEAD")
    crashed = crash(box, tmp_path, until=lambda again: status(again) == [] and again.git("rev-parse", "HEAD") != head)
    os.utime(crashed.folder / "rendered/c/a.yaml", (1, 1))
    lock = crashed.folder / ".git/index.lock"
    lock.touch()
    with pytest.raises(RepositoryError, match=r"index\.lock") as caught:
        render(crashed)
    assert "lock" in caught.value.hint
    lock.unlink()
    assert render(crashed) is None
    assert status(crashed) == []


def crash(box: Sandbox, folder: Path, *, until: Callable[[Sandbox], bool]) -> Sandbox:
    """Let a commit die at ever later steps, each time in a fresh copy, until something is to be seen there."""
    head = box.git("rev-parse", "HEAD")
    for stop in range(5, 200):
        again = copy(box, folder / str(stop))
        assert killed_before(stop, again, head) == -signal.SIGKILL
        if until(again):
            return again
    raise AssertionError


def test_after_a_crash_what_the_user_did_since_is_kept(box: Sandbox, tmp_path: Path) -> None:
    """The branch has moved, no file has; then the user edits one of them, and the rest is finished."""
    head = box.git("rev-parse", "HEAD")
    crashed = crash(box, tmp_path, until=lambda again: again.git("rev-parse", "HEAD") != head)
    (crashed.folder / "rendered/c/a.yaml").write_bytes(b"mine\n")
    assert render(crashed) is None
    assert status(crashed) == [" M rendered/c/a.yaml"]
    assert (crashed.folder / "rendered/c/a.yaml").read_bytes() == b"mine\n"


def test_after_a_crash_half_a_file_is_swept_even_if_the_user_went_back(box: Sandbox, tmp_path: Path) -> None:
    head = box.git("rev-parse", "HEAD")
    crashed = crash(box, tmp_path, until=lambda again: bool(list((again.folder / "rendered").rglob(".reconciler*"))))
    crashed.git("reset", "--quiet", "--hard", head)
    assert status(crashed) != []
    assert render(crashed, {}) is None
    assert status(crashed) == []
    assert crashed.git("rev-parse", "HEAD") == head


def test_a_journal_of_another_time_does_nothing(box: Sandbox) -> None:
    head = box.git("rev-parse", "HEAD")
    later = box.commit({"jobs/a.yaml": b"2\n"})
    journal = box.folder / ".git/reconciler/commit"
    journal.parent.mkdir()
    for text in (f"{later} {head} refs/heads/main", f"{head} {later} refs/heads/other", f"{'0' * 40} {'1' * 40} HEAD"):
        journal.write_text(text + "\n")
        assert render(box, {}) is None
        assert not journal.exists()
        assert status(box) == []
    journal.write_text("torn")
    with pytest.raises(RepositoryError, match="damaged"):
        render(box)


def test_a_folder_that_cannot_be_written_is_said_and_finished_later(box: Sandbox) -> None:
    if os.geteuid() == 0:
        blocked = box.folder / ".git/reconciler"
        blocked.write_text("a file")
        with pytest.raises(RepositoryError, match="cannot be written"):
            render(box)
        blocked.unlink()
        assert render(box)
    else:
        (box.folder / "rendered/c").chmod(0o500)
        with pytest.raises(RepositoryError, match="committed"):
            render(box)
        (box.folder / "rendered/c").chmod(0o700)
        assert render(box) is None
    assert status(box) == []


def test_ten_thousand_files_are_one_commit(box: Sandbox) -> None:
    files: dict[str, bytes | None] = {
        f"rendered/c/ns-{number % 50}/job-{number}.yaml": b"kind: Job\n%d\n" % number for number in range(10_000)
    }
    assert render(box, files)
    assert status(box) == []
    assert len(box.open().tree(box.git("rev-parse", "HEAD"), ("rendered",))) == 10_003
    assert render(box, files) is None


def test_a_process_that_is_forked_during_a_commit_keeps_no_lock(box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread may start one at any moment, and it has all open files until it executes its program."""
    children: list[int] = []

    def forking(self: CommitJournal) -> None:
        children.append(os.fork())
        if not children[-1]:
            signal.pause()
            os._exit(0)
        self.path.unlink(missing_ok=True)

    monkeypatch.setattr(CommitJournal, "remove", forking)
    try:
        assert render(box)
        monkeypatch.undo()
        assert render(box, {"rendered/next": b"1\n"})
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def test_an_open_repository_sees_its_own_commit(box: Sandbox) -> None:
    repository = GitRepository.open(box.folder, environ=box.environ)
    box.write({"jobs/a.yaml": b"edited\n"})
    repository.work_tree()
    head = repository.resolve("HEAD").oid
    done = commit(repository, files=FILES, message="m", trailers={}, expected_head=head)
    assert done is not None
    assert repository.resolve("HEAD").oid == done.oid
    assert set(repository.changed_since(done.oid)) == {"jobs/a.yaml"}
