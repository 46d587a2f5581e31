"""Secrets in objects: which values of a body are secret, by its kind, their names and what is before them in a list."""

from collections.abc import Iterator, Sequence
from typing import Any

from reconciler.kube.objects import FieldPath
from reconciler.kube.patterns import later
from reconciler.kube.secrets.assignments import MASK, is_no_secret
from reconciler.kube.secrets.names import LAST_APPLIED, is_secret_key, is_secret_name

_PUBLIC = frozenset(("apiVersion", "kind", "metadata", "type", "immutable"))
"""Fields of a Secret whose values are not secret. Unknown ones are: `passwords:` was meant to be `stringData:`."""
SECRET_VALUES = ("data", "stringData")
"""Fields of a Secret that hold its values by key."""
_NAMED_MAPS = frozenset(("data", "binaryData", "stringData", "env", "envVars", "environment", "variables", "vars"))
"""Mappings whose keys are names that users choose."""
_AMOUNTS = frozenset(("hard", "used"))
"""Fields of a ResourceQuota, which counts Secrets."""
_FLAG = later(r"--?[A-Za-z][\w.-]*")
_LOGIN_FLAGS = frozenset(("-u", "--user", "--proxy-user", "-U"))
_PASSWORD_FLAGS = frozenset(
    (
        ("sshpass", "-p"),
        ("docker", "-p"),
        ("podman", "-p"),
        ("helm", "-p"),
        ("mongo", "-p"),
        ("mongosh", "-p"),
        ("mongodump", "-p"),
        ("redis-cli", "-a"),
        ("sqlcmd", "-P"),
        ("zip", "-P"),
        ("ldapsearch", "-w"),
    )
)
_ATTACHED = frozenset(("mysql", "mysqldump", "mysqladmin", "mariadb", "mariadb-dump", "sshpass"))
"""Programs whose `-p` has the password directly after it."""


def is_secret_field(kind: str, depth: int, parent: str, holder: Any, name: str) -> bool:
    """Return whether the value of `name` in the mapping `holder` is secret.

    `depth` is the depth of `holder` in the object, and `parent` its key.
    """
    if (kind == "Secret" and depth == 0) or ("metadata" in holder and holder.get("kind") == "Secret"):
        return name not in _PUBLIC
    if name in ("value", "valueFrom"):
        variable = holder.get("name") or ("" if "operator" in holder or "effect" in holder else holder.get("key"))
        is_secret = isinstance(variable, str) and is_secret_name(variable)
    else:
        is_secret = parent not in _AMOUNTS and (is_secret_name if parent in _NAMED_MAPS else is_secret_key)(name)
    return is_secret and _decides(holder[name])


def _decides(value: Any) -> bool:
    """Return whether the name of a value decides on it alone: it has no names below it, and can be a secret."""
    if type(value) is list:
        return not any(type(item) in (dict, list) for item in value)
    return type(value) not in (bool, dict) and not (type(value) is str and is_no_secret(value))


def follows_secret_flag(items: Sequence[Any], index: int) -> bool:
    """Return whether a list item is the value of a secret flag before it, as in `[--password, hunter2]`."""
    flag, value = items[index - 1] if index else None, items[index]
    if not isinstance(flag, str) or type(value) not in (str, int, float):
        return False
    text = str(value)
    if text.startswith("--") or (flag[:1] != "-" and text[:2] != "-p") or is_no_secret(text):
        return False
    if flag in _LOGIN_FLAGS:
        user, _, password = text.partition(":")
        return bool(password) and not (user.isdigit() and password.isdigit())
    program = str(items[0]).rpartition("/")[2]
    if (program, flag) in _PASSWORD_FLAGS or (program in _ATTACHED and text.startswith("-p") and text != "-p"):
        return True
    return _FLAG.fullmatch(flag) is not None and is_secret_key(flag) and not text.startswith("-")


def masked_secret(body: dict[str, Any]) -> dict[str, Any]:
    """Return a Secret with masks in place of its values. They are not base64, so no API server accepts it."""
    keys = (key for field in SECRET_VALUES for key in body.get(field) or {})
    masked = {name: body[name] for name in body if name in _PUBLIC} | {"data": dict.fromkeys(keys, MASK)}
    annotations = body["metadata"].get("annotations") or {}
    if LAST_APPLIED in annotations:  # a copy of the whole object
        masked["metadata"] = body["metadata"] | {"annotations": annotations | {LAST_APPLIED: MASK}}
    return masked


def is_secret_path(body: Any, path: FieldPath) -> bool:
    """Return whether the value at a path is secret, or lies below one that is. The path may end in what is absent."""
    kind = body.get("kind") if isinstance(body, dict) else ""
    node: Any = body
    for depth, step in enumerate(path):
        if isinstance(node, dict) and step in node:
            parent = str(path[depth - 1]) if depth else ""
            if is_secret_field(str(kind), depth, parent, node, str(step)):
                return True
        elif isinstance(node, list) and isinstance(step, int) and step < len(node):
            if follows_secret_flag(node, step):
                return True
        else:
            return kind == "Secret" and depth == 0 and step not in _PUBLIC
        node = node[step]
    return False


def secret_leaves(body: Any) -> Iterator[str | int | float]:
    """Yield the secret scalars of an object."""
    kind = body.get("kind") if isinstance(body, dict) else ""
    stack: list[tuple[Any, int, str, bool]] = [(body, 0, "", False)]
    while stack:
        node, depth, parent, secret = stack.pop()
        if type(node) is dict:
            for name, value in node.items():
                below = secret or is_secret_field(str(kind), depth, parent, node, name)
                if below or type(value) in (dict, list):
                    stack.append((value, depth + 1, name, below))
        elif type(node) is list:
            for index, value in enumerate(node):
                below = secret or follows_secret_flag(node, index)
                if below or type(value) in (dict, list):
                    stack.append((value, depth + 1, "", below))
        elif secret and type(node) in (str, int, float):
            yield node
