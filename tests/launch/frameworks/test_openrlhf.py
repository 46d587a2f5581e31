"""OpenRLHF's batches, from the launch line to the question."""

import pytest

from tests.launch.frameworks.test_pretraining import questions

LINE = "deepspeed --module openrlhf.cli.train_dpo --pretrain meta-llama/Llama-3.1-8B --zero_stage 3 --max_len 2048"


@pytest.mark.parametrize(
    ("flags", "requested", "steps"),
    [
        ("--micro_train_batch_size 1 --train_batch_size 64", 8, 8),
        ("--micro_train_batch_size 2 --train_batch_size 64", None, 32),
        ("--micro_train_batch_size 2", 4, 16),  # 128 by default
    ],
)
def test_an_update_is_divided_among_the_requested_gpus(flags: str, requested: int | None, steps: int) -> None:
    found = questions(f"{LINE} {flags}", requested).questions[0]
    assert found.accumulation == steps


def test_a_batch_that_deepspeed_would_refuse_is_an_error() -> None:
    found = questions(f"{LINE} --micro_train_batch_size 3 --train_batch_size 64", 8)
    assert [one.rule for one in found.diagnostics] == ["sizing.batch"]
