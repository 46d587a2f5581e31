"""Incoming webhooks of chat programs. Their URLs are secrets as a whole: no message names more than the host."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from reconciler.adapters.http import Endpoint, HttpClient, HttpError, HttpUnavailable
from reconciler.errors import ConfigError, one_line

_TIMEOUT = 10.0
_REDIRECTS = 300


class IncomingWebhook:
    """One webhook. Threads may share it."""

    def __init__(self, url: str, *, timeout_seconds: float = _TIMEOUT) -> None:
        """Take the URL. A wrong one is a `ConfigError`, which does not repeat it."""
        try:
            parts = urlsplit(url.strip())
        except ValueError:
            raise ConfigError("the URL of the webhook is not valid") from None
        host = f"{parts.scheme}://{parts.netloc}"
        self._client = HttpClient(Endpoint.parse(host, purpose="webhook"), timeout_seconds=timeout_seconds)
        self._path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")

    @property
    def host(self) -> str:
        """Where messages go, for logs."""
        return self._client.endpoint.url

    def post(self, body: Mapping[str, Any]) -> None:
        """Send a message. Raises `HttpError`; a server that refuses it is asked again only if it was busy."""
        answer = self._client.send("POST", self._path, msgspec.json.encode(body))
        if answer.status >= _REDIRECTS:
            error = HttpUnavailable if answer.status == 429 or answer.status >= 500 else HttpError  # noqa: PLR2004
            raise error(
                f"{self.host} answered {answer.status}: {one_line(answer.body[:200].decode('utf-8', 'replace'))}"
            )
