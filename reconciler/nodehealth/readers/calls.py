"""Records of calls into a library: one before each call, so that a hang says where it is, and one after it."""

import time
from collections.abc import Callable, Iterator
from typing import Any

Record = dict[str, Any]
NODE = -1
"""The index of the node itself, in records about no GPU."""


def asked(
    name: str, gpu: int, call: Callable[[], Any], error_of: Callable[[Exception], tuple[str, str]]
) -> Iterator[Record]:
    """Yield the records of one call: its name, then its value, or the word and the text that `error_of` has for it."""
    yield {"call": name, "gpu": gpu}
    start = time.perf_counter()
    record: Record = {"name": name, "gpu": gpu}
    try:
        record["value"] = call()
    except Exception as error:  # noqa: BLE001 - of the library, or of its binding: a reading too
        record["error"], record["detail"] = error_of(error)
    record["ms"] = round((time.perf_counter() - start) * 1000, 3)
    yield record
