"""The speed and the cost of a layout: by the hour, and by the token that it trains."""

from msgspec import Struct

from reconciler.sizing.gpus import Gpu

_SECONDS = 3600
_MILLION = 1e6


class Throughput(Struct, frozen=True, kw_only=True):
    """Tokens per second of all GPUs together. Nine of ten measured runs were between `low` and `high`.

    `uncertainties` name what widens the range beyond that of dense models with 16-bit weights on NVLink.
    """

    tokens_per_s: float
    low: float
    high: float
    uncertainties: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the prediction with its range."""
        return f"{self.tokens_per_s:,.0f} tokens/s ({self.low:,.0f} to {self.high:,.0f})"


class Cost(Struct, frozen=True, kw_only=True):
    """The cost of a layout, per hour of all GPUs and per million tokens; None if the speed is unknown.

    `currency` is that of the repository's prices. It is empty if the GPU has none there: the cost is then relative, an
    hour of an A100 with 80 GB being 1, and only good to compare GPU products.
    """

    per_hour: float
    per_million_tokens: float | None
    currency: str = ""


def layout_cost(gpu: Gpu, gpus: int, speed: Throughput | None, *, relative: bool = False) -> Cost:
    """Return the cost of `gpus` GPUs that train at a speed; `relative`: even if the repository has a price."""
    currency = "" if relative else gpu.currency
    per_hour = gpus * (gpu.hourly if currency else gpu.price)
    tokens = None if speed is None else speed.tokens_per_s * _SECONDS
    return Cost(
        per_hour=per_hour,
        per_million_tokens=None if not tokens else per_hour / tokens * _MILLION,
        currency=currency,
    )
