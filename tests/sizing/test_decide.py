"""The decision: candidates of each goal, how engines combine, refusals, and what may never be chosen."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.sizing.answers import NO_ANSWERS, Answer, Answers, Chance, Recommendation
from reconciler.sizing.config import Goal
from reconciler.sizing.decide import decide, decide_cheapest
from reconciler.sizing.decide.layouts import all_layout_options, gpu_counts
from reconciler.sizing.decision import Candidate, Confidence, Decision, Estimate
from reconciler.sizing.engine_registry import AUTOCONF, REST, WRAPPER, Engine, Outcome
from reconciler.sizing.gpus import Gpu
from reconciler.sizing.question import Question, engine_question
from reconciler.sizing.throughput.cost import Throughput
from reconciler.sizing.training import Layout, Method, Offload, Precision, Strategy, Training
from tests.sizing.questions import (
    A100,
    H200,
    L40S,
    LLAMA,
    chances,
    estimate,
    fits_from,
    needing,
    peaking_at,
    question,
    speed_of,
    steady,
    training,
    waiting,
    wrapper_says,
)


def gpus_of(decision: Decision) -> int | None:
    return None if decision.chosen is None else decision.chosen.layout.gpus


def chosen(decision: Decision) -> Candidate:
    assert decision.chosen is not None, decision.text
    return decision.chosen


# --- the fewest GPUs ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("least", [1, 2, 4, 8])
def test_the_first_number_that_fits_is_taken(least: int) -> None:
    """F-006: powers of two, fewest first."""
    decision = decide(question(batch=8), estimator=fits_from(least), speed=steady)
    assert gpus_of(decision) == least
    assert [one.layout.gpus for one in decision.candidates] == [n for n in (1, 2, 4, 8) if n <= least]


def test_a_batch_that_does_not_divide_excludes_the_number() -> None:
    """F-006: a batch of 6 excludes 4; it is told with its arithmetic and never floored."""
    decision = decide(question(batch=6), estimator=fits_from(4), speed=steady)
    assert decision.chosen is None
    four = next(one for one in decision.candidates if one.layout.gpus == 4)
    assert (four.fits, four.reason, four.estimate) == (False, "indivisible", None)
    assert four.text == "an effective batch of 6 (6 per GPU x 1) does not divide among 4 GPUs"


def test_the_effective_batch_is_kept_by_the_fewest_gpus() -> None:
    """F-006: batch a GPU x GPUs x steps is what it was; accumulation stays."""
    decision = decide(question(batch=4, processes=4, accumulation=3), estimator=fits_from(2), speed=steady)
    assert chosen(decision).layout == Layout(gpus=2, workers=1, batch=8, accumulation=3)
    assert "8 samples per GPU x 2 x 3 steps keep the effective batch of 48" in decision.text


@pytest.mark.parametrize(
    ("batch", "accumulation", "gpus", "layout"),
    [
        (1, 16, 4, Layout(gpus=4, batch=1, accumulation=4)),
        (6, 4, 4, Layout(gpus=4, batch=2, accumulation=3)),
        (6, 4, 2, Layout(gpus=2, batch=3, accumulation=4)),
        (5, 3, 2, None),
    ],
)
def test_accumulation_makes_room_where_the_batch_does_not_divide(
    batch: int, accumulation: int, gpus: int, layout: Layout | None
) -> None:
    """F-006: the effective batch is kept exactly, by other steps if need be, or the number is refused."""
    asking = question(batch=batch, accumulation=accumulation, max_gpus=gpus)
    decision = decide(asking, estimator=fits_from(gpus), speed=steady)
    assert (decision.chosen and decision.chosen.layout) == layout


def test_beyond_one_node_whole_nodes_are_tried_too() -> None:
    assert gpu_counts(question(gpus_per_worker=8, max_gpus=40)) == [1, 2, 4, 8, 16, 24, 32, 40]
    assert gpu_counts(question(gpus_per_worker=6, max_gpus=20)) == [1, 2, 4, 8, 12, 16, 18]


def test_nodes_get_equal_shares() -> None:
    """A job of several workers gives each the same number of GPUs, never more than a node has."""
    decision = decide(question(batch=48, gpus_per_worker=6, max_gpus=64), estimator=fits_from(12), speed=steady)
    assert chosen(decision).layout == Layout(gpus=12, workers=2, batch=4)
    decision = decide(question(batch=48, gpus_per_worker=6, max_gpus=64), estimator=fits_from(13), speed=steady)
    assert chosen(decision).layout == Layout(gpus=16, workers=4, batch=3)


def test_tensor_parallel_copies_are_whole() -> None:
    asking = question(training=training(tensor=4), batch=8)
    decision = decide(asking, estimator=fits_from(1), speed=steady)
    assert gpus_of(decision) == 4
    assert [one.layout.gpus for one in decision.candidates] == [4]
    asked = replace(asking, goal=Goal.AVOID_OOM, requested_gpus=6)
    assert "4 GPUs share each sample" in decide(asked, estimator=fits_from(1), speed=steady).candidates[0].text


def test_one_gpu_does_not_checkpoint_where_only_shards_do() -> None:
    """LitGPT's FSDP strategy checkpoints, so that one GPU needs all activations."""
    seen: dict[int, bool] = {}

    def estimator(one: Training, layout: Layout, _: Gpu) -> Estimate:
        seen[layout.gpus] = one.checkpointing
        return estimate(100.0 / layout.gpus)

    decision = decide(question(training=training(checkpoints_shards=True)), estimator=estimator)
    assert gpus_of(decision) == 2
    assert seen == {1: False, 2: True}


