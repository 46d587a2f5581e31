"""What a failed request to a Git server means: its reason for conditions, and what to do about it."""

from collections.abc import Sequence

from msgspec import Struct

from reconciler.errors import RemoteError, RemoteUnavailable, one_line


class Failure(Struct, frozen=True, kw_only=False):
    """A kind of failure: words of git or of its transports, the reason, and a hint."""

    words: tuple[str, ...]
    reason: str
    hint: str = ""
    retryable: bool = True


FAILURES = (
    Failure(
        ("Authentication failed", "could not read Username", "could not read Password", "error: 401", "error: 403",
         "Permission denied", "Invalid username or password"),
        "AuthenticationFailed",
        "check the credentials in the Secret of the source, and what they are allowed to do",
    ),
    Failure(("Host key verification failed",), "HostKeyUnknown", "add the key of the host to known_hosts"),
    Failure(
        ("SSL certificate problem", "server certificate verification failed", "certificate subject name"),
        "CertificateInvalid",
        "add the certificate authority as ca.crt to the Secret",
    ),
    Failure(("error: 404", "epository not found", "does not appear to be a git repository"), "RepositoryNotFound",
            "check spec.url, and that the credentials may read it"),
    Failure(("find remote ref",), "RefNotFound", "check spec.ref"),
    Failure(("protected branch", "GH006", "not allowed to push", "You are not allowed"), "PushRejected",
            "let this account push to the branch, or name another in spec.commit.branch", retryable=False),
    Failure(("hook declined", "remote rejected", "pre-receive"), "PushRejected",
            "the server refuses the commit; see its rules for this branch", retryable=False),
    Failure(("redirect", "error: 301", "error: 302", "error: 307", "error: 308"), "Redirected",
            "redirects are not followed: set spec.url to the new address", retryable=False),
    Failure(("File too large", "File size limit", "exceeds", "SIGXFSZ", "signal 25"), "LimitExceeded",
            "the repository is larger than the limit of the controller (--max-repository)", retryable=False),
    Failure(("No space left",), "DiskFull", "free some space in the state folder"),
    Failure(("Operation too slow", "timed out", "Timeout", "Could not resolve host", "Failed to connect", "Connection",
             "Couldn't connect", "error: 429", "error: 5", "hung up", "unexpected disconnect", "early EOF",
             "Empty reply", "RPC failed", "HTTP/2 stream", "expected flush", "transfer closed"), "RemoteUnavailable",
            "the Git server did not respond; the request is retried"),
    Failure(("corrupt", "bad object", "bad pack", "index-pack", "inflate", "unpack", "missing blob", "not a git rep",
             "protocol error", "bad line length", "invalid", "bad sha1", "missing necessary objects"), "CorruptData",
            "the data of the server or of the mirror is damaged; the mirror is recreated"),
)  # fmt: skip
"""The first match counts."""


def remote_error(verb: str, lines: Sequence[str]) -> RemoteError:
    """Return the error of a failed request; `lines` are what git printed."""
    text = "\n".join(lines)
    failure = next((known for known in FAILURES if any(word in text for word in known.words)), None)
    told = [line for line in lines if line.startswith(("fatal: ", "error: ", "remote: "))]
    line = next((line for line in told if failure and any(word in line for word in failure.words)), None)
    chosen = line or (told or list(lines) or ["it gave no reason"])[-1]
    message = f"git {verb}: {one_line(chosen.removeprefix('fatal: ').removeprefix('error: ').removeprefix('remote: '))}"
    if failure is None:
        return RemoteUnavailable(message)
    kind = RemoteUnavailable if failure.retryable else RemoteError
    return kind(message, hint=failure.hint, reason=failure.reason)
