"""Log messages on standard error, as lines of text or as one JSON object per line.

All messages of commands have the level info or debug, so `logging` is imported only if one of these levels is enabled.
The controller alone logs warnings and errors.
"""

import sys
from typing import TYPE_CHECKING

from reconciler.console.printable import clean_output
from reconciler.kube.secrets import mask_tokens

if TYPE_CHECKING:
    import logging


class Log:
    """The log of one module. It is silent until `set_up` imports `logging`."""

    def __init__(self, name: str) -> None:
        self._name = name

    def info(self, message: str, *values: object) -> None:
        """Log what was done."""
        if logging := sys.modules.get("logging"):
            logging.getLogger(self._name).info(message, *values)

    def debug(self, message: str, *values: object) -> None:
        """Log details, for debugging."""
        if logging := sys.modules.get("logging"):
            logging.getLogger(self._name).debug(message, *values)

    def event(self, level: str, message: str, **fields: object) -> None:
        """Log with fields of their own in JSON, for programs that run for long; in text they follow the message."""
        if logging := sys.modules.get("logging"):
            number = logging.getLevelNamesMapping()[level.upper()]
            logging.getLogger(self._name).log(number, message, extra={"fields": fields})


def set_up(*, level: str, form: str) -> None:
    """Log messages of `level` and above to standard error; `form` is `text` or `json`."""
    if level in _SILENT and "logging" not in sys.modules:
        return
    import logging  # noqa: PLC0415 - see above
    import time  # noqa: PLC0415 - only for the converter

    handler = logging.StreamHandler(sys.stderr)
    formatter = _json() if form == "json" else _text()
    formatter.converter = time.gmtime
    handler.setFormatter(formatter)
    root = logging.getLogger("reconciler")
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    root.propagate = False


_SILENT = ("warning", "error")


def _text() -> "logging.Formatter":
    """Return a formatter that writes lines on which nothing acts on a terminal or a build server."""
    import logging  # noqa: PLC0415 - see above

    class Text(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            fields = getattr(record, "fields", {})
            pairs = "".join(f" {name}={value}" for name, value in fields.items() if value not in ("", None))
            return clean_output(mask_tokens(super().format(record) + pairs))

    return Text("%(levelname)s: %(message)s")


def _json() -> "logging.Formatter":
    """Return a formatter that writes JSON objects with time (UTC, RFC 3339), level, logger and message."""
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
            entry |= {name: value for name, value in getattr(record, "fields", {}).items() if value not in ("", None)}
            if record.exc_info:
                entry["trace"] = self.formatException(record.exc_info)
            return clean_output(mask_tokens(json.dumps(entry, ensure_ascii=False)), form="json")

    return Json()
