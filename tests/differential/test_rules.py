"""Rules in CEL of definitions: a real API server takes the same ones, and says the same of objects and changes."""

import pytest

from tests.cluster.server import ApiServer
from tests.differential.rules import PlacedRule, compare_definitions, compare_objects, generated, malformed, placed

CASES, ANSWERS = 270, 1_700


@pytest.fixture(scope="module")
def usable(api_server: ApiServer) -> list[PlacedRule]:
    """Return the rules that the server and we accept; the server refuses no others, and neither do we."""
    found, usable = compare_definitions(api_server.client, [*placed(), *malformed(), *generated(5, 20)])
    assert found.differences == ()
    assert found.cases >= CASES
    return usable


def test_rules_say_the_same_of_objects_and_changes(api_server: ApiServer, usable: list[PlacedRule]) -> None:
    """F-053: also which field a rule names, and its words."""
    found = compare_objects(api_server.client, usable)
    assert found.differences == ()
    assert found.cases >= ANSWERS
