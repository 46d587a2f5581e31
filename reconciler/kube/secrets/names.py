"""Names of secrets: which environment variables, keys, fields and flags hold one.

Names are split into words, so that `HF_TOKEN` is secret, but `MAX_TOKENS`, `TOKENIZERS_PARALLELISM`, `eos_token` and
`secretName` are not.
"""

from functools import lru_cache

from reconciler.kube.patterns import later

_WORD = later(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_ENDS = (
    "password", "passwords", "passwd", "passphrase", "passcode", "pwd", "secret", "secrets", "token", "credential",
    "credentials", "apikey", "apikeys", "accesskey", "secretkey", "privatekey", "authkey", "signingkey", "accountkey",
    "encryptionkey", "sshkey",
)  # fmt: skip
"""Words that end in one of these name a secret, also `PGPASSWORD` and `AUTHTOKEN`."""
_WORDS = frozenset(("jwt", "pgpass", "netrc", "dockercfg", "dockerconfigjson", "keytab", "keystore"))
_LAST_WORDS = frozenset(
    (
        "authorization",
        "cookie",
        "pass",
        "pat",
        "psk",
        "otp",
        "sig",
        "signature",
        "salt",
        "sas",
        "requirepass",
        "masterauth",
    )
)
_SSH_KEYS = frozenset((("id", "rsa"), ("id", "dsa"), ("id", "ecdsa"), ("id", "ed")))  # files such as `id_rsa`
_KEY_OF = frozenset(
    ("api", "access", "secret", "private", "encryption", "signing", "ssh", "master", "auth", "account", "client",
     "service", "admin", "deploy", "host", "license", "shared", "server", "tls", "ssl", "session", "storage", "root")
)  # fmt: skip
_PLAIN_KEYS = frozenset(
    ("public", "sort", "primary", "foreign", "partition", "topology", "label", "cache", "group", "range", "hash",
     "index", "lookup", "map", "image", "text", "prompt", "column", "data", "input", "output", "metric", "by",
     "num", "kv", "query", "attention")
)  # fmt: skip
_ABOUT = frozenset(
    ("name", "names", "file", "filename", "path", "dir", "folder", "url", "uri", "endpoint", "ref", "enabled",
     "disabled", "length", "len", "size", "count", "limit", "budget", "mode", "type", "kind", "format", "parallelism",
     "timeout", "ttl", "expiry", "expires", "expiration", "seconds", "minutes", "hours", "days", "algorithm", "region",
     "port", "user", "username", "provider", "method", "version", "required", "policy", "rotation", "issuer",
     "audience", "mount", "prefix", "suffix", "namespace", "store", "manager", "class", "header", "scope", "scopes",
     "rate", "ratio", "usage", "index", "column", "field", "selector", "bits", "ids", "dropout", "embedding", "weight",
     "weights", "loss", "accuracy", "pooling", "classification", "level", "spec", "kubeconfig", "strategy")
)  # fmt: skip
"""Last words of names of something about a secret: where it is, how long it lives."""
_TEXT_TOKENS = frozenset(
    ("eos", "bos", "pad", "unk", "sep", "cls", "mask", "image", "video", "audio", "special", "stop", "start", "end",
     "begin", "first", "last", "next", "per", "num", "max", "min", "new", "instruction", "response", "prefix",
     "suffix", "middle", "decoder", "encoder", "boi", "eoi", "eot", "eom", "fim", "by", "each", "extra", "added",
     "pre", "thinking", "reasoning", "tool", "chat", "assistant", "human", "padding", "multi", "cost", "latency")
)  # fmt: skip
"""Words before `token` that make it a piece of text."""
_TOKENS_OF = frozenset(("api", "auth", "access", "refresh", "bearer"))
_NO_PASSWORDS = frozenset(("bypass", "compass", "encompass", "surpass", "trespass", "overpass", "underpass", "askpass"))
_PASSES = frozenset(("forward", "backward", "two", "single", "multi", "one", "second", "first", "render", "num", "per"))
_AFTER_KEY = ((), ("pem",), ("data",), ("b",), ("crt",), ("der",))
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


@lru_cache(maxsize=4096)
def _words(name: str) -> tuple[str, ...]:
    return tuple(word.lower() for word in _WORD.findall(name))


@lru_cache(maxsize=4096)
def is_secret_key(name: str) -> bool:
    """Return whether a field, a flag or a key in a file holds a secret; `topologyKey` and `secretName` do not."""
    if name in ("PWD", "OLDPWD", LAST_APPLIED):
        return name == LAST_APPLIED
    words = _words(name.rpartition("/")[2])
    if not words or words[-1] in _ABOUT:
        return False
    if words in _SSH_KEYS or _is_last(words):
        return True
    return any(_is_secret(words, position) for position in range(len(words)))


@lru_cache(maxsize=4096)
def is_secret_name(name: str) -> bool:
    """Return whether a name that users choose (a variable, a key of a ConfigMap) holds a secret. In doubt it does."""
    if is_secret_key(name):
        return True
    words = _words(name.rpartition("/")[2])
    if not words or words[-1] in _ABOUT:
        return False
    keys = (at for at, word in enumerate(words) if word == "key" and words[at + 1 :] in _AFTER_KEY)
    return "auth" in words or any(at == 0 or words[at - 1] not in _PLAIN_KEYS for at in keys)


def mentions_secret(name: str) -> bool:
    """Return whether a name is that of a secret, or of something about one, such as the path of a file with a token."""
    return any(word in ("key", "auth", "pass") or word in _WORDS or word.endswith(_ENDS) for word in _words(name))


def _is_secret(words: tuple[str, ...], position: int) -> bool:
    word, before = words[position], words[position - 1] if position else ""
    if word in ("key", "keys"):
        return before in _KEY_OF
    if word == "tokens":
        return before in _TOKENS_OF
    if word.endswith("token") and before in _TEXT_TOKENS:
        return False
    return word in _WORDS or word.endswith(_ENDS)


def _is_last(words: tuple[str, ...]) -> bool:
    """Return whether the last word is one that names a secret only there."""
    word, before = words[-1], words[-2] if len(words) > 1 else ""
    if word.endswith("pass"):
        return word not in _NO_PASSWORDS and before not in _PASSES
    return word in _LAST_WORDS