def test_only_multiples_of_what_parallelism_shares_are_tried() -> None:
    """Tensor 8 and pipeline 4 share each sample among 32 GPUs; of 6 on a node, whole nodes are 24, 48 ..."""
    parallel = training(tensor=8, pipeline=4)
    assert gpu_counts(question(training=parallel, gpus_per_worker=8, max_gpus=128)) == [32, 64, 96, 128]
    assert gpu_counts(question(training=training(tensor=4, pipeline=3), gpus_per_worker=6, max_gpus=64)) == [
        *(12, 24, 36, 48, 60),
    ]
    experts = training(expert=8, expert_tensor=1, pipeline=2, tensor=2)
    assert gpu_counts(question(training=experts, gpus_per_worker=8, max_gpus=64)) == [16, 32, 48, 64]
    copies = training(replicas=4, strategy=Strategy.FSDP_HYBRID)
    assert gpu_counts(question(training=copies, gpus_per_worker=8, max_gpus=16)) == [4, 8, 16]


def test_more_gpus_than_allowed_that_share_samples_are_an_obstacle() -> None:
    decision = decide(question(training=training(tensor=8, pipeline=16), max_gpus=64), speed=steady)
    assert decision.chosen is None
    assert decision.candidates[0].text == "128 GPUs share samples or experts, and at most 64 are allowed"


def test_degrees_that_leave_no_choice() -> None:
    """HSDP with 2 replicas of 4 shards is 8 GPUs, and no other number."""
    asking = question(batch=8, exact_gpus=8)
    assert gpu_counts(asking) == [8]
    other = replace(asking, goal=Goal.AVOID_OOM, requested_gpus=4)
    assert gpu_counts(other) == [4, 8]
    decision = decide(other, estimator=fits_from(1), speed=steady)
    assert gpus_of(decision) == 8
    assert decision.candidates[0].text == "the degrees of parallelism on the line multiply to 8 GPUs, not to 4"


def test_a_stated_global_batch_keeps_the_microbatch() -> None:
    """Megatron accumulates what its replicas do not hold at once."""
    asking = question(training=training(tensor=2), batch=1, processes=16, accumulation=4, keeps_batch=True)
    assert asking.effective_batch == 32
    layouts = [one.layout for one in decide(asking, estimator=fits_from(4), speed=steady).candidates]
    assert [(one.gpus, one.batch, one.accumulation) for one in layouts] == [(2, 1, 32), (4, 1, 16)]


def test_nothing_fits() -> None:
    decision = decide(question(batch=64, max_gpus=8), estimator=fits_from(64), speed=steady)
    assert (decision.chosen, decision.reason) == (None, "does-not-fit")
    assert decision.text == (
        "no layout of up to 8 x NVIDIA-A100-SXM4-80GB fits; the closest, 8 GPUs, needs 160.0 of 80.0 GiB: optimizer 120.0, weights 40.0"
    )


# --- the requested number -------------------------------------------------------------------------------


def test_the_jobs_own_number_stays_if_it_fits() -> None:
    """F-007: 2 GPUs that fit stay 2, though 1 would do."""
    asking = question(goal=Goal.AVOID_OOM, batch=4, processes=2, requested_gpus=2)
    decision = decide(asking, estimator=fits_from(1), speed=steady)
    assert chosen(decision).layout == Layout(gpus=2, batch=4)
    assert decision.text.endswith("the requested number")


