"""Checked access to the keys of a `config.json`."""

from collections.abc import Mapping
from typing import Any

MAX_COUNT = 1_000_000_000
"""Upper limit of any number in a model, so that a hostile file cannot create huge integers."""


class UnsupportedModelError(ValueError):
    """A `config.json` that does not describe a supported architecture. The text is the reason."""


class ConfigKeys:
    """A `config.json`. Of several spellings of a key, the first that is present and not null counts."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.data = data

    def find(self, *keys: str) -> tuple[str, Any]:
        """Return the key that is present and its value; else the first key and None."""
        for key in keys:
            value = self.data.get(key)
            if value is not None:
                return key, value
        return keys[0], None

    def count(self, *keys: str, default: int | None = None, least: int = 1, most: int = MAX_COUNT) -> int:
        """Return an integer in `least..most`; raise UnsupportedModelError if it is missing or something else."""
        key, value = self.find(*keys)
        if value is None:
            if default is None:
                raise UnsupportedModelError(f"{' or '.join(keys)} is missing")
            return default
        if isinstance(value, list):  # some families have a value for each layer; equal values count as one
            value = value[0] if value and all(item == value[0] for item in value) else value
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise UnsupportedModelError(f"{key} must be an integer")
        if not least <= value <= most:
            raise UnsupportedModelError(f"{key} must be between {least} and {most}")
        return value

    def flag(self, *keys: str, default: bool) -> bool:
        """Return a boolean; raise UnsupportedModelError if it is something else."""
        key, value = self.find(*keys)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise UnsupportedModelError(f"{key} must be true or false")
        return value

    def text(self, key: str) -> str:
        """Return a string; empty if it is missing or something else."""
        value = self.data.get(key)
        return value if isinstance(value, str) else ""

    def items(self, *keys: str) -> list[Any]:
        """Return a list; empty if it is missing or something else."""
        value = self.find(*keys)[1]
        return value if isinstance(value, list) else []

    def section(self, *keys: str) -> "ConfigKeys | None":
        """Return a nested mapping; None if it is missing or empty."""
        value = self.find(*keys)[1]
        return ConfigKeys(value) if isinstance(value, Mapping) and value else None
