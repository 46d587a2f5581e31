"""Signatures of webhooks as GitHub, GitLab and Gitea document them."""

import base64
import hashlib
import hmac
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.controller.process import Hint, Provider, check

TOKEN, NOW = b"It's a Secret to Everybody", 1_790_000_000.0
BODY = b'{"ref": "refs/heads/main", "after": "0"}'


def _hex(body: bytes = BODY, token: bytes = TOKEN) -> str:
    return hmac.new(token, body, hashlib.sha256).hexdigest()


def _standard(stamp: str, token: bytes = TOKEN) -> dict[str, str]:
    signature = hmac.new(token, f"id-1.{stamp}.".encode() + BODY, hashlib.sha256).digest()
    return {
        "webhook-id": "id-1",
        "webhook-timestamp": stamp,
        "webhook-signature": f"v1,bm9wZQ== v1,{base64.b64encode(signature).decode()}",
    }


GENUINE = [
    (Provider.GITHUB, {"x-hub-signature-256": f"sha256={_hex()}", "x-github-delivery": "d"}, "d"),
    (Provider.GITEA, {"x-gitea-signature": _hex(), "x-hub-signature-256": "sha256=0", "x-gitea-delivery": "d"}, "d"),
    (Provider.GITEA, {"x-forgejo-signature": _hex()}, ""),
    (Provider.GITLAB, {"x-gitlab-token": TOKEN.decode(), "x-gitlab-event-uuid": "d"}, "d"),
    (Provider.GITLAB, _standard(str(int(NOW) - 299)), "id-1"),
]


def test_the_example_of_github() -> None:
    """The value that GitHub's documentation gives for its own test."""
    sent = {"x-hub-signature-256": "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"}
    assert check(sent, b"Hello, World!", TOKEN, NOW).is_genuine


@pytest.mark.parametrize(("provider", "headers", "delivery"), GENUINE)
def test_genuine_requests_are_accepted(provider: Provider, headers: Mapping[str, str], delivery: str) -> None:
    expected = Hint(provider=provider, is_genuine=True, ref="refs/heads/main", delivery=delivery)
    assert check(headers, BODY, TOKEN, NOW) == expected


@pytest.mark.parametrize(("provider", "headers", "delivery"), GENUINE)
def test_another_token_or_body_is_refused(provider: Provider, headers: Mapping[str, str], delivery: str) -> None:
    assert not check(headers, BODY, b"other", NOW).is_genuine
    assert not check(headers, BODY, b"", NOW).is_genuine, "a source without a token accepts nothing"
    if "x-gitlab-token" not in headers:
        changed = check(headers, BODY + b" ", TOKEN, NOW)
        assert (changed.is_genuine, changed.ref) == (False, "")


@pytest.mark.parametrize("stamp", [str(int(NOW) - 400), str(int(NOW) + 400), "soon", "", "9" * 400, "\u0663"])
def test_an_old_request_is_not_replayed(stamp: str) -> None:
    assert not check(_standard(stamp), BODY, TOKEN, NOW).is_genuine


def test_a_token_of_standard_webhooks_is_decoded() -> None:
    key = bytes(range(24))
    assert check(_standard(str(int(NOW)), key), BODY, b"whsec_" + base64.b64encode(key), NOW).is_genuine


@given(
    headers=st.dictionaries(
        st.sampled_from(
            ["x-hub-signature-256", "x-gitea-signature", "x-gitlab-token", "webhook-signature", "webhook-id",
             "webhook-timestamp"]
        ),
        st.text(max_size=40),
    ),
    body=st.binary(max_size=60),
)  # fmt: skip
def test_any_request_is_answered(headers: dict[str, str], body: bytes) -> None:
    assert not check(headers, body, b"a token that nobody guesses", NOW).is_genuine
