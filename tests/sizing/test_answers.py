"""Answers as evidence: written and read back, edited by hand, of another cluster, hostile replies."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler import resources
from reconciler.kube.schemas import Catalogue
from reconciler.kube.yaml import Document, read
from reconciler.sizing.answers import (
    NO_ANSWERS,
    Answer,
    Chance,
    Recommendation,
    chances_answer,
    parse_answers,
    write_answers,
)
from reconciler.sizing.config import Goal
from reconciler.sizing.engine_registry import ANALYTIC, AUTOCONF, REST, WRAPPER, Outcome
from reconciler.sizing.question import EngineQuestion, digest

WHEN = "2026-01-31T12:00:00Z"
ASKED = EngineQuestion(
    model="llama-7b",
    method="lora",
    gpu_model="NVIDIA-A100-SXM4-80GB",
    tokens_per_sample=2048,
    batch_size=8,
    per_device_batch_size=4,
)
OTHER = replace(ASKED, method="full", goal=Goal.AVOID_OOM, number_gpus=2)
VERSIONS = {"ado-autoconf": "1.9.7", "model": "3.1.0"}
CATALOGUE = Catalogue(resources)


def recommendation(gpus: int) -> Answer:
    found = Recommendation(gpus=gpus, workers=1)
    return Answer(engine=REST, question=ASKED, outcome=Outcome.RECOMMENDATION, answered_at=WHEN, recommendation=found)


RECORDED = NO_ANSWERS.with_answers(
    [
        chances_answer(
            AUTOCONF,
            ASKED,
            [Chance(gpus=2, batch_size=8, probability=1 / 3), Chance(gpus=1, batch_size=8, probability=0.0)],
            answered_at=WHEN,
            versions=VERSIONS,
        ),
        recommendation(2),
        Answer(engine=WRAPPER, question=ASKED, outcome=Outcome.ERROR, answered_at=WHEN, error="no such model"),
        Answer(engine=WRAPPER, question=OTHER, outcome=Outcome.REFUSAL, answered_at=WHEN, refusal="too large"),
        Answer(engine=REST, question=OTHER, outcome=Outcome.PENDING, request_id="f6db88", submitted_at=WHEN),
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
    assert raw.startswith(b"# Written by `reconciler size record`")


def test_the_order_of_asking_does_not_show() -> None:
    turned = NO_ANSWERS.with_answers(reversed(list(RECORDED.recorded.values())))
    assert write_answers(turned, "a") == write_answers(RECORDED, "a")


def test_no_answers_are_a_file_too() -> None:
    raw = write_answers(NO_ANSWERS, "a")
    assert problems(raw) == []
    assert parse_answers(document(raw), "a")[0] == NO_ANSWERS


def test_an_answer_is_found_by_engine_and_question() -> None:
    of_rest = RECORDED.for_engine(REST)
    found = of_rest.answer(ASKED)
    assert found is not None
    assert found.recommendation == Recommendation(gpus=2, workers=1)
    assert of_rest.answer(replace(ASKED, tokens_per_sample=4096)) is None
    assert RECORDED.for_engine(ANALYTIC).answer(ASKED) is None


def test_a_newer_answer_replaces_the_older() -> None:
    newer = RECORDED.with_answers([recommendation(4)])
    assert len(newer.recorded) == len(RECORDED.recorded)
    found = newer.for_engine(REST).answer(ASKED)
    assert found is not None
    assert found.recommendation == Recommendation(gpus=4, workers=1)


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
    assert "spec.cluster: is 'a', but the file is in the folder of cluster 'b'" in found


@pytest.mark.parametrize("chance", [-0.1, 1.1, float("nan"), float("inf")])
def test_a_chance_that_is_none_spoils_the_answer(chance: float) -> None:
    found = [Chance(gpus=1, batch_size=8, probability=0.5), Chance(gpus=2, batch_size=8, probability=chance)]
    answer = chances_answer(AUTOCONF, ASKED, found, answered_at=WHEN, versions=VERSIONS)
    assert (answer.outcome, answer.chances) == (Outcome.ERROR, ())


@given(
    st.builds(
        EngineQuestion,
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
def test_every_field_of_a_question_counts(question: EngineQuestion, other: int) -> None:
    changed = replace(question, tokens_per_sample=question.tokens_per_sample + other)
    assert digest(question) != digest(changed)
    assert digest(question) == digest(replace(question))
