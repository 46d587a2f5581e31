"""What a service account asked of the API server, from the server's own audit log."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.live.chart.permissions import Permission

_CREATED, _FORBIDDEN = 201, 403


class Request(NamedTuple):
    """One request: the permissions that it needed, in which namespace, and whether it was refused."""

    needs: tuple[Permission, ...]
    namespace: str
    is_refused: bool


def requests(log: Path, user: str) -> Iterator[Request]:
    """Yield the requests of a user for resources, as they were answered; not those as somebody else (impersonation)."""
    for line in log.read_text(encoding="utf-8").splitlines():
        event = json.loads(line)
        is_own = event["user"]["username"] == user and "impersonatedUser" not in event
        if is_own and event.get("objectRef", {}).get("resource"):
            yield _request(event)


def _request(event: dict[str, Any]) -> Request:
    where = event["objectRef"]
    name = "/".join(filter(None, (where["resource"], where.get("subresource"))))
    code = event.get("responseStatus", {}).get("code", 0)
    needs = [Permission(where.get("apiGroup", ""), name, event["verb"])]
    if event["verb"] == "patch" and code == _CREATED:  # server-side apply of an object that did not exist
        needs.append(needs[0]._replace(verb="create"))
    return Request(tuple(needs), where.get("namespace", ""), code == _FORBIDDEN)
