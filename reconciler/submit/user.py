"""Who submits, and their usual queue: flags, variables, and the file of kaiwo's own command."""

import getpass
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from reconciler.errors import ConfigError
from reconciler.kube.values import text
from reconciler.kube.yaml import read
from reconciler.repo.checkout_files import read_file


class UserSettings(Struct, frozen=True, kw_only=True):
    """The user, an account or an e-mail address, and the queue (empty: the usual one)."""

    user: str
    queue: str = ""


def user_settings(user: str, named: str, environ: Mapping[str, str]) -> UserSettings:
    """Return who submits: `user`, else KAIWO_USER_EMAIL, else `{user, clusterQueue}` of a file, else the account.

    The file is `named`, else that of KAIWOCONFIG, else that of the home folder, if there is one.
    """
    named = named or environ.get("KAIWOCONFIG", "")
    path = Path(named or f"{environ.get('HOME', '~')}/.config/kaiwo/kaiwoconfig.yaml")
    found = _read(path) if named or path.is_file() else {}
    name = user or environ.get("KAIWO_USER_EMAIL", "") or text(found.get("user")) or _account()
    return UserSettings(user=name, queue=text(found.get("clusterQueue")))


def _read(path: Path) -> Mapping[str, object]:
    reading = read(str(path), read_file(path))
    if reading.problems or len(reading.documents) != 1:
        what = str(reading.problems[0]) if reading.problems else f"{path}: must have one document"
        raise ConfigError(what, hint="write {user: NAME, clusterQueue: NAME}")
    return reading.documents[0].data


def _account() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user of a container without an entry
        return "user"
