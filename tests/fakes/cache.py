"""A cache in memory that behaves like the one on disk."""


class MemoryCache:
    """Keeps everything until it is dropped."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    def get(self, key: str) -> bytes | None:
        """Return what was put under this key, or None."""
        return self.kept.get(key)

    def put(self, key: str, value: bytes) -> None:
        """Keep a value."""
        self.kept[key] = value
