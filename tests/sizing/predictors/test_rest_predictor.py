"""The REST engine against real servers: those that work, those that are slow, and those that lie."""

import shutil
import ssl
import subprocess
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import ConfigError, PredictorError, PredictorUnavailable
from reconciler.http import Endpoint, HttpResponse
from reconciler.sizing.config import Goal
from reconciler.sizing.engine_registry import REST, Outcome
from reconciler.sizing.engines.rest import RestPredictor
from tests.sizing.predictors.asking import asked
from tests.sizing.predictors.server import Act, Scripted, answer, cut, hang, serving, trickle

if TYPE_CHECKING:
    from reconciler.sizing.engines.port import DeferredPredictor

PATH = "/api/latest/actuators/custom_experiments/experiments/min_gpu_recommender/requests"
ACCEPTED = answer(200, ["f6db88"])


def measured(*results: Any, **said: Any) -> dict[str, Any]:
    """Make the answer of ado's server."""
    measurements = [
        {"value": value, "property": {"targetProperty": {"identifier": name}}} for name, value in said.items()
    ]
    found = [*results, {"measurements": measurements}] if said else list(results)
    return {"entities": [{"identifier": "", "measurement_results": found}], "requestid": "f6db88"}


DONE = answer(200, measured(can_recommend=1, gpus=4, workers=2))


def predictor(server: Scripted | str, **limits: Any) -> RestPredictor:
    url = server if isinstance(server, str) else server.url
    return RestPredictor(url, **{"call_seconds": 60, "patience_seconds": 60, "pauses": (0.01,), **limits})


def test_submit_and_poll() -> None:
    """F-010: POST gives an id; 404 twice is pending; 200 is the answer."""
    with serving(ACCEPTED, answer(404), answer(404), DONE) as server:
        found: DeferredPredictor = predictor(server)
        with found:
            said = found.predict(asked())
    assert (said.engine, said.outcome, said.gpus, said.workers) == (REST, Outcome.RECOMMENDATION, 4, 2)
    assert said.request == "f6db88"
    assert dict(said.versions) == {"server": server.url, "model": "3.1.0"}
    assert [(one.method, one.path) for one in server.said] == [("POST", PATH), *[("GET", f"{PATH}/f6db88")] * 3]
    [entity] = server.said[0].body
    assert entity["identifier"] == ""
    assert {
        (value["property"]["identifier"], value["valueType"], value["value"])
        for value in entity["constitutive_property_values"]
    } == {
        ("model_name", "STRING_VALUE_TYPE", "small"),
        ("method", "STRING_VALUE_TYPE", "full"),
        ("gpu_model", "STRING_VALUE_TYPE", "A"),
        ("model_version", "STRING_VALUE_TYPE", "3.1.0"),
        ("tokens_per_sample", "NUMERIC_VALUE_TYPE", 512),
        ("batch_size", "NUMERIC_VALUE_TYPE", 8),
    }
    assert server.said[0].headers["Content-Type"] == "application/json"


def test_a_later_run_resumes_without_asking_again() -> None:
    """F-010: what is not answered in time is pending, under an id that is worth keeping."""
    with serving(ACCEPTED, answer(404), DONE) as server:
        pending = predictor(server, patience_seconds=0).predict(asked())
        assert (pending.outcome, pending.request, pending.gpus) == (Outcome.PENDING, "f6db88", 0)
        later = predictor(server, patience_seconds=0).resume(asked(), pending.request)
        assert (later.outcome, later.gpus) == (Outcome.RECOMMENDATION, 4)
    assert [one.method for one in server.said] == ["POST", "GET", "GET"]


def test_patience_is_for_all_requests_together() -> None:
    with serving(answer(404)) as server:
        found = predictor(server, patience_seconds=0.3, pauses=(0.1,))
        outcomes = {found.resume(asked(), f"id{number}").outcome for number in range(20)}
    assert outcomes == {Outcome.PENDING}
    assert len(server.said) < 30  # 20, and a few more while there was patience


