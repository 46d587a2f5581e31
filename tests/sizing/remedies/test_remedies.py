"""Remedies: their figures are those of a fresh estimate, they keep the batch, and they are ranked by cost."""

from hypothesis import given, settings
from msgspec.structs import replace

from reconciler.launch import Framework, parse_launch
from reconciler.sizing.config import SizingSettings
from reconciler.sizing.decide import Evaluator, decide
from reconciler.sizing.job_questions import build_questions, no_files
from reconciler.sizing.memory import estimate
from reconciler.sizing.question import Question
from reconciler.sizing.remedies import Remedies, Remedy, SavingKind, Situation, find_remedies, savings_of
from reconciler.sizing.training import Attention, Layout, Method, Offload, Precision, Strategy
from tests.sizing.remedies.trainings import framework, question, situations, training
from tests.sizing.tables import GPU_TABLE, TABLES

ALL = tuple(GPU_TABLE)


def remedies(asked: Question, layout: Layout, situation: Situation) -> Remedies:
    rejected = Evaluator(asked).evaluate(layout)
    assert not rejected.fits, rejected.text
    found = find_remedies(asked, [rejected], situation)
    assert found is not None
    return found


def samples(remedy: Remedy) -> int:
    """Return the samples of an update: context parallelism gives one sample to several GPUs."""
    layout = remedy.after.layout
    return layout.gpus // remedy.training.context * layout.batch * layout.accumulation


def kinds(found: tuple[Remedy, ...]) -> list[tuple[str, ...]]:
    return [tuple(str(kind) for kind in one.kinds) for one in found]


@settings(max_examples=25, deadline=None)
@given(situations())
def test_every_remedy_is_what_it_says(case: tuple[Question, Layout, Framework | None]) -> None:
    asked, layout, known = case
    rejected = Evaluator(asked).evaluate(layout)
    found = find_remedies(asked, [rejected], Situation(offered=ALL, framework=known))
    if rejected.fits:
        assert found is None
        return
    if found is None:  # not for its memory
        return
    effective = layout.gpus // asked.training.context * layout.batch * layout.accumulation
    for remedy in (*found.enough, *found.not_enough, *found.refused):
        after = remedy.after
        fresh = estimate(remedy.training, after.layout, after.gpu)
        assert after.estimate is not None
        assert after.estimate.need_gib == fresh.need_gib
        assert after.estimate.peak_gib == fresh.peak_gib
        assert samples(remedy) == effective
        assert (
            after.fits == Evaluator(replace(asked, training=remedy.training, gpu=after.gpu)).evaluate(after.layout).fits
        )
        assert remedy.after.fits or after.estimate.need_gib < (rejected.estimate or fresh).need_gib
        assert not (remedy.edits and remedy.refusal)
        assert bool(remedy.refusal) <= (known is not None)
    assert all(one.is_enough for one in found.enough)
    assert not any(one.after.fits for one in found.not_enough)
    ranks = [(not one.keeps_training, one.cost is None, round(one.cost or 0, 2)) for one in found.enough]
    assert ranks == sorted(ranks)


def test_what_a_remedy_is_called_and_what_it_costs() -> None:
    """8 B parameters in full on 4 GPUs with TRL: checkpointing computes a third more, accumulation next to nothing."""
    layout = Layout(gpus=4, batch=4)
    one = training(checkpointing=False, framework="trl", sequence=8192)
    found = remedies(question(one, layout), layout, Situation(framework=framework("trl")))
    by_kind = {remedy.kinds: remedy for remedy in found.enough}
    checkpointing = by_kind[SavingKind.CHECKPOINTING,]
    assert [(edit.name, edit.value) for edit in checkpointing.edits] == [("gradient_checkpointing", "true")]
    assert checkpointing.cost is not None
    assert 1.2 < checkpointing.cost < 1.4
    assert checkpointing.after.estimate is not None
    assert found.base.estimate is not None
    assert checkpointing.after.estimate.need_gib < found.base.estimate.need_gib / 2
    assert checkpointing.keeps_training
    assert all(not remedy.after.fits for remedy in found.not_enough)


