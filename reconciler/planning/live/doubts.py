"""What a server refuses or cannot say, as a plan reports it."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from reconciler.core.secrets import KnownSecrets, secret_leaves
from reconciler.planning.live.probe import Probe, ServerReply

_HINTS = {
    ServerReply.NO_PLACE: "add its namespace or its CRD to the sources, or create it",
    ServerReply.REFUSED: "change the object, or what refuses it",
    ServerReply.GOING: "plan again when the namespace is gone",
    ServerReply.UNKNOWN: "plan again when the server can answer",
}


class Doubt(Struct, frozen=True, kw_only=True):
    """What a server refused (`is_refused`) or could not say about a desired object or a kind."""

    path: str
    message: str
    field: str = ""
    hint: str = ""
    is_refused: bool = False


def doubt_of(path: str, answer: Probe, body: Mapping[str, Any]) -> Doubt:
    """Return why a dry run of a desired object failed, without its secrets."""
    return Doubt(
        path=path,
        message=KnownSecrets(secret_leaves(body)).mask(answer.message),
        field=answer.causes[0].field if len(answer.causes) == 1 else "",
        hint=_HINTS[answer.reply],
        is_refused=answer.reply not in (ServerReply.UNKNOWN, ServerReply.GOING),
    )
