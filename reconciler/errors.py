"""One error family: every failure that a user can see, with its exit code and a hint.

Exit codes are a contract (docs/reference/exit-codes.md): 0 done, 1 changes pending (only with `--exit-code`),
2 bad flag or setting, 3 invalid input, 4 policy denied, 5 unsafe or stale plan, 6 an outside system failed, 7 applied
in part, 70 a bug.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from reconciler.kube.problems import Problem


class ReconcilerError(Exception):
    """The root of the family. `hint` says what to do next; `retryable` tells a controller to back off and retry."""

    exit_code: ClassVar[int] = 70
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}; {self.hint}" if self.hint else self.message


class ConfigError(ReconcilerError):
    """A flag, an environment variable or a setting has an invalid value."""

    exit_code = 2


class InvalidInput(ReconcilerError):
    """Files or a launch line are invalid. Carries all problems; `where` says what they are in."""

    exit_code = 3

    def __init__(
        self,
        problems: "Sequence[Problem]",
        *,
        hint: str = "",
        already_shown: bool = False,
        where: str = "in the repository",
    ) -> None:
        count = "1 error" if len(problems) == 1 else f"{len(problems)} errors"
        super().__init__(f"{count} {where}{', shown above' if already_shown else ''}", hint=hint)
        self.problems = () if already_shown else tuple(problems)


class PolicyDenied(ReconcilerError):
    """A policy denies an object, an example gets another verdict than expected, or a replay refuses a HealthPolicy."""

    exit_code = 4


class UnsafePlan(ReconcilerError):
    """The plan exceeds a budget and has no matching approval, or changes immutable fields; or changes would be lost."""

    exit_code = 5


class StalePlan(ReconcilerError):
    """Something that the plan was computed from has changed since, or `rendered/` does not match the sources."""

    exit_code = 5


class OutsideError(ReconcilerError):
    """Git, the file system, a server or another program failed."""

    exit_code = 6


class PartialApply(ReconcilerError):
    """Objects that a server refuses, and what depends on them, were left out of an apply; the others were applied."""

    exit_code = 7


class RepositoryError(OutsideError):
    """A Git command failed. The message holds the operation and the reason that Git gave."""


class RemoteError(RepositoryError):
    """A Git server refused a request or cannot be used. `reason` is one CamelCase word for conditions and metrics."""

    def __init__(self, message: str, *, hint: str = "", reason: str = "GitOperationFailed") -> None:
        super().__init__(message, hint=hint)
        self.reason = reason


class RemoteUnavailable(RemoteError):
    """A Git server did not answer, or not completely. Retrying may help."""

    retryable = True


class PredictorError(OutsideError):
    """An external sizing engine failed or returned an invalid answer. Retrying does not help."""


class PredictorUnavailable(PredictorError):
    """An external sizing engine did not answer: it timed out, crashed, or the server was busy. Retrying may help."""

    retryable = True


INTERRUPTED = 128 + 2
"""Exit code after SIGINT, by shell convention."""

TERMINATED = 128 + 15
"""Exit code after SIGTERM."""


class Terminated(BaseException):
    """SIGTERM, raised as an exception so that open files are closed and child processes are stopped."""


def is_lack_of_memory(error: BaseException) -> bool:
    """Return whether an error says that memory is exhausted.

    CPython 3.11 raises SystemError with this text where it gets no memory for the frame of a Python function.
    """
    return isinstance(error, MemoryError) or (
        isinstance(error, SystemError) and str(error) == "error return without exception set"
    )


def printable(text: str, limit: int = 300) -> str:
    """Escape control characters and shorten foreign text, such as a path, for a message."""
    escaped = "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)
    return escaped if len(escaped) <= limit else escaped[:limit] + "…"


def one_line(text: object, limit: int = 300) -> str:
    """Return foreign prose as one printable line for a message."""
    return printable(" ".join(str(text).split()), limit)
