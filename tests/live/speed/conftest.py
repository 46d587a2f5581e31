"""A config repository beside a real API server, and the requests that a command makes."""

from collections import Counter

import pytest

from reconciler.kube.client.transport import ApiAnswer, ApiCall, Transport
from tests.cli.conftest import fleet, new_repository
from tests.live.apply.conftest import namespace_name, site

__all__ = ["fleet", "namespace_name", "new_repository", "site"]


class Requests:
    """The requests since the last look, by what they do: `list`, `read`, `dry-run`, `apply` and so on."""

    def __init__(self) -> None:
        self._seen: list[ApiCall] = []

    def add(self, call: ApiCall) -> None:
        self._seen.append(call)

    def take(self) -> Counter[str]:
        """Return the number of requests by the first word of their purpose, and forget them."""
        seen, self._seen = self._seen, []
        return Counter(call.purpose.partition(" ")[0] for call in seen)


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> Requests:
    """Note every request to an API server."""
    made, send = Requests(), Transport.send

    def noted(self: Transport, call: ApiCall) -> ApiAnswer:
        made.add(call)
        return send(self, call)

    monkeypatch.setattr(Transport, "send", noted)
    return made