def test_to_keep_the_gpus_the_other_recommender_is_asked() -> None:
    with serving(ACCEPTED, DONE) as server:
        predictor(server).predict(asked(goal=Goal.AVOID_OOM, number_gpus=2, per_device_batch_size=3))
    assert server.said[0].path == PATH.replace("min_gpu", "avoid_oom")
    values = {
        one["property"]["identifier"]: one["value"] for one in server.said[0].body[0]["constitutive_property_values"]
    }
    assert (values["number_gpus"], values["per_device_train_batch_size"]) == (2, 3)
    assert "batch_size" not in values


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (measured(), "nothing was measured"),
        (measured({"measurements": []}), "nothing was measured"),
        (measured({"reason": "Not in\nthe domain", "uid": "1"}), "Not in the domain"),
        (measured(can_recommend=0), ""),
        (measured(can_recommend=0, gpus=-1, workers=-1), ""),
        (measured(can_recommend=False), ""),
        (measured(gpus=4, workers=1), ""),
    ],
)
def test_refusals(reply: Any, words: str) -> None:
    """F-010: no measurements, or `can_recommend` other than 1, is no recommendation."""
    with serving(ACCEPTED, answer(200, reply)) as server:
        said = predictor(server).predict(asked())
    assert (said.outcome, said.gpus, said.workers) == (Outcome.REFUSAL, 0, 0)
    assert words in said.text


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (measured(can_recommend=1), "None GPUs, None workers"),
        (measured(can_recommend=1, gpus=0, workers=1), "0 GPUs"),
        (measured(can_recommend=1, gpus="4", workers=1), "'4' GPUs"),
        (measured(can_recommend=1, gpus=2.5, workers=1), "2.5 GPUs"),
        (measured(can_recommend=7, gpus=4, workers=1), "invalid value of can_recommend: 7"),
        (measured(can_recommend="yes", gpus=4, workers=1), "invalid value of can_recommend: 'yes'"),
        (
            measured(measured(gpus=2)["entities"][0]["measurement_results"][0], can_recommend=1, gpus=4, workers=1),
            "two values for gpus",
        ),
        ({"entities": []}, "0 entities"),
        ({"entities": [{}, {}]}, "2 entities"),
        ({}, "invalid answer"),
        ([], "invalid answer"),
        (b"", "invalid answer"),
        (b"<html>", "invalid answer"),
        (b"[" * 100_000, "invalid answer"),
        ({"entities": [{"measurement_results": [{"measurements": [{"value": 1}]}]}]}, "invalid answer"),
    ],
)
def test_whatever_is_no_clear_answer_is_an_error(reply: Any, words: str) -> None:
    with serving(ACCEPTED, answer(200, reply)) as server, pytest.raises(PredictorError) as raised:
        predictor(server).predict(asked())
    assert words in str(raised.value)
    assert not raised.value.retryable


def test_an_id_that_answers_another_question() -> None:
    """A replayed id: what it answers is compared with what is asked."""
    reply = measured(can_recommend=1, gpus=4, workers=2)
    values = [{"value": "big", "property": {"identifier": "model_name"}, "valueType": "STRING_VALUE_TYPE"}]
    reply["entities"][0]["constitutive_property_values"] = values
    with serving(answer(200, reply)) as server:
        with pytest.raises(PredictorError, match="answer belongs to another question: model_name is 'big'"):
            predictor(server).resume(asked(), "f6db88")
        assert predictor(server).resume(asked(model="big"), "f6db88").gpus == 4


@pytest.mark.parametrize(
    "reply", [[], ["a", "b"], [1], "a", {}, [""], ["../x"], ["a/b"], ["a?b"], ["a\r\nb"], ["-a"], ["a" * 64], [None]]
)
def test_ids_that_are_none(reply: Any) -> None:
    with serving(answer(200, reply)) as server, pytest.raises(PredictorError, match="request id"):
        predictor(server).submit(asked())


def test_a_recorded_id_that_is_none_is_not_sent() -> None:
    with serving(DONE) as server, pytest.raises(PredictorError, match="not a request id"):
        predictor(server).resume(asked(), "../../../admin")
    assert server.said == []


