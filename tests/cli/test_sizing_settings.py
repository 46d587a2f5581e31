"""Settings of sizing as a user meets them: what is rendered, an exit code and a place, lines of a log."""

import json
import logging
import re
import sys
from datetime import datetime, timedelta
from typing import Any

import pytest
import yaml

from reconciler.console import logs
from tests.cli.fleet import Fleet, Ran, run_verb

JOB = "jobs/language/llama-lora.yaml"  # of the template
RENDERED = "rendered/main/default/pytorchjob-llama-lora.yaml"
BY_VERSION = """\
import json, sys
out, version = sys.argv[1], sys.argv[-1]
with open(out, "w") as file:
    json.dump({"workers": 1, "gpus": 2 if version == "3.1.0" else 4, "error": ""}, file)
"""


def rendered_with(fleet: Fleet, settings: str) -> dict[str, Any]:
    """Render the template's sized job under settings of sizing, written as YAML's flow."""
    path = fleet.root / "reconciler.yaml"
    path.write_text(f"{path.read_text()}  sizing: {{{settings}}}\n")
    shown = fleet.run("plan")
    assert shown.code == 0, shown.out + shown.err
    fleet.commit()
    committed = fleet.run("commit")
    assert committed.code == 0, committed.err
    body: dict[str, Any] = yaml.safe_load(fleet.git("show", f"HEAD:{RENDERED}"))
    return body


def container(body: dict[str, Any]) -> dict[str, Any]:
    """Return the Master's container."""
    found: dict[str, Any] = body["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"][0]
    return found


def note(body: dict[str, Any]) -> dict[str, Any]:
    """Return our annotation."""
    found: dict[str, Any] = json.loads(body["metadata"]["annotations"]["gpureconciler.io/sizing"])
    return found


@pytest.mark.parametrize(
    ("settings", "suspended"), [("", True), ("unsuspend: false", True), ("unsuspend: true", False)]
)
def test_a_suspended_job_waits_unless_sizing_may_start_it(fleet: Fleet, settings: str, suspended: bool) -> None:
    """F-017: the unsuspend option; sized it is either way."""
    fleet.edit(JOB, "  runPolicy:\n", "  runPolicy:\n    suspend: true\n")
    body = rendered_with(fleet, settings)
    assert body["spec"]["runPolicy"]["suspend"] is suspended
    assert container(body)["resources"]["limits"]["nvidia.com/gpu"] == 2


@pytest.mark.parametrize(
    ("settings", "cpus"), [("", 4), ("patchCpuRequest: true", 4), ("patchCpuRequest: false", None)]
)
def test_cpus_follow_the_gpus_unless_they_are_left_alone(fleet: Fleet, settings: str, cpus: int | None) -> None:
    """F-017: two CPUs a GPU, request and limit, or what the job says (here: nothing)."""
    resources = container(rendered_with(fleet, settings))["resources"]
    for section in ("requests", "limits"):
        assert resources[section].get("cpu") == cpus
        assert resources[section]["nvidia.com/gpu"] == 2


@pytest.mark.parametrize(
    ("settings", "sized"),
    [("", True), ("select: {namespaces: [default]}", True), ("select: {namespaces: [vision, prod]}", False)],
)
def test_only_jobs_of_the_named_namespaces_are_sized(fleet: Fleet, settings: str, sized: bool) -> None:
    """F-017: elsewhere a job passes as it is written, whatever its label."""
    body = rendered_with(fleet, settings)
    assert ("resources" in container(body)) is sized
    assert ("autoconf-plugin-done" in body["metadata"]["labels"]) is sized
    assert ("annotations" in body["metadata"]) is sized


