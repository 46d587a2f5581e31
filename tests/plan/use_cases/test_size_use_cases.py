"""The use cases of `size` without the command line: questions, files, edits, evidence and tables as values."""

from collections.abc import Iterable, Sequence
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from reconciler.errors import ConfigError, InvalidInput
from reconciler.kinds.registry import BUILT_IN
from reconciler.plan import opening
from reconciler.repo.config import Cluster
from reconciler.size.ask import Asked, Bounds, answer_question, parse_architecture
from reconciler.size.files import (
    InputFile,
    SizingScope,
    answers_of,
    edited_files,
    require_jobs,
    size_file,
    size_selected,
    standalone_settings,
)
from reconciler.size.record import Pruned, prune, record
from reconciler.sizing.answers import Answer, Answers, Reply
from reconciler.sizing.engine_registry import Outcome
from reconciler.sizing.question import Question, engine_question
from reconciler.sizing.training import Strategy
from tests.cli.test_sized_plan import JOB
from tests.fakes.repository import MemoryRepository
from tests.plan.use_cases.workspaces import open_workspace, template_repository
from tests.sizing.tables import TABLES

ASKED = Asked(model="meta-llama/Llama-3.1-8B", method="lora", gpu="NVIDIA-L40S", sequence=2048)


def scope(repository: MemoryRepository | None = None, **settings: Any) -> SizingScope:
    """Return what files are sized against: a repository in memory, or settings."""
    index = open_workspace(repository).compile_whole() if repository else None
    return SizingScope(
        kinds=BUILT_IN,
        catalogue=opening.catalogue(),
        tables=TABLES,
        settings=standalone_settings(TABLES, **settings),
        index=index,
        repository=repository,
    )


def test_ask() -> None:
    answer = answer_question(ASKED, Bounds(), TABLES, gpus=8)
    assert answer.decision.chosen is not None
    assert answer.requested is not None
    assert answer.requested.layout.gpus == 8


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("model", "llama-99"),
        ("gpu", "abacus"),
        ("method", "osmosis"),
        ("objective", "ppo"),
        ("precision", "int3"),
        ("optimizer", "telepathy"),
        ("attention", "hearsay"),
        ("parallelism", "TP two"),
    ],
)
def test_ask_names_the_flag_with_the_invalid_value(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=f"^--{name}: unknown value '{value}'"):
        answer_question(replace(ASKED, **{name: value}), Bounds(), TABLES)


@pytest.mark.parametrize(
    ("parallelism", "fields"),
    [
        ("", {"strategy": Strategy.FSDP_FULL}),
        ("none", {"strategy": Strategy.DDP}),
        ("ZeRO-2", {"strategy": Strategy.ZERO2}),
        ("fsdp_hybrid", {"strategy": Strategy.FSDP_HYBRID}),
        ("DDP + TP 2 + SP", {"strategy": Strategy.DDP, "tensor": 2, "sequence_parallel": True}),
        ("zero-1, EP 8, ETP 1, HSDP 2", {"strategy": Strategy.ZERO1, "expert": 8, "expert_tensor": 1, "replicas": 2}),
        ("PP 4 + VP 2", {"pipeline": 4, "chunks": 2, "microbatch": 2}),
        ("PP 4 + microbatches 8", {"pipeline": 4, "microbatch": 1}),
    ],
)
def test_ask_reads_a_parallelism(parallelism: str, fields: dict[str, Any]) -> None:
    asked = replace(ASKED, model="mixtral-8x7b-v0.1", parallelism=parallelism, batch=8)
    training = answer_question(asked, Bounds(), TABLES).question.training
    assert {name: getattr(training, name) for name in fields} == fields


def test_ask_refuses_a_degree_that_cannot_divide_the_heads() -> None:
    asked = replace(ASKED, model="Qwen/Qwen2.5-7B", parallelism="FSDP + TP 3")
    with pytest.raises(ConfigError, match=r"^--parallelism: 28 attention heads cannot be divided among 3 GPUs"):
        answer_question(asked, Bounds(), TABLES)


@pytest.mark.parametrize("raw", [b"{", b"\xff", b"[]", b"{}", b"[" * 100_000])
def test_an_unusable_model_configuration(raw: bytes) -> None:
    with pytest.raises(ConfigError, match=r"^my/config\.json: "):
        parse_architecture(raw, "my/config.json", "my")


