"""What commands that look at clusters import."""

import subprocess
import sys

_CHECK = """
import sys
import reconciler.kube.client
heavy = {"kubernetes", "requests", "oauthlib"} & {*sys.modules}
assert not heavy, heavy
"""


def test_what_takes_long_is_not_imported() -> None:
    """Neither the official client nor what it needs."""
    subprocess.run([sys.executable, "-c", _CHECK], check=True)