def test_a_number_that_fails_goes_up() -> None:
    """F-007: 2 GPUs that run out of memory become 4."""
    asking = question(goal=Goal.AVOID_OOM, batch=4, processes=2, accumulation=2, requested_gpus=2)
    decision = decide(asking, estimator=fits_from(4), speed=steady)
    assert chosen(decision).layout == Layout(gpus=4, batch=4, accumulation=1)
    assert "instead of 2, which needs 160.0 of 80.0 GiB" in decision.text


def test_where_accumulation_cannot_make_room_the_batch_of_a_gpu_shrinks() -> None:
    """F-007: what is learnt stays the same."""
    asking = question(goal=Goal.AVOID_OOM, batch=4, processes=2, requested_gpus=2)
    decision = decide(asking, estimator=fits_from(4), speed=steady)
    assert chosen(decision).layout == Layout(gpus=4, batch=2, accumulation=1)
    assert "2 samples per GPU x 4 keep the effective batch of 8" in decision.text


def test_three_gpus_go_to_four_only_if_the_batch_divides() -> None:
    asking = question(goal=Goal.AVOID_OOM, batch=3, processes=3, requested_gpus=3)
    decision = decide(asking, estimator=fits_from(4), speed=steady)
    assert decision.chosen is None
    assert "an effective batch of 9 (3 per GPU x 3) does not divide among 4 GPUs" in {
        one.text for one in decision.candidates
    }


# --- the most tokens a second ---------------------------------------------------------------------------------------


def test_the_fastest_layout_is_taken() -> None:
    """F-008: the summit of the speed, wherever it lies."""
    asking = question(goal=Goal.THROUGHPUT, batch=16, accumulation=4, max_gpus=16)
    decision = decide(asking, estimator=fits_from(1), speed=peaking_at(4, 8))
    assert chosen(decision).layout == Layout(gpus=4, batch=8, accumulation=2)
    assert "9,000 tokens/s (8,100 to 9,900)" in decision.text


def test_what_does_not_fit_is_never_the_fastest() -> None:
    """F-008: the summit is out of reach where it runs out of memory."""
    asking = question(goal=Goal.THROUGHPUT, batch=16, accumulation=4, max_gpus=16)
    decision = decide(asking, estimator=fits_from(8), speed=peaking_at(4, 8))
    assert gpus_of(decision) == 8, "all others are equally fast: the cheapest"


def test_a_cheaper_layout_within_the_error_is_told() -> None:
    def flat(_: Training, layout: Layout, __: Gpu) -> Throughput:
        return speed_of(1000.0 + layout.gpus, 0.2)

    decision = decide(question(goal=Goal.THROUGHPUT, batch=8, max_gpus=8), estimator=fits_from(1), speed=flat)
    assert gpus_of(decision) == 8
    assert decision.text.endswith("1,008 tokens/s (806 to 1,210); 1 GPU may be as fast (1,001 tokens/s)")


def test_a_card_of_unknown_speed_is_never_the_fastest() -> None:
    """F-008: without a prediction there is no fastest, and none is made up."""
    asking = question(goal=Goal.THROUGHPUT, batch=8, max_gpus=8)
    decision = decide(asking, estimator=fits_from(1), speed=lambda *_: None)
    assert (decision.chosen, decision.reason) == (None, "unknown-speed")
    assert decision.text.startswith("the speed of NVIDIA-A100-SXM4-80GB is unknown; 1 GPU")


def test_a_bad_chance_does_not_undo_what_physics_alone_accepted() -> None:
    """133 samples are beyond what ado-autoconf learnt, 2 x 19 are not: its no there must not refuse more GPUs."""
    asking = question(batch=7, processes=19, accumulation=2, max_gpus=2)
    decision = decide(asking, chances(asking, {2: 0.0}), estimator=fits_from(1), speed=steady, every=True)
    assert [(one.layout.batch, one.fits, one.probability) for one in decision.candidates] == [
        (133, True, None),
        (19, True, None),
    ]


# --- how engines combine --------------------------------------------------------------------------------------------

ONE = question(batch=1, max_gpus=1)


@pytest.mark.parametrize(
    ("need", "chance", "fits", "reason", "confidence"),
    [
        (40, 0.5, True, "ok", "high"),
        (40, 0.49, True, "ok", "medium"),
        (40, 0.1, True, "ok", "medium"),
        (40, 0.09, False, "disagree", "low"),
        (40, None, True, "ok", "medium"),
        (74, 0.9, True, "ok", "high"),
        (75, 0.5, True, "ok", "medium"),
        (75, 0.49, False, "band", "low"),
        (75, None, False, "band", "low"),
        (86, 0.5, True, "ok", "medium"),
        (87, 0.9, False, "does-not-fit", "low"),
        (87, 0.91, False, "paged", "low"),
        (87, None, False, "does-not-fit", "low"),
    ],
)
def test_physics_and_chances(need: float, chance: float | None, fits: bool, reason: str, confidence: str) -> None:
    answers = NO_ANSWERS if chance is None else chances(ONE, {1: chance})
    decision = decide(ONE, answers, estimator=needing({1: need}), speed=steady)
    (found,) = decision.candidates
    assert (found.fits, found.reason, found.confidence.value, found.probability) == (fits, reason, confidence, chance)
    assert (decision.chosen is not None) == fits
    assert decision.reason == reason


