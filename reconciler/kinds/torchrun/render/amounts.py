"""Exact arithmetic with quantities of Kubernetes: shares of a node, and sizes for several GPUs."""

from fractions import Fraction
from functools import lru_cache

from reconciler.kube.patterns import later

_QUANTITY = later(r"(\d+(?:\.\d+)?)(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?")
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL = {"": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}


@lru_cache(maxsize=1024)
def times(quantity: str | int, count: int) -> str | None:
    """Return `quantity` x `count` in the same unit: 10Gi x 8 = 80Gi. None if it is not a quantity."""
    parts = _QUANTITY.fullmatch(str(quantity))
    if parts is None:
        return None
    return f"{_decimal(Fraction(parts[1]) * count)}{parts[2] or ''}"


@lru_cache(maxsize=1024)
def share_of_memory(quantity: str | int, part: int, whole: int) -> str | None:
    """Return `part`/`whole` of a size, whole in its unit if it can be, else rounded down to Mi."""
    parts = _QUANTITY.fullmatch(str(quantity))
    if parts is None or parts[2] == "m":
        return None
    share, unit = Fraction(parts[1]) * part / whole, parts[2] or ""
    if share.denominator == 1:
        return f"{share}{unit}"
    scale = 2 ** _BINARY[unit] if unit in _BINARY else 10 ** _DECIMAL[unit]
    return f"{share * scale // 2**20}Mi"


@lru_cache(maxsize=1024)
def share_of_cpus(quantity: str | int, part: int, whole: int) -> str | None:
    """Return `part`/`whole` of a number of CPUs, rounded down to thousandths."""
    parts = _QUANTITY.fullmatch(str(quantity))
    if parts is None or parts[2] not in (None, "m"):
        return None
    thousandths = Fraction(parts[1]) * (1 if parts[2] else 1000) * part // whole
    return str(thousandths // 1000) if thousandths % 1000 == 0 else f"{thousandths}m"


def whole_cpus(quantity: str | int) -> int:
    """Return the whole CPUs of a quantity, at least 1."""
    share = share_of_cpus(quantity, 1, 1) or "1"
    return max(1, int(share.removesuffix("m")) // (1000 if share.endswith("m") else 1))


def _decimal(value: Fraction) -> str:
    """Format an exact decimal, whose denominator divides a power of ten."""
    if value.denominator == 1:
        return str(value.numerator)
    digits = 0
    while (value * 10**digits).denominator != 1:
        digits += 1
    text = str(value.numerator * 10**digits // value.denominator).rjust(digits + 1, "0")
    return f"{text[:-digits]}.{text[-digits:]}"
