"""The name of a workload, from who submits what."""

import re
import unicodedata
from hashlib import sha256

from reconciler.errors import ConfigError

MOST = 45
"""The longest name: what controllers append to it, such as Ray's `-worker-default-worker-group`, fits a label."""

_DIGEST = 6
_LETTERS = str.maketrans({"ß": "ss", "æ": "ae", "ø": "o", "đ": "d", "ł": "l", "þ": "th", "œ": "oe"})


def workload_name(user: str, what: str, version: str = "") -> str:
    """Return `<user>-<what>[-<version>]` as a name that Kubernetes accepts, whatever the words are.

    user: an account or an e-mail address, of which the local part counts. what: the folder or the image.
    The version is never shortened: what is before it is, with a digest so that different words have different names.
    """
    local = user.partition("@")[0]
    parts = [_plain(local) or "user", _plain(what) or "workload", _plain(version)]
    if parts[0][0].isdigit():  # a Service is named after the workload, and begins with a letter
        parts[0] = f"u{parts[0]}"
    name = "-".join(filter(None, parts))
    if len(name) <= MOST:
        return name
    tail = f"-{sha256(name.encode()).hexdigest()[:_DIGEST]}" + (f"-{parts[2]}" if parts[2] else "")
    room = MOST - len(tail)
    if room < 1:
        raise ConfigError(f"--version: {version!r} is too long for a name", hint="use a shorter version, or --name")
    return f"{'-'.join(parts[:2])[:room].rstrip('-')}{tail}"


def _plain(words: str) -> str:
    """Return the lower-case letters and digits of some words, joined by single dashes."""
    text = unicodedata.normalize("NFKD", words.lower().translate(_LETTERS))
    text = "".join(sign for sign in text if not unicodedata.combining(sign))
    return re.sub(r"[^a-z0-9]+", "-", text).strip("-")
