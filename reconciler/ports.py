"""Everything outside, as Protocols: the pipeline and the outputs know these and nothing behind them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self, runtime_checkable

from msgspec import Struct

from reconciler.core.engines import Outcome

if TYPE_CHECKING:
    from reconciler.core.engines import Engine
    from reconciler.core.sizing.question import EngineQuestion

FILE_MODES = frozenset({"100644", "100755"})


class Entry(NamedTuple):
    """What a path holds: git's mode in octal, and the id of its content.

    Only `is_file` entries may be read. `120000` is a symlink, `160000` a submodule or a repository inside this one,
    `000000` something that Git does not know (a device, a socket, a named pipe); their ids mean nothing here.
    """

    mode: str
    oid: str

    @property
    def is_file(self) -> bool:
        """A regular file: the only kind that is read."""
        return self.mode in FILE_MODES


Tree = Mapping[str, Entry]
"""Paths below `Repository.root`, with `/` between parts; bytes that are not UTF-8 are kept as surrogates."""


class Commit(Struct, frozen=True, kw_only=True):
    """A commit: ids of itself, of its tree and its parents; when it was made (ISO 8601 with offset); what it says."""

    oid: str
    tree: str
    committed_at: str
    subject: str  # the first line of the message
    message: str
    parents: tuple[str, ...] = ()


class Draft(Struct, frozen=True, kw_only=True):
    """A commit to be made on `parent`: whole contents by path (None deletes), and the complete message.

    `branch` None means the checked-out branch (or the detached HEAD), in place: the files are updated in the working
    tree and in the index, everything else there stays. A name means that branch, made from `parent` or, where it is at
    `replaces`, moved from there; the working tree is left alone unless it is the checked-out one.
    """

    parent: str
    files: Mapping[str, bytes | None]
    message: str
    branch: str | None = None
    replaces: str | None = None


class Repository(Protocol):
    """A Git repository that is read by object id and written by whole commits.

    Every method may raise `RepositoryError`. No hook, filter, prompt or network is ever used.
    """

    @property
    def root(self) -> Path:
        """The folder that all paths are below: where `reconciler.yaml` is, or the top of the repository."""
        ...

    @property
    def object_format(self) -> str:
        """`sha1` or `sha256`."""
        ...

    @property
    def is_shallow(self) -> bool:
        """History is cut: `merge_base` may find nothing although there is one."""
        ...

    def head_branch(self) -> str | None:
        """Name of the checked-out branch, also before its first commit; None with a detached HEAD."""
        ...

    def branch(self, name: str) -> Commit | None:
        """Return the tip of a local branch; None where there is no such branch."""
        ...

    def resolve(self, revision: str) -> Commit:
        """Find the commit that a branch, tag, id or expression such as `HEAD~2` names."""
        ...

    def merge_base(self, one: str, other: str) -> str | None:
        """Find the best common ancestor of two commit ids."""
        ...

    def last_change(self, commit: str, path: str) -> str | None:
        """Find the newest commit, `commit` itself or an ancestor of it, that changed anything at or below `path`."""
        ...

    def upstream_default(self) -> str | None:
        """Name the upstream's default branch as a full name (`refs/remotes/origin/main`), where it is known."""
        ...

    def tree(self, commit: str, paths: Sequence[str] = ()) -> Tree:
        """Files of a commit id: all of them, or those at and below `paths`."""
        ...

    def changed(
        self, before: str, after: str, paths: Sequence[str] = ()
    ) -> Mapping[str, tuple[Entry | None, Entry | None]]:
        """Compare two commit ids: (before, after), None where a path is absent."""
        ...

    def changed_since(self, commit: str | None, paths: Sequence[str] = ()) -> Mapping[str, Entry | None]:
        """List what the working tree, with untracked files that are not ignored, has other than a commit."""
        ...

    def work_file(self, path: str) -> Entry | None:
        """Look at one path of the working tree, tracked or not; None where nothing is there."""
        ...

    def work_tree(self, paths: Sequence[str] = (), *, head: str | None = None) -> Tree:
        """List the working tree with uncommitted changes and untracked files that are not ignored.

        `head` is the id of the checked-out commit, where it was found already.
        """
        ...

    def read(self, oids: Iterable[str]) -> Iterator[bytes]:
        """Contents by id, in the same order; of the working tree too, as they were when it was listed.

        A file over the repository's limit on sizes comes as its first limit + 1 bytes, so that a reader refuses it.
        """
        ...

    def commit(self, draft: Draft) -> str | None:
        """Make one commit and return its id; None where it would change nothing.

        Raises `StalePlan` where the branch is no longer at the parent, `UnsafePlan` where edits of the user would be
        lost, `ConfigError` where nobody is named as author.
        """
        ...


class Cache(Protocol):
    """Bytes by key that may vanish at any time; it never fails and never returns anything but what was put."""

    def get(self, key: str) -> bytes | None:
        """Return what was put under this key, or None."""
        ...

    def put(self, key: str, value: bytes) -> None:
        """Keep a value if possible."""
        ...


class Prediction(Struct, frozen=True, kw_only=True):
    """The reply of an external sizing engine to one question. `gpus` are those of one worker, as ado-autoconf counts.

    A REFUSAL with `chances` means that no number of GPUs is enough; one without, that the engine does not know the
    model, the GPU or the method. `request` finds the answer to a PENDING question later. `chances` are (GPUs in all,
    samples of one step over all of them, probability that the run fits). `text` is the engine's own reason, one line.
    `versions` name everything that the reply depends on.
    """

    engine: "Engine"
    outcome: Outcome
    gpus: int = 0
    workers: int = 0
    chances: tuple[tuple[int, int, float], ...] = ()
    versions: tuple[tuple[str, str], ...] = ()
    text: str = ""
    request: str = ""
    retryable: bool = False

    def __post_init__(self) -> None:
        """Keep 0 GPUs from ever being an answer."""
        if (self.outcome is Outcome.RECOMMENDATION) != (self.gpus > 0 and self.workers > 0):
            raise ValueError(f"{self.outcome}: {self.gpus} GPUs, {self.workers} workers")


class Predictor(Protocol):
    """A sizing engine outside. Every method may raise `PredictorError`; none takes longer than its deadlines."""

    @property
    def engine(self) -> "Engine":
        """Which one it is."""
        ...

    def versions(self) -> Mapping[str, str]:
        """Name the versions of the engine and of its model, as far as they can be known."""
        ...

    def predict(self, question: "EngineQuestion", layouts: Sequence[tuple[int, int]] = ()) -> Prediction:
        """Answer one question; engines that give chances do so for `layouts`: (GPUs in all, samples of one step)."""
        ...

    def close(self) -> None:
        """Stop whatever was started; may be called twice."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


@runtime_checkable
class DeferredPredictor(Predictor, Protocol):
    """An engine that takes a question now and answers it later, perhaps to another run."""

    def submit(self, question: "EngineQuestion") -> str:
        """Ask once and return the id of the request."""
        ...

    def resume(self, question: "EngineQuestion", request: str) -> Prediction:
        """Fetch the answer of an earlier request; `Outcome.PENDING` where there is none yet."""
        ...
