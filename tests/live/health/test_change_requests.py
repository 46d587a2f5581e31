"""Cases of node health on a forge: a change request for each, which stays closed if people close it."""

from tests.fakes.gitrepo import Sandbox
from tests.forge.project import RemoteBranches
from tests.forge.stub import StubForge, served
from tests.live.controller.gitserver import GitServer
from tests.live.controller.test_pass import push
from tests.live.health.fleet import FAST, LiveFleet, lost
from tests.live.health.test_rounds import Round, fleet, policy, run

__all__ = ["fleet", "run"]


def test_a_case_becomes_a_change_request(fleet: LiveFleet, server: GitServer, person: Sandbox, run: Round) -> None:
    """F-096, F-161: one, however many rounds; while the forge is down, nodes are marked and branches pushed."""
    stub = StubForge(kind="gitea", branches=RemoteBranches(server.git))
    with served(stub) as url:
        settings = (person.folder / "reconciler.yaml").read_text()
        forge = f"  forge: {{kind: gitea, url: {url!r}, repository: team/fleet}}\n  sources: [queues"
        files = {"reconciler.yaml": settings.replace("  sources: [queues", forge).encode()}
        push(person, {**policy(FAST), **files})
        secret = {"forgeToken": b"canary-token", "forgeHost": url.removeprefix("http://").encode()}
        bad = fleet.names[3]
        fleet.report(bad, lost())
        assert run(secret=secret).pushed, "what the fast lane did"
        stub.answers = ["failed"] * 100
        failed = run(secret=secret).failure
        assert failed is not None
        assert "502" in failed.message
        stub.answers = []
        for _ in range(2):
            assert run(secret=secret).failure is None
        (request,) = stub.requests
        assert (request.branch.startswith(f"health/{bad}-"), request.state, bad in request.body) == (True, "open", True)
