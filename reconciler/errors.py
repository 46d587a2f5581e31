"""One error family: every failure a user can meet, with its exit code and what to do next.

Exit codes are a contract (docs/reference/exit-codes.md): 0 done, 1 changes pending (only when asked for),
2 bad flag or setting, 3 invalid input, 4 policy denied, 5 unsafe or stale plan, 6 the outside failed, 70 a bug.
"""

from collections.abc import Sequence
from typing import ClassVar, Protocol


class Located(Protocol):
    """A finding with a place, as `core.problems.Problem` is."""

    def __str__(self) -> str:
        """One line: `path:line:column: field: what is wrong; what to do [rule]`."""
        ...


class ReconcilerError(Exception):
    """The root of the family. `hint` tells what to do next; `retryable` tells a controller to back off."""

    exit_code: ClassVar[int] = 70
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}; {self.hint}" if self.hint else self.message


class ConfigError(ReconcilerError):
    """A flag, an environment variable or a setting has a value that is not allowed."""

    exit_code = 2


class InvalidInput(ReconcilerError):
    """Files in the repository are wrong. Carries all problems of all files at once."""

    exit_code = 3

    def __init__(self, problems: Sequence[Located], *, hint: str = "", already_shown: bool = False) -> None:
        count = "1 error" if len(problems) == 1 else f"{len(problems)} errors"
        super().__init__(f"{count} in the repository{', shown above' if already_shown else ''}", hint=hint)
        self.problems = () if already_shown else tuple(problems)


class PolicyDenied(ReconcilerError):
    """A rule forbids what the repository asks for."""

    exit_code = 4


class UnsafePlan(ReconcilerError):
    """The plan exceeds a budget; it was shown in full and needs an acknowledgement bound to its digest."""

    exit_code = 5


class StalePlan(ReconcilerError):
    """Something the plan was computed from has moved since."""

    exit_code = 5


class OutsideError(ReconcilerError):
    """Git, the file system or a server failed."""

    exit_code = 6


class RepositoryError(OutsideError):
    """Git could not do what was asked: the message holds what was attempted and git's own reason."""


class PredictorError(OutsideError):
    """A sizing engine outside failed, or said something that is no answer; asking again would change nothing."""


class PredictorUnavailable(PredictorError):
    """A sizing engine outside gave no answer now: it was too slow, died, or the server was busy."""

    retryable = True


INTERRUPTED = 128 + 2
"""Exit code after SIGINT, as shells say it."""

TERMINATED = 128 + 15
"""Exit code after SIGTERM."""


class Terminated(BaseException):
    """SIGTERM, as an exception: what was opened is closed and what was started is ended."""


def printable(text: str, limit: int = 300) -> str:
    """Escape control characters and shorten foreign text, such as a path, for a message."""
    escaped = "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)
    return escaped if len(escaped) <= limit else escaped[:limit] + "…"


def one_line(text: object, limit: int = 300) -> str:
    """Return foreign prose as one printable line for a message."""
    return printable(" ".join(str(text).split()), limit)
