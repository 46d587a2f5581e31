"""Masking of secrets: which fields are secret, and which parts of other strings. No secret enters a plan.

Names are split into words, so that `HF_TOKEN` is secret but `MAX_TOKENS` and `TOKENIZERS_PARALLELISM` are not. In doubt
a value is masked: reviewers still see that it changed.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from reconciler.core.patterns import later

MASK = "***"
CHANGED = " (changed)"

_SECRET_WORDS = frozenset(
    ("token", "password", "passwd", "passphrase", "secret", "key", "apikey", "credential", "credentials", "auth")
)
_SECRET_ENDS = _SECRET_WORDS - {"key", "auth"}
_KEY_OF = frozenset(("api", "access", "secret", "private", "encryption", "signing", "ssh", "master", "auth", "account"))
_WORD = later(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_NAMED_MAPS = frozenset(("data", "binaryData", "stringData"))


@lru_cache(maxsize=4096)
def _words(name: str) -> tuple[str, ...]:
    return tuple(word.lower() for word in _WORD.findall(name))


def is_secret_name(name: str) -> bool:
    """Return whether a name chosen by users (of an environment variable or a ConfigMap key) is that of a secret."""
    return not _SECRET_WORDS.isdisjoint(_words(name))


@lru_cache(maxsize=4096)
def _is_secret_key(name: str) -> bool:
    """Return whether the name of a field is that of a secret; `topologyKey` and `secretName` are not."""
    words = _words(name)
    if not words:
        return False
    if words[-1] == "key":
        return len(words) > 1 and words[-2] in _KEY_OF
    return words[-1] in _SECRET_ENDS or name == _LAST_APPLIED or words[-2:] == ("key", "id")


def is_secret_field(kind: str, depth: int, parent: str, holder: Any, name: str) -> bool:
    """Return whether the value of `name` in the mapping `holder` is secret.

    `depth` is the depth of `holder` in the object, and `parent` its key.
    """
    if depth == 0:
        return kind == "Secret" and name in _NAMED_MAPS
    if name == "value":
        variable = holder.get("name")
        return isinstance(variable, str) and is_secret_name(variable)
    if depth == 1 and parent in _NAMED_MAPS:
        return is_secret_name(name)
    return _is_secret_key(name)


_SECRET_FLAG = later(
    r"--?(?:[\w-]*[-_])?(?:token|password|passwd|secret|api[-_]?key|secret[-_]key|access[-_]key)", re.IGNORECASE
)


def follows_secret_flag(items: Sequence[Any], index: int) -> bool:
    """Return whether a list item is the value of a secret flag before it, as in `[--password, hunter2]`."""
    flag, value = items[index - 1] if index else None, items[index]
    if not isinstance(flag, str) or not isinstance(value, str) or value.startswith(("-", "$")):
        return False
    return _SECRET_FLAG.fullmatch(flag) is not None


# All repetitions are bounded or disjoint from what follows, so that hostile text cannot cost quadratic time.
_REPLACEMENTS: tuple[tuple[re.Pattern[str], str], ...] = (
    (later(r"(?P<keep>\b[a-zA-Z][a-zA-Z0-9+.-]{1,20}://)[^\s/@'\"]+@"), rf"\g<keep>{MASK}@"),
    (
        later(
            r"(?P<keep>[?&;](?:[\w.-]*(?:token|password|secret|key|signature|credential)|sig|auth)=)[^&\s'\"]+",
            re.IGNORECASE,
        ),
        rf"\g<keep>{MASK}",
    ),
    (
        later(
            r"(?P<keep>(?<![\w-])--?(?:[\w-]*[-_])?(?:token|password|passwd|secret|api[-_]?key|secret[-_]key|access[-_]key)"
            r"(?:=|\s+|['\"]?,\s*))(?![-$\s])(?:'[^']*'|\"[^\"]*\"|[^\s'\"]+)",
            re.IGNORECASE,
        ),
        rf"\g<keep>{MASK}",
    ),
    (
        later(
            r"(?P<keep>\b(?:[A-Za-z0-9]+_){0,16}(?:TOKEN|PASSWORD|PASSWD|SECRET|KEY|CREDENTIALS?)(?:_[A-Za-z0-9]+){0,4}=)"
            r"(?![$\s])(?!['\"]\$)(?:'[^']*'|\"[^\"]*\"|[^\s'\"]+)"
        ),
        rf"\g<keep>{MASK}",
    ),
    (later(r"(?P<keep>\b(?:Bearer|Basic)\s+)(?!\$)[A-Za-z0-9+/._~=-]{8,}"), rf"\g<keep>{MASK}"),
    (
        later(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL),
        MASK,
    ),
    (
        later(
            r"\b(?:hf_[A-Za-z0-9]{20,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|sk-[\w-]{20,}"
            r"|xox[abprs]-[\w-]{10,}|(?:AKIA|ASIA)[0-9A-Z]{16}|(?<![\w-])eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*|nvapi-[\w-]{20,})"
        ),
        MASK,
    ),
)
_SUSPECT = later(
    r"://[^\s/]*@|[=\s?&-](?:sig|auth)=|token|passw|secret|key|credential|signature|bearer|basic|hf_|gh[pousr]_|github_pat_"
    r"|glpat-|sk-|xox|AKIA|ASIA|eyJ|nvapi-",
    re.IGNORECASE,
)


def redact(text: str) -> str:
    """Mask credentials in URLs, query strings, flags and assignments, and tokens in well-known formats."""
    if len(text) < 6 or not _SUSPECT.search(text):  # noqa: PLR2004 - shorter than any credential with its context
        return text
    for pattern, replacement in _REPLACEMENTS:
        text = pattern.sub(replacement, text)
    return text
