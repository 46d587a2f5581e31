"""A service with ado's REST API that recommends a number of GPUs."""

from msgspec import Struct

from reconciler.core.engines.engine import Engine


class RestSettings(Struct, frozen=True, kw_only=True, rename="camel"):
    """`spec.sizing.rest`: the URL, the timeout of one HTTP call, and the deadline for an answer."""

    url: str
    timeout_seconds: int = 30
    deadline_seconds: int = 600


REST = Engine(name="rest", recommends=True, settings=RestSettings, required="url")
