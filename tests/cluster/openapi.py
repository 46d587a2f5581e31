"""Write the OpenAPI v3 documents of the running server to a folder: `python -m tests.cluster.openapi FOLDER`.

One JSON file a group-version, `apis__batch__v1.json`; `schemas/kubernetes/` is made from them.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

from tests.cluster.build import control_plane, crds, to_stderr
from tests.cluster.server import ApiServer, api_server


def dump(server: ApiServer, folder: Path) -> list[Path]:
    """Write each document with sorted keys, so that two dumps of one server are the same bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, body in sorted(server.openapi().items()):
        path = folder / f"{name.replace('/', '__')}.json"
        path.write_text(json.dumps(body, sort_keys=True, separators=(",", ":")) + "\n", encoding="utf-8")
        written.append(path)
    return written


def main() -> int:
    """Start the server, dump, stop it; return the exit code."""
    parser = argparse.ArgumentParser(description="Dump the OpenAPI v3 documents of the tests' API server.")
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as state,
        api_server(Path(state) / "api-server", control_plane(), crds()) as server,
    ):
        written = dump(server, options.folder)
    to_stderr(f"{len(written)} documents in {options.folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
