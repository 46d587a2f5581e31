"""A script of the user that recommends a number of GPUs."""

from msgspec import Struct

from reconciler.core.engines.engine import Engine


class WrapperSettings(Struct, frozen=True, kw_only=True, rename="camel"):
    """`spec.sizing.wrapper`: the path of the script, and how long one run may take."""

    script: str
    timeout_seconds: int = 120


WRAPPER = Engine(name="wrapper", recommends=True, settings=WrapperSettings, required="script")
