"""Messages on standard error: lines for people, or one JSON object a line for machines.

What is told is told as `info` or `debug`, so that the library that tells it is imported only where one of them is
wanted.
"""

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import logging


class Log:
    """Messages of one module; nothing is said until `set_up` has imported what says it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def info(self, message: str, *values: object) -> None:
        """Tell what has been done."""
        if logging := sys.modules.get("logging"):
            logging.getLogger(self._name).info(message, *values)

    def debug(self, message: str, *values: object) -> None:
        """Tell what it was done with."""
        if logging := sys.modules.get("logging"):
            logging.getLogger(self._name).debug(message, *values)


def set_up(*, level: str, form: str) -> None:
    """Send messages of `level` and above to standard error, as `text` or `json`."""
    if level in _SILENT and "logging" not in sys.modules:
        return
    import logging  # noqa: PLC0415 - see above
    import time  # noqa: PLC0415 - only for the converter

    handler = logging.StreamHandler(sys.stderr)
    formatter = _json() if form == "json" else logging.Formatter("%(levelname)s: %(message)s")
    formatter.converter = time.gmtime
    handler.setFormatter(formatter)
    root = logging.getLogger("reconciler")
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    root.propagate = False


_SILENT = ("warning", "error")


def _json() -> "logging.Formatter":
    """Write one JSON object a line: time (UTC, RFC 3339), level, logger, message."""
    import json  # noqa: PLC0415 - see above
    import logging  # noqa: PLC0415 - see above

    class Json(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            entry = {
                "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S") + f".{int(record.msecs):03}Z",
                "level": record.levelname.lower(),
                "logger": record.name,
                "message": record.getMessage(),
            }
            if record.exc_info:
                entry["trace"] = self.formatException(record.exc_info)
            return json.dumps(entry, ensure_ascii=False)

    return Json()