@pytest.mark.parametrize("chance", [None, 0.0, 0.5, 1.0])
def test_what_cannot_be_avoided_is_a_veto(chance: float | None) -> None:
    """Weights that exceed the card never fit, whatever an engine says and the settings allow."""
    asking = replace(ONE, allow_paged=True, allow_disagreement=True)
    answers = NO_ANSWERS if chance is None else chances(asking, {1: chance})
    decision = decide(asking, answers, estimator=needing({1: 40}, floor=80.1), speed=steady)
    assert (decision.chosen, decision.reason) == (None, "veto")
    assert "needs 80.1 of 80.0 GiB for weights and gradients alone" in decision.text


def test_disagreement_is_the_last_resort_and_only_if_allowed() -> None:
    asking = question(batch=2, max_gpus=2)
    estimator = fits_from(1)
    refused = decide(asking, chances(asking, {}), estimator=estimator, speed=steady)
    assert (refused.chosen, refused.reason) == (None, "disagree")
    assert "needs 40.0 of 80.0 GiB by the memory model, but autoconf 1.9.7 gives it a probability of 0%" in refused.text
    allowed = replace(asking, allow_disagreement=True)
    taken = decide(allowed, chances(allowed, {}), estimator=estimator, speed=steady)
    assert (gpus_of(taken), taken.reason, taken.confidence) == (1, "disagree", Confidence.LOW)
    assert chosen(taken) in taken.candidates
    better = decide(allowed, chances(allowed, {2: 0.8}), estimator=estimator, speed=steady)
    assert (gpus_of(better), better.reason) == (2, "ok"), "agreement wins over fewer GPUs"


def test_paging_is_told_with_its_price() -> None:
    asking = question(batch=2, max_gpus=2)
    estimator = needing({1: 100, 2: 50})
    decision = decide(asking, chances(asking, {1: 0.99, 2: 0.9}), estimator=estimator, speed=steady)
    assert gpus_of(decision) == 2
    assert "fits only by paging the optimizer to the host, about 20 times slower" in decision.candidates[0].text
    allowed = replace(asking, allow_paged=True)
    taken = decide(allowed, chances(allowed, {1: 0.99}), estimator=estimator, speed=steady)
    assert (gpus_of(taken), taken.reason, taken.confidence) == (1, "paged", Confidence.LOW)


def test_lora_never_pages() -> None:
    asking = replace(ONE, training=training(method=Method.LORA))
    decision = decide(asking, chances(asking, {1: 1.0}), estimator=needing({1: 100}), speed=steady)
    assert decision.reason == "does-not-fit"


def test_an_estimate_that_counts_on_paging_is_not_taken_for_a_fit() -> None:
    def estimator(_: Training, layout: Layout, __: Gpu) -> Estimate:
        return estimate(40, unpaged=90 / layout.gpus)

    decision = decide(question(batch=2), estimator=estimator, speed=steady)
    assert [(one.layout.gpus, one.reason) for one in decision.candidates] == [(1, "paged"), (2, "ok")]
    assert "needs 90.0 of 80.0 GiB" in decision.candidates[0].text


@pytest.mark.parametrize(
    "changes",
    [
        {"training": training(sequence=8193)},
        {"batch": 129},
        {"gpu": H200},
        {"training": training(method=Method.QLORA)},
        {"training": training(architecture=replace(LLAMA, autoconf=""))},
    ],
)
def test_autoconf_is_not_asked_beyond_what_it_learnt(changes: dict[str, Any]) -> None:
    asking = question(max_gpus=1, **changes)
    decision = decide(asking, Answers(engine=AUTOCONF), estimator=fits_from(1), speed=steady)
    assert (gpus_of(decision), decision.confidence) == (1, Confidence.MEDIUM)
    assert decision.engines == (("analytic", "1"),)


@pytest.mark.parametrize(
    ("need", "reason"), [(55.9, "ok"), (56.1, "unmeasured"), (80.0, "unmeasured"), (90.0, "does-not-fit")]
)
def test_samples_far_longer_than_measured_need_headroom(need: float, reason: str) -> None:
    asking = replace(ONE, training=training(sequence=32_769))
    decision = decide(asking, estimator=needing({1: need}), speed=steady)
    assert (decision.reason, decision.confidence) == (reason, Confidence.LOW)


