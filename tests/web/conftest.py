"""One browser for the tests of a worker."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.web.browsers import started


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Return the browser."""
    with started() as found:
        yield found
