"""`make differential`: compare with a real API server on a large corpus and print the figures and the differences."""

import argparse
import sys
import tempfile
from pathlib import Path

from reconciler.__main__ import FRAMES
from tests.cluster.build import control_plane, crds, to_stderr
from tests.cluster.server import api_server, stored_state
from tests.differential.compare import ACCEPTED, FALSE_PASS, FALSE_REFUSAL, REFUSED, compare_all
from tests.differential.judging import Server
from tests.differential.requests import compare_requests, requests
from tests.differential.rules import compare_rules


def main() -> int:
    """Print the comparison; fail if anything passes here that the server refuses."""
    parser = argparse.ArgumentParser(
        description="Compare admission policies and rules of definitions with a real API server."
    )
    parser.add_argument("--count", type=int, default=1000, help="generated expressions")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    sys.setrecursionlimit(FRAMES)  # as the command does
    programs, definitions = control_plane(), crds()
    seed = stored_state(programs, definitions, to_stderr)
    with (
        tempfile.TemporaryDirectory() as folder,
        api_server(Path(folder) / "api-server", programs, definitions, seed=seed) as running,
    ):
        server = Server(running.client)
        found = compare_all(server, options.seed, options.count)
        found["Requests"] = compare_requests(server, running.client, requests(options.seed, options.count))
        found |= compare_rules(running.client, options.seed, options.count)
    differences = [one for part in found.values() for one in part.differences]
    for one in sorted(differences, key=lambda one: (one.kind, one.what)):
        print(f"{one.kind}: {one.what}\n  server: {one.theirs or 'accepts'}\n  ours:   {one.ours or 'accepts'}")  # noqa: T201
    for name, part in found.items():
        passes = part.count(FALSE_PASS) + part.count(ACCEPTED)
        refusals = part.count(FALSE_REFUSAL) + part.count(REFUSED)
        print(f"| {name} | {part.cases:,} | {100 * part.agreement:.1f} % | {passes} | {refusals} |")  # noqa: T201
    return int(any(one.kind in (FALSE_PASS, ACCEPTED) for one in differences))


if __name__ == "__main__":
    sys.exit(main())