def test_accumulation_takes_the_largest_batch_that_fits() -> None:
    layout = Layout(gpus=1, batch=16, accumulation=2)
    asked = question(training(method=Method.LORA), layout)
    found = remedies(asked, layout, Situation(framework=framework("trl")))
    remedy = next(one for one in found.enough if one.kinds == (SavingKind.ACCUMULATION,))
    chosen = remedy.after.layout
    assert chosen.batch * chosen.accumulation == 32
    larger = next(batch for batch in range(chosen.batch + 1, 17) if 32 % batch == 0)
    assert not Evaluator(asked).evaluate(replace(layout, batch=larger, accumulation=32 // larger)).fits
    assert {edit.name: edit.value for edit in remedy.edits} == {
        "per_device_train_batch_size": str(chosen.batch),
        "gradient_accumulation_steps": str(chosen.accumulation),
    }


def test_pairs_are_tried_when_nothing_alone_is_enough() -> None:
    layout = Layout(gpus=2, batch=8)
    one = training(method=Method.LORA, checkpointing=False, sequence=16384)
    found = remedies(question(one, layout), layout, Situation(framework=framework("axolotl"), most_gpus=2))
    assert not any(len(kind) == 1 for kind in kinds(found.enough))
    assert ("accumulation", "checkpointing") in kinds(found.enough)
    pair = next(one for one in found.enough if set(one.kinds) == {SavingKind.ACCUMULATION, SavingKind.CHECKPOINTING})
    assert {edit.name for edit in pair.edits} == {
        "gradient_checkpointing",
        "micro_batch_size",
        "gradient_accumulation_steps",
    }


def test_a_change_that_saves_nothing_alone_may_save_with_another() -> None:
    """Unsharded states of 8 B need more than the activations do, so that a smaller batch counts only with sharding."""
    layout = Layout(gpus=8, workers=1, batch=16)
    one = training(
        strategy=Strategy.DDP,
        precision=Precision.BF16_MIXED,
        sequence=2048,
        checkpointing=True,
        attention=Attention.SDPA,
    )
    asked = question(one, layout, "NVIDIA-H100-80GB-HBM3", is_uncertain=True)
    found = remedies(asked, layout, Situation(framework=framework("trl")))
    assert not any(
        SavingKind.ACCUMULATION in kind and len(kind) == 1 for kind in kinds((*found.enough, *found.not_enough))
    )
    assert any(set(kind) == {SavingKind.ACCUMULATION, SavingKind.SHARDING} for kind in kinds(found.enough))


def test_three_are_tried_when_two_are_not_enough() -> None:
    layout = Layout(gpus=1, batch=4)
    one = training(strategy=Strategy.DDP, checkpointing=False, sequence=8192)
    found = remedies(question(one, layout), layout, Situation(framework=framework("trl"), most_gpus=1))
    kept = [remedy for remedy in found.enough if remedy.keeps_training]
    assert kept
    assert {len(remedy.kinds) for remedy in kept} == {3}
    assert len(kept) <= 3
    assert kept[0].text.count(", ") == 1
    assert kept[0].text.count(" and ") == 1


def test_pairs_are_not_tried_when_one_change_is_enough() -> None:
    layout = Layout(gpus=4, batch=4)
    found = remedies(question(training(checkpointing=False), layout), layout, Situation(offered=ALL))
    assert all(len(kind) == 1 for kind in kinds(found.enough))


def test_adapters_come_last_although_they_are_cheap() -> None:
    layout = Layout(gpus=1, batch=1)
    found = remedies(question(training(), layout), layout, Situation(framework=framework("trl"), offered=ALL))
    keeps = [one.keeps_training for one in found.enough]
    assert keeps == sorted(keeps, reverse=True)
    assert found.enough[-1].kinds[0] in {SavingKind.LORA, SavingKind.QLORA}
    assert {edit.name: edit.value for edit in found.enough[-1].edits}["use_peft"] == "true"


def test_what_a_framework_cannot_do_is_refused() -> None:
    layout = Layout(gpus=1, batch=1)
    found = remedies(question(training(), layout), layout, Situation(framework=framework("torchtune")))
    assert ("lora",) in kinds(found.refused)
    refused = next(one for one in found.refused if one.kinds == (SavingKind.LORA,))
    assert refused.refusal == "torchtune has no known setting for it"
    assert refused.edits == ()
    assert not refused.is_enough


def test_an_unknown_framework_refuses_nothing_and_names_nothing() -> None:
    layout = Layout(gpus=1, batch=1)
    found = remedies(question(training(), layout), layout, Situation())
    assert found.refused == ()
    assert all(one.edits == () for one in found.enough)


def test_the_framework_decides_between_fsdp_and_zero() -> None:
    layout = Layout(gpus=8, batch=1)
    asked = question(training(strategy=Strategy.DDP, sequence=512), layout, "NVIDIA-L40S")

    def strategies(name: str) -> set[Strategy]:
        found = remedies(asked, layout, Situation(framework=framework(name)))
        listed = (*found.enough, *found.not_enough, *found.refused)
        return {one.training.strategy for one in listed if one.kinds == (SavingKind.SHARDING,)}

    assert strategies("trl") == {Strategy.FSDP_FULL}
    assert strategies("llama-factory") <= {Strategy.ZERO2, Strategy.ZERO3}
    assert strategies("llama-factory")


def test_host_memory_limits_offloading() -> None:
    layout = Layout(gpus=8, batch=1)
    asked = question(training("llama3.1-70b"), layout, "NVIDIA-L40S")
    offloading = (SavingKind.OFFLOAD,)

    def offload(host_gib: int) -> Remedy | None:
        small = replace(asked, gpu=replace(asked.gpu, host_gib=host_gib))
        found = remedies(small, layout, Situation(framework=framework("fms-hf-tuning")))
        return next((one for one in (*found.enough, *found.not_enough) if one.kinds == offloading), None)

    enough, little = offload(2000), offload(64)
    assert enough is not None
    assert enough.after.fits
    assert enough.training.offload is Offload.ALL
    assert enough.after.estimate is not None
    assert 500 < enough.after.estimate.host_gib < 2000
    assert enough.cost is not None
    assert enough.cost > 2  # the optimizer runs on the host
    assert little is not None
    assert (little.after.fits, little.after.reason) == (False, "host-memory")


def test_more_gpus_and_another_card_keep_the_batch() -> None:
    layout = Layout(gpus=2, batch=4)
    found = remedies(question(training(), layout, "NVIDIA-L40S"), layout, Situation(offered=ALL))
    more = next(one for one in (*found.enough, *found.not_enough) if one.kinds == (SavingKind.MORE_GPUS,))
    assert more.after.layout == Layout(gpus=4, batch=2)
    others = [one for one in found.enough if one.kinds == (SavingKind.OTHER_GPU,)]
    assert 1 <= len(others) <= 2
    assert all(one.after.gpu.memory_gib > 45 and one.after.layout == layout for one in others)


def test_the_optimizer_of_small_adapters_is_no_remedy() -> None:
    """Its states are a thousandth of the weights; those of adapters of a high rank are not."""
    layout = Layout(gpus=1, batch=16)

    def offers(rank: int) -> bool:
        one = training(method=Method.LORA, lora_rank=rank, lora_targets=("all-linear",), framework="trl")
        found = remedies(question(one, layout, "NVIDIA-L40S"), layout, Situation(framework=framework("trl")))
        listed = [kind for remedy in (*found.enough, *found.not_enough) for kind in remedy.kinds]
        return SavingKind.OPTIMIZER in listed

    assert not offers(16)
    assert offers(512)


def test_eager_attention_is_a_remedy_of_its_own() -> None:
    layout = Layout(gpus=8, batch=1)
    one = training(attention=Attention.EAGER, sequence=16384)
    found = remedies(question(one, layout), layout, Situation(framework=framework("trl")))
    assert ("attention",) in kinds(found.enough)


def test_a_decision_without_a_size_is_remedied_on_the_fewest_gpus() -> None:
    asked = question(training(checkpointing=False, sequence=8192), Layout(gpus=1, batch=64), max_gpus=8)
    decision = decide(asked)
    assert decision.chosen is None
    found = find_remedies(asked, decision.candidates, Situation(framework=framework("trl"), most_gpus=8))
    assert found is not None
    assert found.enough
    for remedy in found.enough:
        fewer = [one for one in decision.candidates if one.layout.gpus < remedy.before.layout.gpus]
        again = Evaluator(replace(asked, training=remedy.training))
        if SavingKind.ACCUMULATION not in remedy.kinds:
            assert not any(again.evaluate(one.layout).fits for one in fewer)


def test_the_line_decides_what_follows_from_an_edit() -> None:
    """The training is the one that is read from the line with the edits; without one, the change itself counts."""
    layout = Layout(gpus=4, batch=4)
    asked = question(training(checkpointing=False, framework="trl"), layout)
    other = replace(asked.training, checkpointing=True, sequence=1024)
    read = Situation(framework=framework("trl"), reread=lambda _: (other, False))
    unread = Situation(framework=framework("trl"), reread=lambda _: None)
    kind = (SavingKind.CHECKPOINTING,)
    by_line = next(one for one in remedies(asked, layout, read).enough if one.kinds == kind)
    alone = next(one for one in remedies(asked, layout, unread).refused if one.kinds == kind)
    assert (by_line.training, by_line.refusal) == (other, "")
    assert (alone.training.sequence, alone.training.checkpointing, alone.edits) == (4096, True, ())
    assert alone.refusal == "the line could not be sized then"


def test_pretraining_is_remedied_by_its_own_parallelism() -> None:
    """Tensor and sequence parallelism, and the distributed optimizer; every change keeps the samples of an update."""
    one = training(
        "llama3.1-70b",
        framework="megatron-lm",
        strategy=Strategy.DDP,
        tensor=2,
        pipeline=4,
        checkpointing=False,
        precision=Precision.BF16_MIXED,
        optimizer="adamw_apex_fused",
    )
    layout = Layout(gpus=16, workers=2, batch=2, accumulation=32)
    asked = question(one, layout, keeps_batch=True)
    assert asked.effective_batch == 128
    found = remedies(asked, layout, Situation(framework=framework("megatron-lm"), most_gpus=64))
    every = (*found.enough, *found.not_enough)
    assert {"tensor-parallelism", "sequence-parallelism", "sharding"} <= {
        kind for names in kinds(every) for kind in names
    }
    for remedy in every:
        after = remedy.after.layout
        assert after.gpus % remedy.training.multiple == 0
        assert after.gpus // remedy.training.group * after.batch * after.accumulation == 128
    assert all(kind not in {"fused-loss", "offload"} for names in kinds(every) for kind in names)


def test_tensor_parallelism_that_cannot_divide_the_heads_is_no_remedy() -> None:
    one = training("qwen2.5-7b", framework="megatron-lm", strategy=Strategy.DDP, optimizer="adamw_apex_fused")
    degrees = {saving.degree for saving in savings_of(one, 8, ("tensor",)) if saving.kind is SavingKind.TENSOR}
    assert degrees == {2, 4}, "28 heads are not divided among 8 GPUs"


def test_the_batch_of_a_remedy_is_spelled_as_on_the_line() -> None:
    line = "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 24 --hidden-size 2048 --num-attention-heads 16 --bf16 "
    line += (
        "--seq-length 8192 --micro-batch-size 8 --global-batch-size 64 --vocab-size 32000 --use-distributed-optimizer"
    )
    launch = parse_launch(["bash", "-c", line], [], {}, no_files).launch
    assert launch is not None
    asked = build_questions(launch, SizingSettings(default_gpu_model="NVIDIA-A100-SXM4-80GB"), TABLES).questions[0]
    layout = Layout(gpus=8, batch=8, accumulation=asked.accumulation)
    found = remedies(asked, layout, Situation(framework=launch.framework, launch=launch))
    smaller = next(one for one in found.enough if one.kinds == (SavingKind.ACCUMULATION,))
    assert [edit.name for edit in smaller.edits] == ["micro-batch-size"]
