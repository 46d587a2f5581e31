"""Messages to people by incoming webhooks: formats of Slack, Teams and JSON, and the receivers that a Secret names."""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

from msgspec import Struct

from reconciler.errors import ConfigError, ReconcilerError
from reconciler.http import IncomingWebhook

_SLACK_TITLE, _SLACK_TEXT = 150, 3000  # characters that Slack takes in a block
_MAX_COUNT = 20  # messages at one time: more are one that says so


class NoticeFormat(StrEnum):
    """The format of a receiver: an incoming webhook of Slack, one of Teams, or anything that reads JSON."""

    SLACK = "slack"
    TEAMS = "teams"
    JSON = "json"


KEYS: Mapping[str, NoticeFormat] = {
    "slack-url": NoticeFormat.SLACK,
    "webhook-url": NoticeFormat.SLACK,
    "teams-url": NoticeFormat.TEAMS,
    "json-url": NoticeFormat.JSON,
}
"""Keys of the Secret, each a URL, and what is sent there."""

Receivers = Sequence[tuple[IncomingWebhook, NoticeFormat]]

Told = Mapping[str, str]
"""The stages that people were told of, by key. What is not in it is over, or never was."""


class Notice(Struct, frozen=True, kw_only=True):
    """One message. `key` names what it is about, `stage` how far that is: a message is new if its stage is."""

    key: str
    stage: str
    title: str
    text: str = ""
    is_over: bool = False


def receivers_in(folder: str) -> Receivers:
    """Return the receivers of a mounted Secret. Raises `ConfigError` for a URL that is none."""
    found = []
    for name, form in KEYS.items():
        path = Path(folder) / name
        if folder and path.is_file():
            found.append((IncomingWebhook(path.read_text(encoding="utf-8")), form))
    return found


def webhook_in(folder: str, key: str) -> IncomingWebhook:
    """Return one webhook of a mounted Secret. Raises `ConfigError` if it has none with this key."""
    try:
        return IncomingWebhook((Path(folder or "/nowhere") / key).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"the Secret of webhooks has no key {key}") from error


def payload(message: Notice, form: NoticeFormat) -> dict[str, Any]:
    """Return the body of the request."""
    match form:
        case NoticeFormat.SLACK:
            title = {"type": "plain_text", "text": message.title[:_SLACK_TITLE]}
            slack: list[dict[str, Any]] = [{"type": "header", "text": title}]
            if message.text:
                slack.append({"type": "section", "text": {"type": "plain_text", "text": message.text[:_SLACK_TEXT]}})
            return {"text": message.title, "blocks": slack}
        case NoticeFormat.TEAMS:
            blocks = [{"type": "TextBlock", "text": message.title, "weight": "bolder", "wrap": True}]
            blocks += [{"type": "TextBlock", "text": message.text, "wrap": True}] if message.text else []
            card = {"type": "AdaptiveCard", "version": "1.4", "body": blocks}
            content = {"contentType": "application/vnd.microsoft.card.adaptive", "content": card}
            return {"type": "message", "attachments": [content]}
        case NoticeFormat.JSON:
            status = "resolved" if message.is_over else "firing"
            return {"status": status, "key": message.key, "title": message.title, "text": message.text}


def send(
    new: Sequence[Notice], told: Told, receivers: Receivers, failed: Callable[[str], None], cluster: str = ""
) -> dict[str, str]:
    """Send messages; return what people know then. What no receiver took is still new."""
    sent = []
    for message in _bounded(new, cluster):
        taken = [_post(receiver, payload(message, form), failed) for receiver, form in receivers]
        if any(taken):
            sent.append(message)
    is_cut = len(new) > _MAX_COUNT and len(sent) == _MAX_COUNT
    left = dict(told)
    for one in new if is_cut else sent:
        if one.is_over:
            left.pop(one.key, None)
        else:
            left[one.key] = one.stage
    return dict(sorted(left.items()))


def _post(receiver: IncomingWebhook, body: dict[str, object], failed: Callable[[str], None]) -> bool:
    try:
        receiver.post(body)
    except ReconcilerError as error:
        failed(error.message)
        return False
    return True


def _bounded(new: Sequence[Notice], cluster: str) -> Sequence[Notice]:
    """Return at most 20 messages: the last of many says how many there are."""
    if len(new) <= _MAX_COUNT:
        return new
    rest = len(new) - _MAX_COUNT + 1
    more = Notice(key=f"{cluster}/more", stage="", title=f"{rest} more changes of node health", is_over=True)
    return [*new[: _MAX_COUNT - 1], more]
