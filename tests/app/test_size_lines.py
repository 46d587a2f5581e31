"""Launch lines by value: any text is sized, or refused with its reasons; edits of any line are read without a fault."""

from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.app.size.files import standalone_settings
from reconciler.app.size.line import size_line
from reconciler.core.launch.changes import DEEPSPEED_CHANGES
from reconciler.core.launch.launchers import LAUNCHERS
from reconciler.core.problems import Problem
from reconciler.errors import InvalidInput
from reconciler.outputs.sizing.answer import SizeAnswer
from tests.core.launch.cases import cases
from tests.core.sizing.tables import TABLES

SETTINGS = standalone_settings(TABLES, gpu="NVIDIA-A10G", max_gpus=4)
WORDS = st.sampled_from(
    (
        *("accelerate launch", "trl sft", "axolotl train a.yaml", "swift sft", "-m tuning.sft_trainer", "python", "|"),
        *("--model_name_or_path llama3.1-8b", "--model Qwen/Qwen2.5-7B", "--max_length 4096", "--use_peft", "'", "$A"),
        *("--per_device_train_batch_size 64", "--deepspeed zero2", "--fsdp full_shard", "\n", "--num_processes=2"),
    )
)


def sized(text: str, files: dict[str, bytes], gpus: int | None) -> SizeAnswer | tuple[Problem, ...]:
    """Return the answer about a line, or why there is none."""
    try:
        return size_line(text, TABLES, SETTINGS, files, gpus=gpus, env={"A": "1"})[0]
    except InvalidInput as error:
        return tuple(error.problems)


@settings(max_examples=60, deadline=None)
@given(st.lists(WORDS, max_size=10).map(" ".join), st.none() | st.integers(1, 8))
def test_any_text_is_sized_or_refused(text: str, gpus: int | None) -> None:
    answer = sized(text, {}, gpus)
    if isinstance(answer, tuple):
        assert answer
        assert all(problem.place.path == "line" and problem.place.line >= 1 for problem in answer)
        return
    subject = answer.requested or answer.decision.chosen
    assert (answer.remedies is not None) <= (subject is None or not subject.fits)


def test_remedies_of_real_lines_are_those_of_their_framework() -> None:
    """A framework never gets another one's flags."""
    with_remedies = 0
    for case in cases()[::3]:
        answer = sized(case.script, case.files, 1)
        if isinstance(answer, tuple) or answer.remedies is None or answer.framework is None:
            continue
        with_remedies += 1
        framework = answer.framework
        changes = [*framework.changes.values(), *(one for launcher in LAUNCHERS for one in launcher.changes.values())]
        known = {part.strip("-+") for names in changes for name in names for part in name.split("|")}
        known |= {name for fact in ("batch", "accumulation") for name in framework.settings.get(fact, ())}
        known |= {name for names in DEEPSPEED_CHANGES.values() for name in names}
        edits = [edit for one in (*answer.remedies.enough, *answer.remedies.not_enough) for edit in one.edits]
        assert {edit.name for edit in edits} <= known, case.name
    assert with_remedies >= 10
