"""Regular expressions that are compiled when they are first used: all of them take a twentieth of a quick plan."""

import re
from typing import Any, cast


def later(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Return what stands for `re.compile(pattern, flags)`."""
    return cast("re.Pattern[str]", _Later(pattern, flags))


class _Later:
    def __init__(self, pattern: str, flags: int) -> None:
        self._expression = (pattern, flags)

    def __getattr__(self, name: str) -> Any:
        value = getattr(re.compile(*self._expression), name)
        setattr(self, name, value)  # found at once from now on
        return value
