"""How long a run is: steps or epochs of the launch line, and the size of the dataset that a job states."""

import pytest
from msgspec.structs import replace

from reconciler.launch import Launch, parse_launch
from reconciler.sizing.decide import decide
from reconciler.sizing.job_questions import SAMPLES, TOKENS, Dataset, parse_dataset, total_tokens
from tests.sizing.questions import A100, fits_from, question, speed_of, steady

_LINE = (
    "accelerate launch --num_processes 1 -m tuning.sft_trainer --model_name_or_path meta-llama/Llama-3.1-8B "
    "--max_seq_length 2048 --per_device_train_batch_size 8"
)


def launch(flags: str) -> Launch:
    found = parse_launch(("bash", "-c"), (f"{_LINE} {flags}",), {}, lambda _: None).launch
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("flags", "dataset", "tokens"),
    [
        ("--max_steps 100", Dataset(), 100 * 8 * 2048),
        ("--num_train_epochs 3", Dataset(samples=1000), 3 * 1000 * 2048),
        ("--num_train_epochs 0.5", Dataset(tokens=10_000_000), 5_000_000),
        ("--num_train_epochs 3 --max_steps 10", Dataset(samples=1000), 10 * 8 * 2048),
        ("--num_train_epochs 2 --max_steps -1", Dataset(samples=1000), 2 * 1000 * 2048),
        ("--num_train_epochs 3", Dataset(), None),
        ("--max_steps $STEPS", Dataset(samples=1000), None),
        ("", Dataset(samples=1000, tokens=5), None),
    ],
)
def test_tokens_of_a_run(flags: str, dataset: Dataset, tokens: float | None) -> None:
    """F-008: unless steps, or epochs with the dataset, are stated, the length is unknown and not guessed."""
    assert total_tokens(launch(flags), question(), dataset) == tokens


def test_the_size_of_a_dataset_is_a_whole_number() -> None:
    assert parse_dataset({SAMPLES: "52000", TOKENS: "9"}) == (Dataset(samples=52000, tokens=9), ())
    for text in ("", "0", "-5", "1e6", "52 000", "٣", "9" * 16):
        assert parse_dataset({SAMPLES: text}) == (Dataset(), (SAMPLES,))
    assert parse_dataset({}) == (Dataset(), ())


def test_hours_and_money_of_a_run() -> None:
    """F-008: tokens by the predicted speed, times GPUs, times the price."""
    asked = question(total_tokens=3.6e6, gpu=replace(A100, hourly=2.0, currency="USD"))
    decision = decide(asked, estimator=fits_from(2), speed=steady)
    run = decision.run
    assert run is not None
    assert (run.gpu_hours, run.money, run.currency) == (1.0, 2.0, "USD")
    assert run.low_gpu_hours < run.gpu_hours < run.high_gpu_hours
    assert str(run) == "1.0 GPU hours (0.9 to 1.1), 2.00 USD"
    assert decide(question(), estimator=fits_from(2), speed=steady).run is None
    assert decide(asked, estimator=fits_from(2), speed=lambda *_: None).run is None
    unpriced = decide(question(total_tokens=3.6e6), estimator=fits_from(1), speed=steady).run
    assert unpriced is not None
    assert (unpriced.money, str(unpriced)) == (None, "1.0 GPU hours (0.9 to 1.1)")
    assert speed_of(1.0).tokens_per_s == 1.0


def test_pods_that_cannot_meet_are_weighed_and_kept_on_one_node() -> None:
    """F-008: two nodes of the cheaper product are shown beside the dearer one that takes one node."""
    asked = question(batch=16, one_node=True, gpus_per_worker=8, max_gpus=16)
    decision = decide(asked, estimator=fits_from(16), speed=steady)
    assert (decision.chosen, decision.reason) == (None, "one-node")
    assert "on several nodes, whose pods have no rendezvous address" in decision.text
    assert decide(replace(asked, one_node=False), estimator=fits_from(16), speed=steady).chosen is not None
