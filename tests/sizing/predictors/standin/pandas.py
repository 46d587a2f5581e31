"""As much of pandas as is asked of it."""

from typing import Any


class DataFrame:
    def __init__(self, rows: list[Any], columns: list[str]) -> None:
        self.rows = [dict(zip(columns, row, strict=True)) for row in rows]


class Column(list[Any]):
    def tolist(self) -> list[Any]:
        return list(self)