@pytest.mark.parametrize("settings", ["", "defaultGpuModel: NVIDIA-H100-80GB-HBM3", "defaultGpuModel: H100-80GB"])
def test_jobs_that_name_no_card_are_sized_for_the_default(fleet: Fleet, settings: str) -> None:
    """F-017: the default GPU model counts among what the pods can get, which the queue and the evidence say."""
    body = rendered_with(fleet, settings)
    product = "NVIDIA-H100-80GB-HBM3"
    assert (note(body)["gpu"], note(body)["gpus"]) == (product, 2)
    assert container(body)["resources"]["limits"]["nvidia.com/gpu"] == 2
    assert {"name": "AUTOCONF_GPU_MODEL", "value": product} in container(body)["env"]


def test_a_default_that_no_node_has_is_an_error(fleet: Fleet) -> None:
    """F-017: a job is never sized for a GPU product that its pods cannot get."""
    path = fleet.root / "reconciler.yaml"
    path.write_text(f"{path.read_text()}  sizing: {{defaultGpuModel: NVIDIA-H200}}\n")
    planned = fleet.run("plan", "--width", "250")
    assert planned.code == 3
    told = "spec.sizing.defaultGpuModel is NVIDIA-H200, but the pods can only get NVIDIA-H100-80GB-HBM3"
    assert told in planned.out + planned.err


def test_an_unknown_default_card_is_said(fleet: Fleet) -> None:
    """F-017: it is never taken for another."""
    path = fleet.root / "reconciler.yaml"
    path.write_text(f"{path.read_text()}  sizing: {{defaultGpuModel: NVIDIA-H1000}}\n")
    planned = fleet.run("plan", "--width", "200")
    assert planned.code == 3
    assert "unknown GPU 'NVIDIA-H1000' in spec.sizing.defaultGpuModel" in planned.out + planned.err


@pytest.mark.parametrize(("settings", "version", "gpus"), [("", "3.1.0", 2), ("modelVersion: 2.0.0, ", "2.0.0", 4)])
def test_the_script_is_told_the_version_of_the_model(fleet: Fleet, settings: str, version: str, gpus: int) -> None:
    """F-017: the default version is 3.1.0; another is asked for, and kept with its answer."""
    script = fleet.write("ask.py", BY_VERSION)
    text = (fleet.root / "reconciler.yaml").read_text()
    fleet.write("reconciler.yaml", f"{text}  sizing: {{{settings}wrapper: {{script: {script.name}}}}}\n")
    recorded = fleet.run("size", "record", "--python", sys.executable)
    assert recorded.code == 0, recorded.err
    (answer,) = yaml.safe_load((fleet.root / "evidence/main/sizing.yaml").read_text())["spec"]["answers"]
    assert answer["question"]["modelVersion"] == version
    assert answer["recommendation"] == {"gpus": gpus, "workers": 1}
    asked = json.loads(fleet.run("size", str(fleet.root / JOB), "-o", "json").out)
    assert asked["chosen"]["gpus"] == gpus


def test_a_card_may_be_asked_about(fleet: Fleet) -> None:
    """A file of a repository is sized for `--gpu` where it names no card itself; nothing is written."""
    before = fleet.files("")
    for product, gpus in (("NVIDIA-L40S", 4), ("NVIDIA-H100-80GB-HBM3", 2)):
        asked = json.loads(fleet.run("size", str(fleet.root / JOB), "--gpu", product, "-o", "json").out)
        assert (asked["chosen"]["product"], asked["chosen"]["gpus"]) == (product, gpus)
    fleet.edit(
        JOB,
        "          schedulerName:",
        "          nodeSelector: {nvidia.com/gpu.product: NVIDIA-B200}\n          schedulerName:",
    )
    named = json.loads(fleet.run("size", str(fleet.root / JOB), "--gpu", "NVIDIA-L40S", "-o", "json").out)
    assert named["chosen"]["product"] == "NVIDIA-B200"
    after = fleet.files("")
    assert {path for path in after if after[path] != before.get(path) and ".git/" not in path} == {JOB}


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--gpu", "NVIDA-L40S"), "--gpu: unknown value 'NVIDA-L40S'; did you mean NVIDIA-L40S"),
        ((), "--gpu: is required"),
        (("--gpu", "NVIDIA-L40S", "--optimizer", "adamm"), "--optimizer: unknown value 'adamm'"),
        (("--gpu", "NVIDIA-L40S", "--parallelism", "magic"), "--parallelism: unknown value 'magic'"),
    ],
)
def test_what_is_wrong_with_a_question_is_said_in_flags(
    capsys: pytest.CaptureFixture[str], flags: tuple[str, ...], words: str
) -> None:
    """No column of a table is named to somebody who has none."""
    ran = run_verb(capsys, ["size", "ask", "--model", "Qwen/Qwen2.5-7B", *flags])
    assert ran.code == 2
    assert words in ran.err
    assert not re.search("gpu_|per_|_gib", ran.err)


