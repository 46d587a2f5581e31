"""Messages on standard error: lines for people, or one JSON object a line for machines."""

import json
import logging
import sys


class _Json(logging.Formatter):
    """One JSON object a line: time (UTC, RFC 3339), level, logger, message."""

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


def set_up(*, level: str, form: str) -> None:
    """Send messages of `level` and above to standard error, as `text` or `json`."""
    import time  # noqa: PLC0415 - only for the converter

    handler = logging.StreamHandler(sys.stderr)
    formatter = _Json() if form == "json" else logging.Formatter("%(levelname)s: %(message)s")
    formatter.converter = time.gmtime
    handler.setFormatter(formatter)
    root = logging.getLogger("reconciler")
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    root.propagate = False
