"""The connection of a preflight check to the agent of its node."""

from http import HTTPStatus

from reconciler.health.jobs.result import Send
from reconciler.http import Endpoint, HttpClient, HttpError

_SECONDS = 10.0


def to_agent(url: str) -> Send:
    """Return a function that puts a body to the agent. Raises `ConfigError` for a URL that is none."""
    client = HttpClient(Endpoint.parse(url, purpose="agent"), timeout_seconds=_SECONDS)

    def send(path: str, body: bytes) -> bytes:
        answer = client.send("PUT", path, body)
        if answer.status != HTTPStatus.OK:
            raise HttpError(f"the agent answered {answer.status}: {answer.body[:200].decode(errors='replace')}")
        return answer.body

    return send