# --- whole recommendations, refusals, failures ----------------------------------------------------------------------


def test_a_recommendation_that_physics_confirms() -> None:
    asking = question(batch=8)
    decision = decide(asking, wrapper_says(asking, gpus=4, workers=1), estimator=fits_from(2), speed=steady)
    assert (gpus_of(decision), decision.confidence) == (4, Confidence.HIGH)
    assert "wrapper 1.5.0 recommends it" in decision.text
    assert decision.engines == (("analytic", "1"), ("wrapper", "1.5.0"))


def test_a_recommendation_of_several_workers_is_kept() -> None:
    asking = question(batch=8)
    decision = decide(asking, wrapper_says(asking, gpus=2, workers=4), estimator=fits_from(2), speed=steady)
    assert chosen(decision).layout == Layout(gpus=8, workers=4, batch=1)


def test_a_recommendation_that_physics_vetoes_shows_both() -> None:
    asking = question(batch=8, training=training(method=Method.LORA))
    decision = decide(asking, wrapper_says(asking, gpus=1, workers=1), estimator=fits_from(4), speed=steady)
    assert (decision.chosen, decision.reason) == (None, "does-not-fit")
    assert decision.text.startswith("wrapper 1.5.0 recommends 1 GPU, but it needs 160.0 of 80.0 GiB")
    assert "the memory model alone chooses 4 GPUs: peak 40.0 of 80.0 GiB" in decision.text


def test_no_recommendation_shows_physics_beside() -> None:
    """A refusal is no failure, and never zero GPUs."""
    asking = question(batch=8)
    decision = decide(
        asking, wrapper_says(asking, refusal="it gives no recommendation"), estimator=fits_from(2), speed=steady
    )
    assert (decision.chosen, decision.reason) == (None, "refused")
    assert "the memory model alone chooses 2 GPUs" in decision.text
    assert [one.layout.gpus for one in decision.candidates] == [1, 2]


def test_an_engine_that_failed_decides_nothing() -> None:
    asking = question(batch=8)
    decision = decide(asking, wrapper_says(asking, error="it says 0 GPUs"), estimator=fits_from(1), speed=steady)
    assert (decision.chosen, decision.reason) == (None, "engine-error")
    assert "it says 0 GPUs" in decision.text


def test_a_recommendation_beyond_the_limit_or_the_batch() -> None:
    asking = question(batch=6, max_gpus=8)
    many = decide(asking, wrapper_says(asking, gpus=8, workers=2), estimator=fits_from(1), speed=steady)
    assert (many.chosen, many.reason) == (None, "over-limit")
    asking = question(batch=16, gpus_per_worker=8)
    wide = decide(asking, wrapper_says(asking, gpus=16, workers=1), estimator=fits_from(1), speed=steady)
    assert (wide.chosen, wide.reason) == (None, "over-limit")
    assert wide.text == "wrapper 1.5.0 recommends 16 GPUs, but a node has 8"
    asking = question(batch=6, max_gpus=8)
    odd = decide(asking, wrapper_says(asking, gpus=4, workers=1), estimator=fits_from(1), speed=steady)
    assert (odd.chosen, odd.reason) == (None, "indivisible")


@pytest.mark.parametrize("engine", [AUTOCONF, WRAPPER, REST])
def test_an_engine_that_was_not_asked_holds_the_job_back(engine: Engine) -> None:
    decision = decide(question(), Answers(engine=engine), estimator=fits_from(1), speed=steady)
    assert (decision.chosen, decision.reason, decision.is_pending) == (None, "pending", True)
    assert "run reconciler size record" in decision.text


def test_a_request_that_waits() -> None:
    """What was submitted is told by its id."""
    decision = decide(question(), waiting(question()), estimator=fits_from(1), speed=steady)
    assert decision.is_pending
    assert "request f6db88" in decision.text


def test_an_answer_to_another_question_is_none() -> None:
    answers = wrapper_says(question(batch=8), gpus=4, workers=1)
    decision = decide(question(batch=16), answers, estimator=fits_from(1), speed=steady)
    assert decision.is_pending


def autoconf_says(asking: Question, **said: Any) -> Answers:
    answer = Answer(engine=AUTOCONF, question=engine_question(asking), **said)
    return Answers(engine=AUTOCONF).with_answers([answer])


