"""Regular expressions that are compiled on first use, and the grammar of names.

Compiling all expressions takes 5% of a quick plan. Source of the grammar, names as API servers validate them:
k8s.io/apimachinery/pkg/util/validation.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, AnyStr, cast


def later(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return a stand-in for `re.compile(pattern, flags)` that compiles on first use."""
    return cast("re.Pattern[AnyStr]", _Later(pattern, flags))


class _Later:
    def __init__(self, pattern: Any, flags: int) -> None:
        self._expression = (pattern, flags)

    def __getattr__(self, name: str) -> Any:
        value = getattr(re.compile(*self._expression), name)
        setattr(self, name, value)  # cached on the instance
        return value


@contextmanager
def all_later() -> Iterator[None]:
    """Let modules that are imported meanwhile compile their expressions on first use."""
    compile_now, re.compile = re.compile, later  # type: ignore[assignment]
    try:
        yield
    finally:
        re.compile = compile_now


# --- names: DNS labels and subdomains, kinds, keys and values of labels -----------------------------------------------

LABEL_PATTERN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
SUBDOMAIN_PATTERN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
LETTER_LABEL_PATTERN = r"^[a-z]([-a-z0-9]*[a-z0-9])?$"
MIXED_LABEL_PATTERN = r"^[A-Za-z]([-A-Za-z0-9]*[A-Za-z0-9])?$"
LABEL_VALUE_PATTERN = r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$"
LABEL_KEY_PATTERN = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
    r"([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]$"
)
LABEL_LENGTH, SUBDOMAIN_LENGTH = 63, 253  # of DNS (RFC 1123)

LABEL = later(LABEL_PATTERN[1:-1])
SUBDOMAIN = later(SUBDOMAIN_PATTERN[1:-1])
LETTER_LABEL = later(LETTER_LABEL_PATTERN[1:-1])
_KIND = later(MIXED_LABEL_PATTERN[1:-1])
_QUALIFIED = later(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")


def is_dns_label(text: str) -> bool:
    """Return whether a text is a DNS label (RFC 1123): a-z, 0-9 and -."""
    return len(text) <= LABEL_LENGTH and LABEL.fullmatch(text) is not None


def is_dns_name(text: str) -> bool:
    """Return whether a text is a DNS name: labels that are joined by dots."""
    return len(text) <= SUBDOMAIN_LENGTH and SUBDOMAIN.fullmatch(text) is not None


def is_path_segment(text: str) -> bool:
    """Return whether a text can be one part of a URL's path, as the names of objects are."""
    return text not in (".", "..") and "/" not in text and "%" not in text


def is_kind(name: str) -> bool:
    """Return whether a CustomResourceDefinition could define a kind of this name."""
    return len(name) <= LABEL_LENGTH and _KIND.fullmatch(name) is not None


@lru_cache(maxsize=4096)
def is_qualified_name(key: str) -> bool:
    """Return whether a key is a qualified name. Cached: most objects use the same few keys."""
    prefix, slash, name = key.rpartition("/")
    return (not slash or is_dns_name(prefix)) and is_label_value(name)


def is_label_value(value: str) -> bool:
    """Return whether a text is the value of a label, and not empty."""
    return len(value) <= LABEL_LENGTH and _QUALIFIED.fullmatch(value) is not None
