"""Tell people about node health: each new message once, to every webhook of a folder."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from reconciler.adapters.webhooks import IncomingWebhook
from reconciler.core.health.exports.notices import HealthNotice, NoticeFormat, Told, notices, payload, told_after
from reconciler.core.health.fleet.decisions import FleetEvaluation
from reconciler.errors import ReconcilerError

KEYS: Mapping[str, NoticeFormat] = {
    "slack-url": NoticeFormat.SLACK,
    "webhook-url": NoticeFormat.SLACK,
    "teams-url": NoticeFormat.TEAMS,
    "json-url": NoticeFormat.JSON,
}
"""Keys of the Secret, each a URL, and what is sent there."""

_MOST = 20  # messages at one time: more are one that says so


def webhooks(folder: str) -> list[tuple[IncomingWebhook, NoticeFormat]]:
    """Return the webhooks of a mounted Secret. Raises `ConfigError` for a URL that is none."""
    found = []
    for name, form in KEYS.items():
        path = Path(folder) / name
        if folder and path.is_file():
            found.append((IncomingWebhook(path.read_text(encoding="utf-8")), form))
    return found


def tell(
    evaluation: FleetEvaluation,
    told: Told,
    receivers: Sequence[tuple[IncomingWebhook, NoticeFormat]],
    failed: Callable[[str], None],
    cluster: str = "",
) -> dict[str, str]:
    """Send what is new; return what people know now. What no webhook took is sent again in the next round."""
    if not receivers:
        return dict(told)
    new = notices(evaluation, told, cluster)
    sent: list[HealthNotice] = []
    for notice in _bounded(new, cluster):
        taken = [_post(receiver, payload(notice, form), failed) for receiver, form in receivers]
        if any(taken):
            sent.append(notice)
    is_cut = len(new) > _MOST and len(sent) == _MOST
    return told_after(told, new if is_cut else tuple(sent))


def _post(receiver: IncomingWebhook, body: dict[str, object], failed: Callable[[str], None]) -> bool:
    try:
        receiver.post(body)
    except ReconcilerError as error:
        failed(error.message)
        return False
    return True


def _bounded(new: tuple[HealthNotice, ...], cluster: str) -> Sequence[HealthNotice]:
    """Return at most 20 messages: the last of many says how many there are."""
    if len(new) <= _MOST:
        return new
    rest = len(new) - _MOST + 1
    more = HealthNotice(key=f"{cluster}/more", stage="", title=f"{rest} more changes of node health", is_over=True)
    return [*new[: _MOST - 1], more]
