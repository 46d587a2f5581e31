"""The program of a `ReadingChild`: one line of JSON in asks for a sweep, lines of JSON out answer it.

The parent knows which call hangs by the line before it (`call`).
"""

import json
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from itertools import chain
from typing import Any


def _records(source: str, request: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield what a source reads. A library that cannot be imported is a reading too."""
    try:
        read = import_module(
            f"reconciler.nodehealth.readers.{source}_calls"
        ).sweep  # a child needs one of the libraries
    except Exception as error:  # noqa: BLE001 - amdsmi raises what it likes where there is no driver
        yield {"name": "init", "gpu": -1, "error": "no_library", "detail": f"{type(error).__name__}: {error}"[:200]}
    else:
        yield from read(request)


def main(source: str) -> int:
    """Answer requests until standard input ends."""
    for line in sys.stdin:
        for record in chain(_records(source, json.loads(line)), ({"end": True},)):
            sys.stdout.write(json.dumps(record) + "\n")
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
