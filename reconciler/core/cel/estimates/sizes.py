"""Ranges of sizes, and costs, as cel-go estimates them: 64 bits without a sign, which stop at the largest number.

Source: cel-go 0.26, checker/cost.go and common/cost.go.
"""

import math
from typing import NamedTuple

MOST = 2**64 - 1
TRAVERSAL, REGEX = 0.1, 0.25
"""What each character of a text costs, and each one of a pattern for each unit of the text."""


class SizeRange(NamedTuple):
    """How long a text, list or map can be: characters, items or entries."""

    least: int
    most: int

    def plus(self, other: "SizeRange") -> "SizeRange":
        """Return the size of both after each other."""
        return SizeRange(capped(self.least + other.least), capped(self.most + other.most))

    def times(self, other: "SizeRange") -> "SizeRange":
        """Return the product."""
        return SizeRange(capped(self.least * other.least), capped(self.most * other.most))

    def union(self, other: "SizeRange") -> "SizeRange":
        """Return a range with both."""
        return SizeRange(min(self.least, other.least), max(self.most, other.most))

    def cost(self, factor: float = TRAVERSAL) -> int:
        """Return the highest cost of looking at all of it."""
        return scaled(self.most, factor)


UNKNOWN = SizeRange(0, MOST)


def exactly(size: int) -> SizeRange:
    """Return the range of one size."""
    return SizeRange(size, size)


def capped(number: int) -> int:
    """Return a number, or the largest one."""
    return min(number, MOST)


def scaled(number: int, factor: float) -> int:
    """Return a multiple, rounded up."""
    return capped(math.ceil(float(number) * factor))