def test_a_busy_server_is_asked_again() -> None:
    """F-010: 5xx is asked again, both ways, and never taken for an answer."""
    busy = [answer(500), answer(503, b"", Retry_After="0"), answer(429)]
    with serving(*busy, ACCEPTED, *busy, answer(404), cut, DONE) as server:
        assert predictor(server).predict(asked()).gpus == 4
    assert [one.method for one in server.said] == ["POST"] * 4 + ["GET"] * 6


def test_what_was_accepted_stays_pending_while_the_server_fails() -> None:
    """The id is worth more than the failure: ado's own server says 500 where it means 404."""
    with serving(ACCEPTED, answer(500, {"detail": "ray"})) as server:
        said = predictor(server, patience_seconds=0.2).predict(asked())
    assert (said.outcome, said.request) == (Outcome.PENDING, "f6db88")
    assert said.text == "no answer yet: answered with status 500: ray"


def test_a_server_that_stays_broken() -> None:
    with serving(answer(500, {"detail": "ray\nis down"})) as server:
        with pytest.raises(PredictorUnavailable, match=r"answered with status 500: ray is down") as raised:
            predictor(server).predict(asked())
        assert len(server.said) == 4
    assert raised.value.retryable
    with serving(answer(503, b"", Retry_After="99999")) as server:
        with pytest.raises(PredictorUnavailable, match="503"):
            predictor(server).predict(asked())
        assert len(server.said) == 1  # it asks for more time than there is


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (answer(301, b"", Location="http://127.0.0.1:1/"), "redirects to another URL"),
        (answer(307, b"", Location="/"), "redirects to another URL"),
        (answer(401), "answered with status 401; check the token .RECONCILER_SIZING_TOKEN"),
        (answer(404), "answered with status 404; check the path"),
        (answer(422, {"detail": [{"msg": "no such property"}]}), "422: .*no such property"),
        (answer(418, {"detail": "x" * 10_000}), "418: x{200}…$"),
        (answer(999), "999"),
        (answer(204), "204"),
        (answer(200, b"x" * (5 << 20)), "more than 4 MiB"),
    ],
)
def test_answers_that_are_final(act: Act, words: str) -> None:
    with serving(act) as server, pytest.raises(PredictorError, match=words) as raised:
        predictor(server).submit(asked())
    assert not raised.value.retryable
    assert len(server.said) == 1


