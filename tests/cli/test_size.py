"""`reconciler size`: a job on a laptop, a question by flags, and the commands."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.fleet import Fleet, Ran, run_verb
from tests.cli.test_sized_plan import JOB, OWN_MODEL, wrapped
from tests.ready import new_cache

EIGHT_B = ("ask", "--model", "meta-llama/Llama-3.1-8B", "--gpu", "NVIDIA-A100-SXM4-80GB", "--seq", "4096")
FIELDS = {"gpus", "workers", "peak_gib", "low_gib", "high_gib", "fits", "reason"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty folder, in no repository, and work in it."""
    place = tmp_path / "laptop"
    place.mkdir()
    monkeypatch.chdir(place)
    monkeypatch.setenv("RECONCILER_CACHE_DIR", new_cache(tmp_path))
    return place


@pytest.fixture
def size(capsys: pytest.CaptureFixture[str]) -> Any:
    def run(*arguments: str) -> Ran:
        return run_verb(capsys, ["size", *arguments])

    return run


def answer(ran: Ran) -> dict[str, Any]:
    assert ran.code == 0, ran.err
    found: dict[str, Any] = json.loads(ran.out)
    return found


def test_a_job_in_no_repository(folder: Path, size: Any) -> None:
    """Every candidate says its figures; the chosen one is the least that fits."""
    (folder / "job.yaml").write_text(JOB)
    found = answer(size("job.yaml", "-o", "json"))
    assert all(set(one) >= FIELDS for one in found["candidates"])
    fitting = [one for one in found["candidates"] if one["fits"]]
    assert found["chosen"] == fitting[0]
    assert found["recommendation"] == {
        "workers": fitting[0]["workers"],
        "gpus": fitting[0]["gpus"] // fitting[0]["workers"],
    }
    for one in found["candidates"]:
        assert one["low_gib"] <= one["peak_gib"] <= one["high_gib"]
        assert one["fits"] is (one["need_gib"] * 1.08 <= one["memory_gib"])
        assert sum(one["parts"].values()) == pytest.approx(one["peak_gib"], abs=0.01)
        assert one["batch"] * one["gpus"] * one["accumulation"] == 32


def test_a_file_that_is_written_keeps_its_permissions(folder: Path, size: Any) -> None:
    """A launch line may hold a token: a file that only its owner reads stays so."""
    job = folder / "job.yaml"
    job.write_text(JOB)
    job.chmod(0o600)
    assert size("write", "job.yaml").code == 0
    assert job.read_text() != JOB
    assert job.stat().st_mode & 0o777 == 0o600


def test_text_draws_memory_against_the_card(folder: Path, size: Any) -> None:
    (folder / "job.yaml").write_text(JOB)
    out = size("job.yaml").out
    assert "PyTorchJob/vision/llama-lora" in out
    assert any("W" in line and "L" in line and "|" in line for line in out.splitlines())
    assert "W weights" in out
    assert "confidence" in out
    assert "\x1b" not in out


def test_standard_input(folder: Path, size: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(wrapped(JOB).encode())))
    found = answer(size("-", "-o", "json"))
    assert found["job"].startswith("AppWrapper/vision/wrapped")


@pytest.mark.parametrize(("gpus", "fits"), [("1", False), ("16", True)])
def test_my_own_number_is_judged(size: Any, folder: Path, gpus: str, fits: bool) -> None:
    """A full fine-tuning of 8 B parameters does not fit on one card of 80 GB without paging, and does on sixteen."""
    assert folder.is_dir()
    found = answer(size(*EIGHT_B, "--method", "full", "--batch", "1", "--gpus", gpus, "-o", "json"))
    assert found["requested"]["gpus"] == int(gpus)
    assert found["requested"]["fits"] is fits
    text = size(*EIGHT_B, "--method", "full", "--batch", "1", "--gpus", gpus).out
    assert text.partition("Requested: ")[2].partition(",")[0].endswith(" fit" if fits else ")")


def test_errors_of_a_line_are_not_said_to_be_in_a_repository(size: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"torchrun a.py\naccelerate launch b.py\n")))
    ran = size("line", "--gpu", "NVIDIA-L40S", "-")
    assert ran.code == 3
    assert ran.err.endswith("error: 1 error in the launch line\n")