def logged(ran: Ran) -> list[dict[str, str]]:
    """Read a log of JSON lines: every line is one object."""
    entries = [json.loads(line) for line in ran.err.splitlines()]
    assert all(set(entry) >= {"time", "level", "logger", "message"} for entry in entries)
    return entries


@pytest.mark.parametrize(
    ("level", "levels"),
    [("debug", {"debug", "info"}), ("info", {"info"}), ("warning", set()), ("error", set())],
)
def test_the_log_is_json_of_the_level_that_is_asked_for(fleet: Fleet, level: str, levels: set[str]) -> None:
    """F-019: encoder, level and time: each line parses as JSON, no message is below the level, times are UTC."""
    ran = fleet.run("plan", "--log-format", "json", "--log-level", level)
    assert ran.code == 0
    entries = logged(ran)
    assert {entry["level"] for entry in entries} == levels
    for entry in entries:
        assert datetime.fromisoformat(entry["time"]).utcoffset() == timedelta(0)
        assert entry["logger"].startswith("reconciler")


def test_the_log_is_text_by_default_and_the_environment_may_say_otherwise(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F-019: a flag wins over the variable; whatever is logged, the plan on standard output is the same."""
    quiet = fleet.run("plan")
    text = fleet.run("plan", "--log-level", "info")
    assert quiet.err == ""
    assert text.err.startswith("INFO: plan sha256:")
    monkeypatch.setenv("RECONCILER_LOG_FORMAT", "json")
    monkeypatch.setenv("RECONCILER_LOG_LEVEL", "info")
    told = fleet.run("plan")
    assert [entry["level"] for entry in logged(told)] == ["info"]
    assert fleet.run("plan", "--log-format", "text").err == text.err
    assert quiet.out == text.out == told.out


def test_messages_of_several_lines_stay_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    """F-019: quotes, line ends and a trace are escaped, so that a collector reads one event."""
    logs.set_up(level="info", form="json")
    try:
        int('a "quoted"\nmessage')
    except ValueError:
        logging.getLogger("reconciler.test").exception("failed: %s", "line\nline")
    (line,) = capsys.readouterr().err.splitlines()
    entry = json.loads(line)
    assert entry["message"] == "failed: line\nline"
    assert "ValueError" in entry["trace"]


@pytest.mark.parametrize(
    ("sizing", "words"),
    [
        ("engine: wrapper", "engine is wrapper, but wrapper.script is not set"),
        ("engine: rest", "engine is rest, but rest.url is not set"),
        ("{wrapper: {script: size.py}, rest: {url: 'http://ado'}}", "wrapper.script and rest.url are both set"),
    ],
)
def test_none_or_both_of_script_and_service(fleet: Fleet, sizing: str, words: str) -> None:
    """F-018: exactly one, or the command ends with what is wrong and where."""
    text = (fleet.root / "reconciler.yaml").read_text()
    line = text.count("\n") + 1
    sizing = sizing if sizing.startswith("{") else f"{{{sizing}}}"
    fleet.write("reconciler.yaml", f"{text}  sizing: {sizing}\n")
    planned = fleet.run("plan", "--width", "200")
    assert planned.code == 3
    assert f"reconciler.yaml:{line}:" in planned.out + planned.err
    assert words in planned.out + planned.err
