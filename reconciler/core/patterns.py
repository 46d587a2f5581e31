"""Regular expressions that are compiled on first use: compiling all of them takes 5% of a quick plan."""

import re
from typing import Any, AnyStr, cast


def later(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return a stand-in for `re.compile(pattern, flags)` that compiles on first use."""
    return cast("re.Pattern[AnyStr]", _Later(pattern, flags))


class _Later:
    def __init__(self, pattern: Any, flags: int) -> None:
        self._expression = (pattern, flags)

    def __getattr__(self, name: str) -> Any:
        value = getattr(re.compile(*self._expression), name)
        setattr(self, name, value)  # cached on the instance
        return value