def test_chances_for_some_layouts_only_are_no_answer() -> None:
    found = (Chance(gpus=1, batch_size=8, probability=0.9),)
    answers = autoconf_says(question(), outcome=Outcome.CHANCES, chances=found)
    decision = decide(question(), answers, estimator=fits_from(1), speed=steady)
    assert decision.is_pending
    assert "the answer of autoconf does not cover 2 GPUs; run reconciler size record" in decision.text


def test_a_question_outside_its_domain_is_answered_by_physics() -> None:
    """What ado-autoconf does not know it has no say in; that is no reason to hold a job back."""
    answers = autoconf_says(question(), outcome=Outcome.REFUSAL, refusal="unknown model")
    decision = decide(question(), answers, estimator=fits_from(2), speed=steady)
    assert (gpus_of(decision), decision.confidence) == (2, Confidence.MEDIUM)


def test_an_engine_that_failed_is_not_passed_over() -> None:
    answers = autoconf_says(question(), outcome=Outcome.ERROR, error="killed after 5 s")
    decision = decide(question(), answers, estimator=fits_from(2), speed=steady)
    assert (decision.chosen, decision.reason) == (None, "engine-error")
    assert decision.text.startswith("autoconf failed: killed after 5 s; the memory model alone chooses 2 GPUs")


def test_a_recommendation_where_chances_were_asked_for_is_a_failure() -> None:
    found = Recommendation(gpus=1, workers=1)
    answers = autoconf_says(question(), outcome=Outcome.RECOMMENDATION, recommendation=found)
    decision = decide(question(), answers, estimator=fits_from(1), speed=steady)
    assert (decision.chosen, decision.reason) == (None, "engine-error")
    chance = Chance(gpus=1, batch_size=8, probability=0.9)
    answer = Answer(engine=REST, question=engine_question(question()), outcome=Outcome.CHANCES, chances=(chance,))
    turned = decide(question(), Answers(engine=REST).with_answers([answer]), estimator=fits_from(1))
    assert turned.text.startswith("rest failed: the answer has no recommendation")


# --- several cards --------------------------------------------------------------------------------------------------


def test_the_cheapest_card_that_fits() -> None:
    """If a speed is unknown, the price of an hour decides; the others are shown."""
    needs = {"NVIDIA-A100-SXM4-80GB": 2, "NVIDIA-L40S": 8, "NVIDIA-H200": 1}

    def estimator(training: Training, layout: Layout, gpu: Gpu) -> Estimate:
        return fits_from(needs[gpu.product])(training, layout, gpu)

    asked = [question(gpu=gpu) for gpu in (H200, L40S, A100)]
    decision = decide_cheapest(asked, estimator=estimator, speed=lambda *_: None)
    assert chosen(decision).gpu is A100
    assert [(one.gpu.product, one.layout.gpus) for one in decision.others] == [("NVIDIA-H200", 1), ("NVIDIA-L40S", 8)]
    hourly = "1 x NVIDIA-H200 (1.2 times the price of an hour), 8 x NVIDIA-L40S (2 times the price of an hour)"
    assert f"alternatives: {hourly}" in decision.text


def test_the_card_that_trains_a_token_for_less() -> None:
    """F-008: the dearer card is cheaper where it is faster by more than its price."""

    def speed(_: Training, layout: Layout, gpu: Gpu) -> Throughput:
        return speed_of(layout.gpus * {A100.product: 1000.0, H200.product: 3000.0}[gpu.product])

    asked = [question(gpu=gpu) for gpu in (A100, H200)]
    decision = decide_cheapest(asked, estimator=fits_from(1), speed=speed)
    assert chosen(decision).gpu is H200
    assert chosen(decision).cost.per_hour > decision.others[0].cost.per_hour
    assert decision.text.endswith("alternatives: 1 x NVIDIA-A100-SXM4-80GB (1.2 times the cost of a token)")


def test_prices_of_the_repository_count_if_all_cards_have_one() -> None:
    """F-008: money and relative prices are never compared with each other."""
    cheap = replace(H200, hourly=1.0, currency="EUR")
    dear = replace(A100, hourly=2.0, currency="EUR")

    def decided(*gpus: Gpu) -> Decision:
        return decide_cheapest([question(gpu=gpu) for gpu in gpus], estimator=fits_from(1), speed=steady)

    assert chosen(decided(dear, cheap)).gpu is cheap
    assert chosen(decided(A100, cheap)).gpu is A100


