"""The corpus: launch lines as people write them, with what each means, judged from line to question.

A case in `corpus/*.txt` begins with `## source`. Then come the line, `%env NAME=value`, and `%file path` with its content.
The last line is the meaning, read from the line and the framework's source: `=` framework (`-`: a script of its own),
method, model, samples per process, tokens, precision, optimizer, sharding and processes (`-`: not stated), then
`name=value` for what is unusual; or `!` and why the line must be refused, because its memory is not modelled.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import Struct

from reconciler import resources
from reconciler.launch import FlagTable, Launch, parse_launch, review_flags
from reconciler.sizing.config import SizingSettings
from reconciler.sizing.job_questions import build_questions
from reconciler.sizing.training import Training
from tests.sizing.tables import TABLES

FILES = sorted((Path(__file__).parent / "corpus").glob("*.txt"))
FLAGS = FlagTable(resources.read("data/flags.json"))
SETTINGS = SizingSettings(default_gpu_model="NVIDIA-H100-80GB-HBM3")
FIELDS = ("framework", "method", "model", "batch", "sequence", "precision", "optimizer", "strategy", "processes")
MORE = {"fused": "fused_loss", "acc": "accumulation", "rank": "lora_rank", "ckpt": "checkpointing"}


class Line(Struct, frozen=True):
    """A line of the corpus. `meaning` is empty where it must be refused."""

    source: str
    script: str
    env: dict[str, str | None]
    files: dict[str, bytes]
    meaning: dict[str, str]
    why: str


class Judgement(Struct, frozen=True):
    """What the program makes of a line: why it refuses it, or what it read otherwise than it is meant."""

    line: Line
    refused: str = ""
    misread: str = ""
    warned: bool = False


def lines() -> list[Line]:
    """Return all lines of the corpus."""
    return [line for path in FILES for line in _lines(path.read_text())]


def _lines(text: str) -> Iterator[Line]:
    for block in f"\n{text}".split("\n## ")[1:]:
        source, _, rest = block.strip("\n").partition("\n")
        *body, last = rest.split("\n")
        env: dict[str, str | None] = {}
        files: dict[str, list[str]] = {}
        script: list[str] = []
        target = script
        for row in body:
            if row.startswith("%env "):
                key, _, value = row.removeprefix("%env ").partition("=")
                env[key] = value
            elif row.startswith("%file "):
                target = files.setdefault(row.removeprefix("%file "), [])
            else:
                target.append(row)
        contents = {path: "\n".join([*found, ""]).encode() for path, found in files.items()}
        yield Line(source, "\n".join(script), env, contents, *_meaning(last))


def _meaning(text: str) -> tuple[dict[str, str], str]:
    mark, *words = text.split(" ")
    assert mark in {"=", "!"}, text
    if mark == "!":
        return {}, " ".join(words)
    more = dict(word.split("=") for word in words[len(FIELDS) :])
    named = zip(FIELDS, words, strict=False)
    meaning = {name: word for name, word in named if word != "-" or name == "framework"}
    return {"offload": "none"} | meaning | {MORE.get(name, name): value for name, value in more.items()}, ""


def judge(line: Line) -> Judgement:
    """Read a line as sizing does, and compare it with its meaning."""
    parsed = parse_launch(["bash", "-c"], [line.script], line.env, lambda path: line.files.get(path.removeprefix("./")))
    if parsed.launch is None or parsed.diagnostics:
        return Judgement(line, refused=parsed.diagnostics[0].message)
    review = review_flags(parsed.launch, FLAGS)
    if review.refused:
        return Judgement(line, refused=review.refused[0].message)
    found = build_questions(parsed.launch, SETTINGS, TABLES, files=line.files.get)
    if not found.questions:
        return Judgement(line, refused=found.diagnostics[0].message)
    warned = bool(review.warnings)
    if not line.meaning:
        return Judgement(line, misread=f"accepted, but {line.why}", warned=warned)
    read = _read(parsed.launch, found.questions[0].training)
    other = [f"{name} {read.get(name)}, not {value}" for name, value in line.meaning.items() if read.get(name) != value]
    return Judgement(line, misread="; ".join(other), warned=warned)


def _read(launch: Launch, training: Training) -> dict[str, str]:
    facts = {name: fact.value for name, fact in {**launch.defaults, **launch.facts}.items()}
    return facts | {
        "framework": launch.framework.name if launch.framework.is_known else "-",
        "model": facts["model"].rstrip("/").rpartition("/")[2],
        "method": training.method.value,
        "precision": training.precision.value,
        "optimizer": training.optimizer,
        "strategy": training.strategy.value,
        "offload": training.offload.value,
    }


JUDGED = [judge(line) for line in lines()]


def figures() -> str:
    """Return how many lines are accepted, refused by reason, and misread."""
    refused = Counter(_reason(one) for one in JUDGED if one.refused)
    accepted = [one for one in JUDGED if not one.refused]
    meant = sum(bool(one.line.meaning) for one in JUDGED)
    first = f"{len(JUDGED)} lines, {meant} with a meaning: {len(accepted)} accepted"
    first += (
        f" ({sum(one.warned for one in accepted)} with a warning), {sum(bool(one.misread) for one in accepted)} misread"
    )
    return "\n".join([first, *(f"  {count:4} {reason}" for reason, count in refused.most_common())])


def _reason(one: Judgement) -> str:
    return "rightly" if not one.line.meaning else one.refused.split("`")[-1].split(":")[0].strip()[:60]


def test_the_corpus_is_long() -> None:
    assert len(JUDGED) >= 300, figures()


@pytest.mark.parametrize("one", JUDGED, ids=[one.line.source for one in JUDGED])
def test_no_line_is_misread(one: Judgement) -> None:
    assert not one.misread


def test_most_lines_that_have_a_meaning_are_accepted() -> None:
    """At least 80 % of the lines that can be sized are."""
    meant = [one for one in JUDGED if one.line.meaning]
    assert sum(not one.refused for one in meant) >= 0.8 * len(meant), figures()
