"""The width, the color and the character set of standard output."""

import os
import shutil
import sys
from typing import Any

from reconciler.settings import Settings

_MIN_WIDTH = 40

_FILE_WIDTH = 100


def terminal(settings: Settings) -> dict[str, Any]:
    """Return the width, color and character set of standard output."""
    encoding = (sys.stdout.encoding or "").lower().replace("-", "")
    return {"width": _width(settings), "color": _has_color(settings), "unicode": encoding in {"utf8", "utf16"}}


def _has_color(settings: Settings) -> bool:
    """Return whether to color: the flag first, then NO_COLOR, FORCE_COLOR and CLICOLOR_FORCE, then the terminal."""
    if settings.color != "auto":
        return settings.color == "always"
    environ = os.environ
    if environ.get("NO_COLOR") or environ.get("TERM") == "dumb":
        return False
    if any(environ.get(name, "") not in ("", "0") for name in ("FORCE_COLOR", "CLICOLOR_FORCE")):
        return True
    return sys.stdout.isatty() and environ.get("CLICOLOR") != "0"


def _width(settings: Settings) -> int:
    if settings.width:
        return max(settings.width, _MIN_WIDTH)
    if not sys.stdout.isatty():
        return _FILE_WIDTH
    return max(shutil.get_terminal_size().columns, _MIN_WIDTH)
