"""Answers as evidence: written and read back, edited by hand, of another cluster, hostile replies."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.adapters import bundle
from reconciler.core.documents import Document, read
from reconciler.core.intents.config import Engine, Goal
from reconciler.core.schemas import Catalogue
from reconciler.core.sizing.answers import (
    NO_ANSWERS,
    Answer,
    Answers,
    Chance,
    Outcome,
    Recommendation,
    chanced,
    parse_answers,
    recommended,
    write_answers,
)
from reconciler.core.sizing.question import Asked, digest

WHEN = "2026-01-31T12:00:00Z"
ASKED = Asked(
    model="llama-7b",
    method="lora",
    gpu_model="NVIDIA-A100-SXM4-80GB",
    tokens_per_sample=2048,
    batch_size=8,
    per_device_batch_size=4,
)
OTHER = replace(ASKED, method="full", goal=Goal.AVOID_OOM, number_gpus=2)
VERSIONS = {"ado-autoconf": "1.9.7", "model": "3.1.0"}
CATALOGUE = Catalogue(bundle)

RECORDED = NO_ANSWERS.with_answers(
    [
        chanced(
            Engine.AUTOCONF,
            ASKED,
            [Chance(gpus=2, batch_size=8, probability=1 / 3), Chance(gpus=1, batch_size=8, probability=0.0)],
            answered_at=WHEN,
            versions=VERSIONS,
        ),
        recommended(Engine.REST, ASKED, {"can_recommend": 1, "gpus": 2, "workers": 1}, answered_at=WHEN, versions={}),
        recommended(Engine.WRAPPER, ASKED, {"error": "no such model"}, answered_at=WHEN, versions={}),
        recommended(Engine.WRAPPER, OTHER, {"can_recommend": False}, answered_at=WHEN, versions={}),
        Answer(engine=Engine.REST, question=OTHER, outcome=Outcome.PENDING, request_id="f6db88", submitted_at=WHEN),
    ]
)


def document(raw: bytes) -> Document:
    reading = read("evidence/a/sizing.yaml", raw)
    assert not reading.problems, reading.problems
    return reading.documents[0]


def problems(raw: bytes, cluster: str = "a") -> list[str]:
    found = document(raw)
    return [str(one) for one in CATALOGUE.validate(found) or parse_answers(found, cluster)[1]]


def test_what_is_written_is_read_back() -> None:
    raw = write_answers(RECORDED, "a")
    assert problems(raw) == []
    answers, _ = parse_answers(document(raw), "a")
    assert answers == RECORDED
    assert write_answers(answers, "a") == raw
    assert raw.startswith(b"# Written by `reconciler size --record`")


def test_the_order_of_asking_does_not_show() -> None:
    turned = NO_ANSWERS.with_answers(reversed(list(RECORDED.recorded.values())))
    assert write_answers(turned, "a") == write_answers(RECORDED, "a")


def test_no_answers_are_a_file_too() -> None:
    raw = write_answers(NO_ANSWERS, "a")
    assert problems(raw) == []
    assert parse_answers(document(raw), "a")[0] == NO_ANSWERS


def test_an_answer_is_found_by_engine_and_question() -> None:
    of_rest = RECORDED.heard_by(Engine.REST)
    found = of_rest.of(ASKED)
    assert found is not None
    assert found.recommendation == Recommendation(gpus=2, workers=1)
    assert of_rest.of(replace(ASKED, tokens_per_sample=4096)) is None
    assert RECORDED.heard_by(Engine.AUTOCONF_TABLE).of(ASKED) is None


def test_a_newer_answer_replaces_the_older() -> None:
    reply = {"gpus": 4, "workers": 1}
    newer = RECORDED.with_answers([recommended(Engine.REST, ASKED, reply, answered_at=WHEN, versions={})])
    assert len(newer.recorded) == len(RECORDED.recorded)
    found = newer.heard_by(Engine.REST).of(ASKED)
    assert found is not None
    assert found.recommendation == Recommendation(gpus=4, workers=1)


def test_answers_that_nobody_asks_for_any_more_are_dropped() -> None:
    kept = RECORDED.kept([(Engine.REST, digest(ASKED)), (Engine.REST, "0" * 32)])
    assert list(kept.recorded) == [(Engine.REST, digest(ASKED))]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (b"tokensPerSample: 2048", b"tokensPerSample: 1024", "spec.answers[0].digest: is 4f1a3ff427646f7a"),
        (b"      model: llama-7b", b"      model: llama-70b", "evidence.sizing-digest"),
        (b"goal: avoid-oom", b"goal: min-gpu", "evidence.sizing-digest"),
        (b"gpus: 2\n      workers: 1", b"gpus: 0\n      workers: 1", "0 is out of range"),
        (b"gpus: 2\n      workers: 1", b"gpus: null\n      workers: 1", "spec.answers"),
        (b"probability: 0.333333", b"probability: 1.5", "out of range"),
        (b"probability: 0.333333", b'probability: "high"', "spec.answers[0].chances[1].probability"),
        (b"error: no such model", b"errors: no such model", "spec.answers"),
        (b"engine: rest", b"engine: oracle", "is not allowed"),
        (b"error: no such model", b'error: ""', "spec.answers"),
        (b"requestId: f6db88", b'requestId: ""', "spec.answers"),
        (b"error: no such model", b"error: no such model\n    refusal: also", "spec.answers"),
    ],
)
def test_an_edited_file_is_an_error_with_its_place(old: bytes, new: bytes, words: str) -> None:
    """A question or an answer that somebody changed by hand is never taken for what an engine said."""
    raw = write_answers(RECORDED, "a")
    assert old in raw
    found = problems(raw.replace(old, new, 1))
    assert found
    assert any(words in one for one in found), found
    assert all(one.startswith("evidence/a/sizing.yaml:") for one in found)


def test_a_copy_of_an_answer_is_told() -> None:
    raw = write_answers(RECORDED, "a")
    items = raw.partition(b"  answers:\n")[2].partition(b"  cluster:")[0]
    found = problems(raw.replace(items, items + items))
    assert len([one for one in found if "evidence.sizing-duplicate" in one]) == len(RECORDED.recorded)


def test_a_file_of_another_cluster() -> None:
    (found,) = problems(write_answers(RECORDED, "a"), cluster="b")
    assert "names cluster 'a', but lies in the folder of 'b'" in found


@pytest.mark.parametrize(
    ("reply", "outcome"),
    [
        ({"gpus": 2, "workers": 1}, Outcome.RECOMMENDATION),
        ({"gpus": 2.0, "workers": 1.0, "can_recommend": 1.0}, Outcome.RECOMMENDATION),
        ({"gpus": 2, "workers": 1, "can_recommend": True, "error": None}, Outcome.RECOMMENDATION),
        ({"gpus": 2, "workers": 1, "error": "oom"}, Outcome.ERROR),
        ({"gpus": None, "workers": None, "can_recommend": False}, Outcome.REFUSAL),
        ({"can_recommend": 0}, Outcome.REFUSAL),
        ({"can_recommend": "yes", "gpus": 1, "workers": 1}, Outcome.ERROR),
        ({"can_recommend": None, "gpus": 1, "workers": 1}, Outcome.ERROR),
        ({"gpus": None, "workers": None, "error": None}, Outcome.ERROR),
        ({"gpus": 0, "workers": 0}, Outcome.ERROR),
        ({}, Outcome.ERROR),
        ({"gpus": 2, "workers": 1, "error": "  "}, Outcome.ERROR),
    ],
)
def test_replies(reply: dict[str, Any], outcome: Outcome) -> None:
    """F-009: what a script or a service says, as the answer that it is."""
    answer = recommended(Engine.WRAPPER, ASKED, reply, answered_at=WHEN, versions={})
    assert answer.outcome is outcome
    assert bool(answer.recommendation) + bool(answer.refusal) + bool(answer.error) == 1


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=300),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
replies = st.dictionaries(
    st.sampled_from(["gpus", "workers", "can_recommend", "error"]) | st.text(max_size=3), json_values, max_size=4
)


@given(replies)
def test_no_reply_becomes_zero_gpus(reply: dict[str, Any]) -> None:
    """Whatever comes: a recommendation has GPUs, and everything else says why there is none; each can be kept."""
    answer = recommended(Engine.REST, ASKED, reply, answered_at=WHEN, versions={})
    if answer.outcome is Outcome.RECOMMENDATION:
        assert answer.recommendation is not None
        assert answer.recommendation.total >= 1
    else:
        assert answer.recommendation is None
        assert answer.error or answer.refusal
    kept = Answers(recorded={(Engine.REST, answer.digest): answer})
    found = document(write_answers(kept, "a"))
    assert CATALOGUE.validate(found) == ()
    assert parse_answers(found, "a")[0] == kept


@pytest.mark.parametrize("chance", [-0.1, 1.1, float("nan"), float("inf")])
def test_a_chance_that_is_none_spoils_the_answer(chance: float) -> None:
    found = [Chance(gpus=1, batch_size=8, probability=0.5), Chance(gpus=2, batch_size=8, probability=chance)]
    answer = chanced(Engine.AUTOCONF, ASKED, found, answered_at=WHEN, versions=VERSIONS)
    assert (answer.outcome, answer.chances) == (Outcome.ERROR, ())


@given(
    st.builds(
        Asked,
        model=st.sampled_from(["llama-7b", "llama3-8b"]),
        method=st.sampled_from(["full", "lora"]),
        gpu_model=st.sampled_from(["L40S", "NVIDIA-H100-PCIe"]),
        tokens_per_sample=st.integers(1, 5),
        batch_size=st.integers(1, 5),
        per_device_batch_size=st.integers(1, 5),
        goal=st.sampled_from(list(Goal)),
        number_gpus=st.none() | st.integers(1, 3),
    ),
    st.integers(2, 40),
)
def test_every_field_of_a_question_counts(question: Asked, other: int) -> None:
    changed = replace(question, tokens_per_sample=question.tokens_per_sample + other)
    assert digest(question) != digest(changed)
    assert digest(question) == digest(replace(question))