def test_two_nodes_are_weighed_against_a_dearer_card() -> None:
    """F-008: by the cost of a token; pods that cannot find each other stay on one node, and the plan says so."""
    needs = {L40S.product: 16, H200.product: 8}

    def estimator(training: Training, layout: Layout, gpu: Gpu) -> Estimate:
        return fits_from(needs[gpu.product])(training, layout, gpu)

    def decided(*, one_node: bool) -> Decision:
        asked = [question(gpu=gpu, batch=16, max_gpus=16, one_node=one_node) for gpu in (L40S, H200)]
        return decide_cheapest(asked, estimator=estimator, speed=steady)

    assert (chosen(decided(one_node=False)).gpu, chosen(decided(one_node=False)).layout.workers) == (L40S, 2)
    stuck = decided(one_node=True)
    assert (chosen(stuck).gpu, chosen(stuck).layout.workers) == (H200, 1)
    assert stuck.text.endswith(
        "only with a rendezvous address: 16 x NVIDIA-L40S on 2 nodes (0.2 times the cost of a token)"
    )


def test_a_card_of_which_there_are_too_few_comes_last() -> None:
    """What was measured counts: eight of the cheaper card would do, and the cluster has four."""
    needs = {"NVIDIA-A100-SXM4-80GB": 2, "NVIDIA-L40S": 4}

    def estimator(training: Training, layout: Layout, gpu: Gpu) -> Estimate:
        return fits_from(needs[gpu.product])(training, layout, gpu)

    def decided(there: int) -> Decision:
        cards = (A100, replace(L40S, price=0.1, in_all=there))
        return decide_cheapest([question(gpu=gpu) for gpu in cards], estimator=estimator, speed=steady)

    assert [chosen(decided(there)).gpu.product for there in (0, 4, 3)] == [L40S.product, L40S.product, A100.product]
    assert "4 x NVIDIA-L40S (0.1 times the cost of a token, but the cluster has only 3)" in decided(3).text


def test_a_card_on_which_nothing_fits_comes_last() -> None:
    def estimator(_: Training, __: Layout, gpu: Gpu) -> Estimate:
        return estimate(60)

    decision = decide_cheapest([question(gpu=gpu) for gpu in (L40S, A100)], estimator=estimator, speed=steady)
    assert chosen(decision).gpu is A100
    assert [(one.gpu.product, one.fits) for one in decision.others] == [("NVIDIA-L40S", False)]


def test_while_one_card_waits_the_decision_does() -> None:
    questions = [question(gpu=gpu) for gpu in (A100, L40S)]
    decision = decide_cheapest(questions, chances(questions[0], {}, 0.9), estimator=fits_from(1), speed=steady)
    assert decision.is_pending


# --- numbers that no run can have -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {"batch": 0},
        {"batch": -4},
        {"batch": 10**8},
        {"processes": 0},
        {"accumulation": 10**7, "batch": 2},
        {"training": training(sequence=0)},
        {"training": training(sequence=10**8)},
        {"max_gpus": 0},
        {"gpus_per_worker": 0},
        {"requested_gpus": -1},
        {"gpu": replace(A100, memory_gib=0.0)},
        {"gpu": replace(A100, memory_gib=math.nan)},
    ],
)
@pytest.mark.parametrize("goal", list(Goal))
def test_invalid_numbers_are_refused(changes: dict[str, Any], goal: Goal) -> None:
    decision = decide(question(goal=goal, **changes), estimator=fits_from(1), speed=steady)
    assert (decision.chosen, decision.reason, decision.candidates) == (None, "invalid-input", ())


def test_an_estimate_that_is_no_number_never_fits() -> None:
    decision = decide(question(), estimator=lambda *_: estimate(math.nan, floor=math.nan), speed=steady)
    assert decision.chosen is None


# --- properties -----------------------------------------------------------------------------------------------------

sizes = st.integers(1, 48)
goals = st.sampled_from(list(Goal))
questions = st.builds(
    question,
    batch=sizes,
    processes=sizes,
    accumulation=st.integers(1, 12),
    requested_gpus=st.none() | st.integers(1, 40),
    goal=goals,
    gpus_per_worker=st.sampled_from([1, 3, 4, 6, 8]),
    max_gpus=st.integers(1, 100),
    allow_paged=st.booleans(),
    allow_disagreement=st.booleans(),
)
probabilities = st.floats(0, 1)


def sliding(weight: float, activation: float) -> Any:
    """Make an engine as physics is: what is divided among the GPUs, and what each sample takes."""

    def estimator(_: Training, layout: Layout, gpu: Gpu) -> Estimate:
        return estimate(weight / layout.gpus + activation * layout.batch + 1, floor=weight / layout.gpus)

    return estimator


