"""The forms of log messages; imported once a level is enabled at which anything is logged."""

import json
import logging
import sys
import time

from reconciler.console.printable import clean_output
from reconciler.kube.secrets import mask_tokens


class TextLines(logging.Formatter):
    """Lines on which nothing acts on a terminal or a build server."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the message with its fields."""
        fields = getattr(record, "fields", {})
        pairs = "".join(f" {name}={value}" for name, value in fields.items() if value not in ("", None))
        return clean_output(mask_tokens(super().format(record) + pairs))


class JsonLines(logging.Formatter):
    """JSON objects with time (UTC, RFC 3339), level, logger and message."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one object."""
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


def log_to_standard_error(level: str, form: str) -> None:
    """Log messages of `level` and above to standard error; `form` is `text` or `json`."""
    handler = logging.StreamHandler(sys.stderr)
    formatter = JsonLines() if form == "json" else TextLines("%(levelname)s: %(message)s")
    formatter.converter = time.gmtime
    handler.setFormatter(formatter)
    root = logging.getLogger("reconciler")
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    root.propagate = False
