"""Masking of secrets in text: shell commands, URLs, files inside of strings, messages.

One pass for each of a few expressions. All repetitions are bounded or disjoint from what follows, so that hostile text
costs linear time.
"""

import re
from collections.abc import Callable, Iterator

from reconciler.kube.patterns import later
from reconciler.kube.secrets.assignments import MASK, mask_assignments, masked_value
from reconciler.kube.secrets.names import is_secret_key

_URL = later(r"(?P<scheme>\b[a-zA-Z][a-zA-Z0-9+.-]{1,20}://)(?P<user>[^\s/'\"<>]+)@")
_TOKENS = later(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY.*?(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|\Z)"
    r"|\b(?:hf_[A-Za-z0-9]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|gl(?:pat|dt|rt|cbt|ptt|soat)-[\w-]{16,}"
    r"|sk-(?:[A-Za-z0-9]{20,}|(?:proj|ant|svcacct|admin|or)-[\w-]{20,})|[sr]k_(?:live|test)_[A-Za-z0-9]{10,}"
    r"|xox[abeprs]-[\w-]{10,}|xapp-[\w-]{10,}|(?:AKIA|ASIA)[0-9A-Z]{16}|AIza[\w-]{30,}|ya29\.[\w-]{20,}"
    r"|(?<![\w-])eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*|nvapi-[\w-]{20,}|npm_[A-Za-z0-9]{30,}|pypi-AgE[\w-]{20,}"
    r"|do[opr]_v1_[a-f0-9]{32,}|dckr_(?:pat|oat)_[\w-]{20,}|SG\.[\w-]{16,}\.[\w-]{16,}|hv[sbr]\.[\w-]{20,}"
    r"|glsa_\w{20,}|shp(?:at|ss|ca|pa)_[a-fA-F0-9]{20,}|ATATT3[\w=-]{20,}|lin_api_\w{20,}|tskey-[\w-]{20,}"
    r"|gsk_[A-Za-z0-9]{20,}|r8_[A-Za-z0-9]{20,}|pplx-[A-Za-z0-9]{20,}|dapi[a-f0-9]{32})"
    r"|\bAGE-SECRET-KEY-1[0-9A-Z]{20,}"
    r"|(?P<hook>https://(?:hooks\.slack\.com/services|(?:\w+\.)?discord(?:app)?\.com/api/webhooks)/)[\w/-]+"
    r"|(?P<scheme>\b(?:Bearer|Basic)\s{1,8})(?=[A-Za-z+/._~-]{0,200}[0-9=])[A-Za-z0-9+/._~=-]{8,}",
    re.DOTALL,
)
_LITERALS = (
    "://", "PRIVATE KEY", "hf_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat", "gldt", "glrt",
    "glcbt", "glptt", "glsoat", "glsa_", "sk-", "sk_", "rk_", "xox", "xapp-", "AKIA", "ASIA", "AIza", "ya29", "eyJ",
    "nvapi-", "npm_", "pypi-", "_v1_", "dckr_", "SG.", "hvs.", "hvb.", "hvr.", "shp", "ATATT3", "lin_api_",
    "tskey-", "gsk_", "r8_", "pplx-", "dapi", "AGE-SECRET", "Bearer", "Basic",
)  # fmt: skip
"""One of these occurs in all that `mask_tokens` masks. To look for each is ten times faster than an expression."""
_FLAG = later(
    r"(?P<keep>(?<![\w-])--?(?P<name>[A-Za-z][\w.-]{1,60})(?:\s{1,8}|['\"]?,\s{0,8}))(?![-\s<{]|\$[A-Za-z_{(])"
    r"(?:'[^']*'|\"[^\"]*\"|[^\s'\"]+)"
)
_USER = later(
    r"(?P<keep>(?<![\w-])(?:-u|--user|--proxy-user|-U)(?:=|\s{0,8}|['\"]?,\s{0,8})['\"]?)(?!\d+:\d+\b)"
    r"(?P<user>[^\s:'\"/=]{1,100}:)(?![/$\s])[^\s'\"]+"
)
_PROGRAM = later(
    r"(?P<keep>\b(?:(?:mysql\w{0,10}|mariadb[\w-]{0,10})\b[^\n|;&]{0,200}?\s-p|(?:sshpass|mongo\w{0,10}|login)"
    r"\b[^\n|;&]{0,200}?\s-p\s{0,8}|redis-cli\b[^\n|;&]{0,200}?\s-a\s{0,8}|(?:sqlcmd|zip)\b[^\n|;&]{0,200}?\s-P\s{0,8}"
    r"|ldap\w{1,10}\b[^\n|;&]{0,200}?\s-w\s{0,8})['\"]?)(?![-$\s'\"])[^\s'\"]+"
)
_PROGRAMS = ("mysql", "mariadb", "sshpass", "mongo", "login", "redis-cli", "sqlcmd", "zip", "ldap")
# As Go's driver of MySQL takes it.
_DSN = later(r"(?P<keep>\b[\w.-]{1,64}:)[^\s:/'\"]{1,256}(?P<rest>@(?:tcp|udp|unix)\()")
_PGPASS = later(
    r"(?m)^(?![0-9A-Fa-f:]+$)(?P<keep>[^:\s#]{1,255}:(?:\d{4,5}|\*):[^:\s]{1,64}:[^:\s]{1,64}:)(?![\s/])\S.*$"
)
_NETRC = later(
    r"(?P<keep>\blogin\s{1,8}\S{1,200}\s{1,8}(?:account\s{1,8}\S{1,200}\s{1,8})?password\s{1,8})(?![$*])\S+"
    r"|(?m:^(?P<line>[ \t]{0,40}(?:password|requirepass|masterauth)[ \t]{1,8})(?![$*=:])\S+[ \t]*$)"
)
_PASSIN = later(r"(?P<keep>-pass(?:in|out)?['\"]?[\s,=]{1,8}['\"]?pass:)[^\s'\"]+")  # flags of openssl
_XML = later(r"(?P<keep><(?P<name>[A-Za-z][\w.-]{1,60})>)[^<]+(?=</)")
_NAMED = later(
    r"(?P<keep>\bname\\{0,8}[\"']?\s{0,8}[:=]\s{0,8}\\{0,8}[\"']?(?P<name>[A-Za-z_][\w.-]{1,60})\\{0,8}[\"']?\s{0,8},?\s{0,40}"
    r"\\{0,8}[\"']?value\\{0,8}[\"']?\s{0,8}[:=]\s{0,8})(?P<value>\"(?:[^\"\\]|\\.)*\"|'[^']*'|\\{1,8}\"[^\"]*\"|[^\s,}'\"<>&]+)"
)
_WORDS = (
    "pass", "token", "secret", "key", "pwd", "cred", "auth", "cookie", "jwt", "login", "mysql", "mariadb", "mongo",
    "redis", "ldap", "zip", "7z", "sqlcmd", "-u", "@tcp(", "@udp(", "@unix(",
)  # fmt: skip
_SHORT_WORDS = later(r"(?:pat|sig|signature|salt|sas|psk|otp)[\"'\\\]]{0,8}\s{0,8}[=:]", re.IGNORECASE)
_PGPASS_COLONS = 4  # host:port:database:user:password