@given(questions)
def test_every_layout_keeps_the_effective_batch(asking: Question) -> None:
    for found in all_layout_options(asking):
        for layout in found.layouts:
            assert asking.samples(layout) == asking.effective_batch
            assert layout.gpus % layout.workers == 0
            assert layout.gpus_per_worker <= asking.gpus_per_worker
        assert bool(found.layouts) != bool(found.obstacle)


@given(questions, st.floats(1, 4000), st.floats(0, 5), st.lists(probabilities, min_size=40, max_size=40))
def test_a_decision_is_sound(asking: Question, weight: float, activation: float, given_chances: list[float]) -> None:
    """Whatever engines say: the batch stays, nothing over the floor is taken, limits hold, and it repeats."""
    answers = chances(asking, dict(enumerate(given_chances)), 0.5)
    decision = decide(asking, answers, estimator=sliding(weight, activation), speed=steady, every=True)
    again = decide(asking, answers, estimator=sliding(weight, activation), speed=steady, every=True)
    assert decision == again
    if decision.chosen is None:
        assert decision.reason != "ok"
        return
    found = decision.chosen
    assert found in decision.candidates
    assert asking.samples(found.layout) == asking.effective_batch
    assert found.estimate is not None
    assert found.estimate.floor_gib <= asking.gpu.memory_gib
    if found.reason == "ok":
        assert found.estimate.need_gib <= asking.gpu.memory_gib * (1 + asking.safety)
    else:
        assert asking.allow_paged or asking.allow_disagreement


@given(questions, st.floats(1, 4000), st.floats(0, 5), st.lists(probabilities, min_size=40, max_size=40))
def test_more_gpus_and_smaller_batches_never_turn_a_fit_into_a_failure(
    asking: Question, weight: float, activation: float, given_chances: list[float]
) -> None:
    answers = chances(asking, dict(enumerate(given_chances)), 0.5)
    decision = decide(asking, answers, estimator=sliding(weight, activation), speed=steady, every=True)
    if decision.reason == "disagree":
        return  # the last resort stands alone
    fitting = [one.layout for one in decision.candidates if one.fits]
    for one in decision.candidates:
        if not one.fits and one.estimate is not None:
            assert not [less for less in fitting if less.gpus <= one.layout.gpus and less.batch >= one.layout.batch]


@given(questions, st.floats(1, 4000), st.floats(0, 5))
def test_a_larger_card_never_needs_more_gpus(asking: Question, weight: float, activation: float) -> None:
    asking = replace(asking, goal=Goal.MIN_GPU)
    small = decide(asking, estimator=sliding(weight, activation), speed=steady)
    large = decide(replace(asking, gpu=H200), estimator=sliding(weight, activation), speed=steady)
    if small.chosen is not None:
        assert chosen(large).layout.gpus <= small.chosen.layout.gpus


@pytest.mark.parametrize(
    ("precision", "reason"),
    [(Precision.BF16, "invalid-input"), (Precision.BF16_MIXED, "invalid-input"), (Precision.FP16, "ok")],
)
def test_a_card_without_bf16_trains_in_fp16(precision: Precision, reason: str) -> None:
    """Trainers refuse bf16 on Turing and Volta: such a run would fail however much memory there is."""
    old = replace(question(batch=8), gpu=replace(question().gpu, bf16=False))
    asking = replace(old, training=replace(old.training, precision=precision))
    decision = decide(asking, estimator=fits_from(1), speed=steady)
    assert decision.reason == reason
    assert ("does not support bf16" in decision.text) == (reason != "ok")


@pytest.mark.parametrize(("host", "reason"), [(0, "ok"), (60, "host-memory"), (200, "ok")])
def test_what_is_offloaded_must_fit_the_nodes_of_the_evidence(host: int, reason: str) -> None:
    """8 billion parameters: 16 bytes each on one node. Without evidence nobody knows."""
    run = training(strategy=Strategy.ZERO3, precision=Precision.BF16_MIXED, offload=Offload.ALL)
    decision = decide(question(training=run, gpu=replace(A100, host_gib=host), batch=1, processes=8, max_gpus=8))
    assert decision.candidates[-1].reason == reason
    if reason != "ok":
        assert decision.chosen is None
        assert "of 60 GiB of a node's memory for what is offloaded" in decision.candidates[-1].text


def test_every_reason_of_a_candidate_has_its_place_among_the_rejections() -> None:
    """The closest candidate is told, whatever all of them lack."""
    run = training(strategy=Strategy.ZERO3, precision=Precision.BF16_MIXED, offload=Offload.ALL)
    decision = decide(question(training=run, gpu=replace(A100, host_gib=1), batch=1, processes=8))
    assert decision.reason == "host-memory"
    assert "the closest" in decision.text
