"""Log messages on standard error, as lines of text or as one JSON object per line.

All messages of commands have the level info or debug, so `logging` is imported only if one of these levels is enabled.
The controller alone logs warnings and errors.
"""

import sys


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
    from reconciler.console.log_lines import log_to_standard_error  # noqa: PLC0415 - see above

    log_to_standard_error(level, form)


_SILENT = ("warning", "error")