def test_flags_ask_without_a_file(size: Any, folder: Path) -> None:
    assert folder.is_dir()
    lora = answer(size(*EIGHT_B, "--method", "lora", "--batch", "4", "-o", "json"))
    full = answer(size(*EIGHT_B, "--method", "full", "--batch", "4", "-o", "json"))
    plain = answer(size(*EIGHT_B, "--method", "lora", "--batch", "4", "--no-checkpointing", "-o", "json"))
    assert lora["chosen"]["gpus"] <= full["chosen"]["gpus"]
    assert lora["candidates"][0]["peak_gib"] < plain["candidates"][0]["peak_gib"]
    assert lora["question"]["batch"] == 4


def test_a_model_by_its_configuration(size: Any, folder: Path) -> None:
    (folder / "own").mkdir()
    (folder / "own/config.json").write_text(json.dumps(OWN_MODEL))
    found = answer(size("ask", "--model", "own", "--gpu", "NVIDIA-L40S", "--method", "lora", "-o", "json"))
    assert found["read"].startswith("own (6.74 B)")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "Usage: reconciler size"),
        (("ask", "--model", "llama-99"), "--model"),
        (("ask", "--model", "meta-llama/Llama-3.1-8B"), "--gpu"),
        (("ask", "--model", "meta-llama/Llama-3.1-8B", "--gpu", "NVIDIA-L40X"), "NVIDIA-L40"),
        ((*EIGHT_B, "--precision", "int3"), "--precision"),
        ((*EIGHT_B, "--parallelism", "magic"), "--parallelism"),
        ((*EIGHT_B, "--optimizer", "telepathy"), "--optimizer"),
        ((*EIGHT_B, "--method", "osmosis"), "--method"),
        ((*EIGHT_B, "--batch", "0"), "--batch"),
        (("absent.yaml",), "absent.yaml"),
        (("empty.yaml",), "no training job"),
        (("record",), "config repository"),
        (("write",), "config repository"),
    ],
)
def test_what_is_wrong_is_named(size: Any, folder: Path, arguments: tuple[str, ...], said: str) -> None:
    (folder / "empty.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")
    ran = size(*arguments)
    assert ran.code in {2, 6}
    assert said in ran.err
    assert "bug" not in ran.err


def test_a_broken_file_gives_all_its_errors(size: Any, folder: Path) -> None:
    (folder / "job.yaml").write_text(JOB.replace("replicas: 1", "replicas: [1]") + "---\na: [\n")
    ran = size("job.yaml")
    assert ran.code == 3
    assert "job.yaml:13:" in ran.err
    assert "yaml.syntax" in ran.err


@pytest.mark.parametrize("arguments", [("-o", "json", "job.yaml", "--gpus", "2"), ("--gpus", "2", "--", "job.yaml")])
def test_flags_may_stand_before_the_file(size: Any, folder: Path, arguments: tuple[str, ...]) -> None:
    (folder / "job.yaml").write_text(JOB)
    order = tuple(word for word in arguments if word not in {"--", "job.yaml"})
    assert size(*arguments) == size("job.yaml", *order)


def test_each_command_explains_itself(size: Any) -> None:
    for name in ("FILE", "ask", "line", "write", "record", "prune"):
        ran = size(name, "--help")
        assert ran.code == 0
        assert f"Usage: reconciler size {name}" in ran.out
        assert "Examples:" in ran.out


def test_a_job_of_a_repository_follows_its_settings(fleet: Fleet) -> None:
    """The cluster's evidence and settings hold, wherever the file is named from."""
    fleet.write("jobs/llama.yaml", JOB)
    path = fleet.root / "reconciler.yaml"
    path.write_text(path.read_text().rstrip("\n") + "\n  sizing: {goal: avoid-oom}\n")
    ran = fleet.run("size", str(fleet.root / "jobs/llama.yaml"), "-o", "json")
    found = answer(ran)
    assert found["goal"] == "avoid-oom"
    assert found["candidates"][0]["gpus"] == 8
    assert "on main" in found["job"]
