"""The child process that calls NVML: one line of JSON in asks for a sweep, lines of JSON out answer it.

A call may hang in the kernel, where nothing can end it: the parent knows which one by the line before it.
"""

import json
import sys
from collections.abc import Iterator
from itertools import chain
from typing import Any


def _records(skipped: frozenset[int]) -> Iterator[dict[str, Any]]:
    try:
        from reconciler.adapters.node.nvml_calls import sweep  # noqa: PLC0415 - the binding may be missing
    except ImportError as error:
        yield {"name": "init", "gpu": -1, "error": "no_library", "detail": str(error)}
    else:
        yield from sweep(skipped)


def main() -> int:
    """Answer requests until standard input ends."""
    for line in sys.stdin:
        for record in chain(_records(frozenset(json.loads(line)["skip"])), ({"end": True},)):
            sys.stdout.write(json.dumps(record) + "\n")
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
