"""Record how the real kubectl reads YAML and prints quantities: `make kubectl-records`.

Runs the kubectl on PATH over the cases of the tests and writes the records that the tests compare with.
"""

import json
from typing import Any

from tests.kube import kubectl_quantities as quantities
from tests.kube.yaml import kubectl_dialect as dialect


def dialect_record() -> dict[str, Any]:
    """Return what kubectl makes of every scalar, key, document and stream."""
    return {
        "scalars": dialect.ask_scalars(dialect.SCALARS),
        "keys": dialect.ask_keys(dialect.KEYS),
        "documents": {name: dialect.ask(dialect.whole_text(name)) for name in (*dialect.DOCUMENTS, *dialect.WHOLE)},
        "streams": dialect.ask_streams(dialect.STREAMS),
    }


def main() -> None:
    """Write both records."""
    printed = {text: quantities.ask(text) for text in quantities.CASES}
    quantities.RECORD.write_text(json.dumps(printed, indent=1) + "\n", encoding="utf-8")
    dialect.RECORD.write_text(json.dumps(dialect_record(), indent=1, ensure_ascii=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
