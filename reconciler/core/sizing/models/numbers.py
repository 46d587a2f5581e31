"""Checked reading of the numbers in a `config.json`."""

from collections.abc import Mapping
from typing import Any

COUNT = 1_000_000_000
"""No number of a model is larger: keeps hostile files from making integers without end."""


class UnreadableError(ValueError):
    """A config.json that tells no architecture; the text says why."""


class Numbers:
    """A `config.json`, key by key; the first of several spellings that is present and not null counts."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.data = data

    def find(self, *keys: str) -> tuple[str, Any]:
        """Return the key that is present, with its value; otherwise the first key, with None."""
        for key in keys:
            value = self.data.get(key)
            if value is not None:
                return key, value
        return keys[0], None

    def count(self, *keys: str, default: int | None = None, least: int = 1, most: int = COUNT) -> int:
        """Return a whole number in `least..most`; raise UnreadableError where it is missing or another thing."""
        key, value = self.find(*keys)
        if value is None:
            if default is None:
                raise UnreadableError(f"{' or '.join(keys)} is missing")
            return default
        if isinstance(value, list):  # some families give a value a layer; equal ones mean one
            value = value[0] if value and all(item == value[0] for item in value) else value
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise UnreadableError(f"{key} must be a whole number")
        if not least <= value <= most:
            raise UnreadableError(f"{key} must be {least} to {most}")
        return value

    def flag(self, *keys: str, default: bool) -> bool:
        """Return a boolean; raise UnreadableError where it is another thing."""
        key, value = self.find(*keys)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise UnreadableError(f"{key} must be true or false")
        return value

    def text(self, key: str) -> str:
        """Return a string; empty where it is missing or another thing."""
        value = self.data.get(key)
        return value if isinstance(value, str) else ""

    def items(self, *keys: str) -> list[Any]:
        """Return a list; empty where it is missing or another thing."""
        value = self.find(*keys)[1]
        return value if isinstance(value, list) else []

    def section(self, *keys: str) -> "Numbers | None":
        """Return a nested mapping; None where there is none."""
        value = self.find(*keys)[1]
        return Numbers(value) if isinstance(value, Mapping) and value else None