def mask_tokens(text: str) -> str:
    """Mask what is a secret wherever it occurs: tokens in well-known formats, private keys, credentials in URLs."""
    if not any(literal in text for literal in _LITERALS):
        return text
    return _TOKENS.sub(_mask_token, _URL.sub(_mask_url, text) if "://" in text else text)


def mask_text(text: str) -> str:
    """Mask tokens, and the values of flags, variables and keys that hold secrets, in shell, URLs and common files."""
    if len(text) < 6:  # noqa: PLR2004 - shorter than any secret with its context
        return text
    text = mask_tokens(text)
    if not _is_suspect(text):
        return text
    for mask in _steps(text):
        text = mask(text)
    return mask_assignments(text)


def _is_suspect(text: str) -> bool:
    """Return whether anything occurs in the text that occurs in every text with a secret, besides `_LITERALS`."""
    lower = text.lower()
    if any(word in lower for word in _WORDS) or text.count(":") >= _PGPASS_COLONS:
        return True
    return ("=" in text or ":" in text) and _SHORT_WORDS.search(text) is not None


def holds_secret(text: str) -> bool:
    """Return whether `mask_text` masks anything."""
    return mask_text(text) != text


def _steps(text: str) -> Iterator[Callable[[str], str]]:
    """Yield the steps that may find something: those whose expressions have no literal that the text lacks."""
    if "-" in text:
        yield lambda text: _FLAG.sub(_mask_named, text)
    if "-u" in text or "-U" in text or "--proxy-user" in text:
        yield lambda text: _USER.sub(rf"\g<keep>\g<user>{MASK}", text)
    if "-" in text and any(program in text for program in _PROGRAMS):
        yield lambda text: _PROGRAM.sub(rf"\g<keep>{MASK}", text)
    if "-pass" in text:
        yield lambda text: _PASSIN.sub(rf"\g<keep>{MASK}", text)
    if "@" in text:
        yield lambda text: _DSN.sub(rf"\g<keep>{MASK}\g<rest>", text)
    if ":" in text:
        yield lambda text: _PGPASS.sub(rf"\g<keep>{MASK}", text)
    if "</" in text:
        yield lambda text: _XML.sub(_mask_named, text)
    if "name" in text and "value" in text:
        yield lambda text: _NAMED.sub(_mask_value, text)
    if "pass" in text or "masterauth" in text:
        yield lambda text: _NETRC.sub(lambda match: f"{match['keep'] or match['line']}{MASK}", text)


def _mask_token(match: re.Match[str]) -> str:
    return f"{match['hook'] or match['scheme'] or ''}{MASK}"


def _mask_url(match: re.Match[str]) -> str:
    if ":" not in match["user"] and "http" not in match["scheme"]:
        return match[0]  # a login without a password, as in ssh://git@github.com
    return f"{match['scheme']}{MASK}@"


def _mask_named(match: re.Match[str]) -> str:
    return f"{match['keep']}{MASK}" if is_secret_key(match["name"]) else match[0]


def _mask_value(match: re.Match[str]) -> str:
    if not is_secret_key(match["name"]) or match["value"].lstrip("\\'\"").startswith("$"):
        return match[0]
    return match["keep"] + masked_value(match["value"])
