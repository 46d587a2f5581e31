"""Regular expressions that are compiled on first use: compiling all of them takes 5% of a quick plan."""

import re
from typing import Any, cast


def later(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Return a stand-in for `re.compile(pattern, flags)` that compiles on first use."""
    return cast("re.Pattern[str]", _Later(pattern, flags))


class _Later:
    def __init__(self, pattern: str, flags: int) -> None:
        self._expression = (pattern, flags)

    def __getattr__(self, name: str) -> Any:
        value = getattr(re.compile(*self._expression), name)
        setattr(self, name, value)  # cached on the instance
        return value
