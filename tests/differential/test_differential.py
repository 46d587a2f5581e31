"""A sample of what `make differential` asks: nothing passes here that a real API server refuses."""

import pytest

from tests.cluster.server import ApiServer
from tests.differential.compare import (
    ACCEPTED,
    FALSE_PASS,
    Comparison,
    about_fields,
    compare_expressions,
    compare_policies,
    generated,
    hand_written,
)
from tests.differential.corpus import OBJECTS, malformed
from tests.differential.generator import Expressions
from tests.differential.judging import Server, case_name, labelled, policy, we_judge
from tests.differential.requests import compare_requests, requests

AGREEMENT, FIELDS_AGREEMENT, REQUESTS_AGREEMENT = 0.98, 1.0, 1.0


@pytest.fixture(scope="module")
def server(private_server: ApiServer) -> Server:
    """Ask a server that no other test changes meanwhile."""
    return Server(private_server.client)


def unsafe(found: Comparison) -> list[tuple[str, str, str]]:
    return [(one.what, one.theirs, one.ours) for one in found.differences if one.kind in (FALSE_PASS, ACCEPTED)]


def test_no_policy_is_accepted_that_the_server_refuses(server: Server) -> None:
    found = compare_policies(server, malformed())
    assert unsafe(found) == []
    assert found.agreement >= AGREEMENT, found.differences


def test_no_expression_passes_that_the_server_denies(server: Server) -> None:
    found = compare_expressions(server, [*hand_written()[::5], *generated(7, 40)])
    assert unsafe(found) == []
    assert found.agreement >= AGREEMENT, found.differences


def test_no_field_is_there_that_the_server_lacks(server: Server) -> None:
    found = compare_expressions(server, about_fields(server)[::8])
    assert unsafe(found) == []
    assert found.agreement >= FIELDS_AGREEMENT, found.differences


def test_requests_are_matched_as_a_server_matches_them(private_server: ApiServer, server: Server) -> None:
    """Creations, updates and deletions by a known user, with versions and plurals that nobody can guess."""
    found = compare_requests(server, private_server.client, requests(5, 80))
    assert unsafe(found) == []
    assert found.agreement >= REQUESTS_AGREEMENT, found.differences


def test_a_policy_that_costs_too_much_fails_as_a_whole(private_server: ApiServer, server: Server) -> None:
    """Each of the expressions is cheap enough by itself."""
    costly = "lists.range(340).all(a, lists.range(340).all(b, a + b >= 0))"
    told = []
    names = case_name(0), case_name(1)
    with server.installed([policy(name, [costly] * count) for name, count in zip(names, (9, 15), strict=True)]):
        for name in names:
            (result,) = private_server.client.apply_dry_run([labelled(OBJECTS[0], name)])
            told.append(" ".join(result.warnings))
    assert [set(we_judge(OBJECTS[0], [costly] * count)) for count in (9, 15)] == [{"pass"}, {"pass", "error"}]
    assert ["running out of cost budget" in text for text in told] == [False, True], told


def test_a_seed_gives_the_same_expressions() -> None:
    one, other = (Expressions(3, OBJECTS[0]) for _ in range(2))
    assert [one.one() for _ in range(50)] == [other.one() for _ in range(50)]