@pytest.mark.parametrize(
    "act",
    [
        hang,
        trickle(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", b" "),
        trickle(b"HTTP/1.1 200 OK\r\n", b"X-More: 1\r\n"),
        trickle(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
        trickle(b"", b"H"),
    ],
)
def test_slow_servers_are_left(act: Act) -> None:
    """A deadline is for the whole answer; a question that may have arrived is not put twice."""
    with serving(act) as server:
        with pytest.raises(PredictorUnavailable, match=r"did not answer within 0.5 s|cannot be reached"):
            predictor(server, call_seconds=0.5).submit(asked())
        assert len(server.said) <= 1  # none, where this machine is slower than the deadline


def test_a_server_that_is_not_there() -> None:
    with serving(DONE) as server:
        url = server.url
    with pytest.raises(PredictorUnavailable, match="cannot be reached: Connection refused"):
        predictor(url).submit(asked())
    with pytest.raises(PredictorUnavailable, match="cannot be reached"):
        predictor("http://no-such-host.invalid").submit(asked())


def test_plain_http_where_tls_is_expected() -> None:
    with serving(DONE) as server, pytest.raises(PredictorUnavailable, match="cannot be reached"):
        predictor(server.url.replace("http:", "https:")).submit(asked())


def test_a_certificate_that_nobody_signed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused, until its authority is named."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    names = ["-subj", "/CN=ado", "-addext", "subjectAltName=IP:127.0.0.1"]
    new = [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    subprocess.run([*new, *names, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with serving(ACCEPTED, tls=context) as server:
        with pytest.raises(PredictorError, match=r"certificate is not trusted: self.signed certificate") as raised:
            predictor(server).submit(asked())
        assert not raised.value.retryable
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert predictor(server).submit(asked()) == "f6db88"


def test_passwords_are_sent_and_never_shown() -> None:
    acts = [answer(401), answer(301), answer(200, b"invalid answer"), answer(500), hang]
    for act in acts:
        with serving(act) as server:
            url = server.url.replace("//", "//team:s3cr%40t@")
            found = predictor(url, call_seconds=3)
            with pytest.raises(PredictorError) as raised:
                found.predict(asked())
        assert server.said[0].headers["Authorization"] == "Basic dGVhbTpzM2NyQHQ="
        shown = f"{raised.value}{raised.value!r}{raised.value.__cause__!r}{found._endpoint!r}"
        assert "s3cr" not in shown
        assert "dGVhb" not in shown
        assert "127.0.0.1" in shown


def test_tokens_are_sent_and_never_shown() -> None:
    with serving(answer(401)) as server:
        found = predictor(server, token="s3cret", token_host=server.url.removeprefix("http://"))
        with pytest.raises(PredictorError) as raised:
            found.predict(asked())
    assert server.said[0].headers["Authorization"] == "Bearer s3cret"
    assert "s3cret" not in f"{raised.value}{found._endpoint!r}"
    with pytest.raises(ConfigError) as wrong:
        RestPredictor("http://ado", token="s3cret\r\nX: 1")
    assert "s3cret" not in str(wrong.value)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost:8000",
        "ftp://a",
        "http://",
        "http://u:s3cret@",
        "http://u:s3cret@host:port",
        "http://u:s3cret@host:99999999",
        "http://host?key=s3cret",
        "http://host#s3cret",
        "http://ho st/s3cret",
        "http://host/s3cret path",
        "http://host/\r\nX: s3cret",
        "http://[::1/s3cret",
        "file:///etc/passwd",
    ],
)
def test_urls_that_are_none(url: str) -> None:
    with pytest.raises(ConfigError) as raised:
        RestPredictor(url)
    assert "s3cret" not in str(raised.value)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://ado", "http://ado:80"),
        ("https://u:p@ado.example:8443/base/", "https://ado.example:8443/base"),
        ("http://[::1]:8000", "http://[::1]:8000"),
    ],
)
def test_urls(url: str, shown: str) -> None:
    assert Endpoint.parse(url).url == shown
    assert repr(Endpoint.parse(url)) == f"Endpoint({shown})"


def test_a_prefix_stays() -> None:
    with serving(ACCEPTED) as server:
        predictor(server.url + "/ado/").submit(asked())
    assert server.said[0].path == "/ado" + PATH


def test_close_ends_the_waiting() -> None:
    with serving(answer(404)) as server:
        found = predictor(server, pauses=(1000.0,), patience_seconds=10_000)
        threading.Timer(0.2, found.close).start()
        with pytest.raises(PredictorUnavailable, match="was cancelled"):
            found.resume(asked(), "f6db88")


def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with serving(ACCEPTED) as server:
        assert predictor(server).submit(asked()) == "f6db88"


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 9)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@given(said=st.dictionaries(st.sampled_from(("can_recommend", "gpus", "workers", "other")), JSON))
def test_no_measurement_makes_zero_gpus(said: dict[str, Any]) -> None:
    found = RestPredictor("http://ado")
    response = HttpResponse(status=200, body=msgspec.json.encode(measured(**said)))
    try:
        prediction = found._parse(asked(), "f6db88", response)
    except PredictorError:
        return
    assert (prediction.outcome is Outcome.RECOMMENDATION) == (prediction.gpus >= 1 and prediction.workers >= 1)
    if prediction.outcome is Outcome.RECOMMENDATION:
        assert (said["can_recommend"], said["gpus"], said["workers"]) == (1, prediction.gpus, prediction.workers)


@given(body=st.binary() | JSON.map(msgspec.json.encode))
def test_no_body_is_a_bug(body: bytes) -> None:
    with pytest.raises(PredictorError):
        RestPredictor("http://ado")._parse(asked(), "f6db88", HttpResponse(status=200, body=body))