def test_file_outside_a_repository() -> None:
    sized = size_file(scope(), InputFile(path="job.yaml", content=JOB.encode()))
    (answer,) = answers_of(scope(), sized, gpus=16)
    assert answer.decision.chosen is not None
    assert answer.requested is not None
    require_jobs(BUILT_IN, [sized])


def test_files_without_a_job_and_with_errors() -> None:
    config_map = InputFile(path="a.yaml", content=b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")
    with pytest.raises(ConfigError, match=r"^a\.yaml: no training job found"):
        require_jobs(BUILT_IN, [size_file(scope(), config_map)])
    broken = size_file(scope(), InputFile(path="b.yaml", content=b"a: [\n"))
    with pytest.raises(InvalidInput) as caught:
        require_jobs(BUILT_IN, [broken])
    assert caught.value.problems == tuple(broken.errors)


def test_siblings_are_read_only_for_a_job() -> None:
    def forbidden() -> dict[str, bytes]:
        raise AssertionError

    content = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
    assert size_file(scope(), InputFile(path="a.yaml", content=content, siblings=forbidden)).jobs == ()
    with pytest.raises(AssertionError):
        size_file(scope(), InputFile(path="job.yaml", content=JOB.encode(), siblings=forbidden))


def test_unknown_gpu_product() -> None:
    with pytest.raises(ConfigError, match="--gpu: unknown GPU product 'H100'; did you mean NVIDIA-H100"):
        standalone_settings(TABLES, gpu="H100")


def test_write() -> None:
    selected = JOB.encode()
    sized = size_file(scope(), InputFile(path="job.yaml", content=selected))
    edits = edited_files([sized])
    assert list(edits) == ["job.yaml"]
    assert yaml.safe_load(edits["job.yaml"])["metadata"]["labels"]["autoconf-plugin-done"] == "yes"
    again = size_file(scope(), InputFile(path="job.yaml", content=edits["job.yaml"]), again=False)
    assert (again.jobs, again.done) == ((), 1)
    assert edited_files([again]) == {}


def test_write_refuses_all_files_if_one_is_broken() -> None:
    files = [("job.yaml", JOB.encode()), ("b.yaml", b"a: [\n")]
    with pytest.raises(InvalidInput):
        edited_files([size_file(scope(), InputFile(path=path, content=raw)) for path, raw in files])


def test_all_selected_jobs_of_a_repository() -> None:
    with pytest.raises(ConfigError, match="not in a config repository"):
        size_selected(scope())
    repository = template_repository()
    repository.save({"jobs/llama.yaml": JOB.encode()})
    inside = InputFile(path="/fleet/jobs/llama.yaml", content=JOB.encode(), inside="jobs/llama.yaml")
    opened = scope(repository)
    assert opened.has_source(inside)
    assert not opened.has_source(InputFile(path="x", content=b"", inside="elsewhere/x"))
    assert [file.path for file in size_selected(opened)] == ["jobs/language/llama-lora.yaml", "jobs/llama.yaml"]
    assert size_file(opened, inside).path == "jobs/llama.yaml"


class FakeEngine:
    """Answers every question with one outcome."""

    def __init__(self, outcome: Outcome, *, retryable: bool = False) -> None:
        self.outcome, self.retryable = outcome, retryable
        self.asked: list[Question] = []

    def __call__(self, cluster: Cluster, questions: Sequence[Question], _: Answers) -> Iterable[Reply]:
        self.asked += questions
        for question in questions:
            failed = self.outcome is Outcome.ERROR
            answer = Answer(
                question=engine_question(question),
                engine=cluster.sizing.engine,
                outcome=self.outcome,
                error="no such model" if failed else "",
                answered_at="2026-11-02T10:00:00Z",
            )
            yield Reply(answer=answer, retryable=self.retryable)


@pytest.fixture
def wrapped() -> MemoryRepository:
    """Return a repository whose engine is a script."""
    repository = template_repository()
    config = repository.work["reconciler.yaml"].decode().rstrip("\n")
    sizing = "\n  sizing: {engine: wrapper, wrapper: {script: tools/wrapper.py}}\n"
    repository.save({"reconciler.yaml": (config + sizing).encode()})
    return repository


def test_record_writes_what_the_engine_says(wrapped: MemoryRepository) -> None:
    opened = scope(wrapped)
    assert opened.index is not None
    written: dict[str, bytes] = {}
    engine = FakeEngine(Outcome.ERROR)
    (result,) = record(opened.index, size_selected(opened), ask=engine, write=written.__setitem__)
    assert (result.asked, result.pending, result.failures) == (1, 0, ("no such model",))
    assert len(engine.asked) == 1
    assert list(written) == [result.path] == ["evidence/main/sizing.yaml"]
    assert b"no such model" in written[result.path]


def test_record_leaves_out_what_may_pass(wrapped: MemoryRepository) -> None:
    opened = scope(wrapped)
    assert opened.index is not None
    written: dict[str, bytes] = {}
    engine = FakeEngine(Outcome.ERROR, retryable=True)
    (result,) = record(opened.index, size_selected(opened), ask=engine, write=written.__setitem__)
    assert result.failures == ("no such model",)
    assert written == {}


def test_record_without_an_external_engine() -> None:
    opened = scope(template_repository())
    assert opened.index is not None
    engine = FakeEngine(Outcome.ERROR)
    assert record(opened.index, size_selected(opened), ask=engine, write=lambda _path, _raw: None) == []
    assert engine.asked == []


def recorded(repository: MemoryRepository) -> bytes:
    """Ask a script about every selected job, and commit what it says."""
    opened = scope(repository)
    assert opened.index is not None
    written: dict[str, bytes] = {}
    record(opened.index, size_selected(opened), ask=FakeEngine(Outcome.ERROR), write=written.__setitem__)
    repository.save(written)
    return written["evidence/main/sizing.yaml"]


def pruned(repository: MemoryRepository) -> list[Pruned]:
    opened = scope(repository)
    assert opened.index is not None
    return prune(opened.index, size_selected(opened, again=True))


def test_answers_that_jobs_ask_for_stay(wrapped: MemoryRepository) -> None:
    wrapped.save({"jobs/llama.yaml": JOB.encode()})
    recorded(wrapped)
    assert pruned(wrapped) == []
    done = JOB.replace("    team: vision\n", "    team: vision\n    autoconf-plugin-done: 'yes'\n", 1)
    wrapped.save({"jobs/llama.yaml": done.encode()})
    assert pruned(wrapped) == []  # a sized job asks again with --again


def test_answers_that_nobody_asks_for_are_found(wrapped: MemoryRepository) -> None:
    """The file without them is what would be recorded now."""
    only = recorded(wrapped)
    wrapped.save({"jobs/llama.yaml": JOB.encode()})
    both = recorded(wrapped)
    assert both != only
    wrapped.save({"jobs/llama.yaml": JOB.replace("max_seq_length 4096", "max_seq_length 2048").encode()})
    (found,) = pruned(wrapped)
    assert (found.path, found.kept, found.content) == ("evidence/main/sizing.yaml", 1, only)
    assert [answer.question.tokens_per_sample for answer in found.removed] == [4096]
    wrapped.save({found.path: found.content})
    assert pruned(wrapped) == []


def test_without_an_engine_no_answer_is_needed(wrapped: MemoryRepository) -> None:
    recorded(wrapped)
    config = (
        wrapped.work["reconciler.yaml"].decode().replace("{engine: wrapper, wrapper: {script: tools/wrapper.py}}", "{}")
    )
    wrapped.save({"reconciler.yaml": config.encode()})
    (found,) = pruned(wrapped)
    assert (found.kept, len(found.removed)) == (0, 1)


def test_nothing_is_pruned_while_a_question_may_be_hidden(wrapped: MemoryRepository) -> None:
    """A file that cannot be read, or a line that cannot be sized, may ask for any answer."""
    wrapped.save({"jobs/llama.yaml": JOB.encode()})
    recorded(wrapped)
    for broken in ("a: [\n", JOB.replace("--max_seq_length 4096", "--max_seq_length many")):
        wrapped.save({"jobs/llama.yaml": broken.encode()})
        with pytest.raises(InvalidInput):
            pruned(wrapped)
