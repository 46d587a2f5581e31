"""Sizing as strangers use it: what they forget, get wrong, and must never see."""

import pytest

from tests.cli.fleet import Fleet, run_verb
from tests.cli.test_sized_plan import JOB, MEASURED, configure, plan
from tests.sizing.predictors.server import answer, serving


def test_the_token_of_a_service_is_no_setting(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """F-010: it comes from the environment, is sent, and disturbs no verb."""
    monkeypatch.setenv("RECONCILER_SIZING_TOKEN", "hunter2hunter2")
    (fleet.root / "jobs/language/llama-lora.yaml").unlink()
    fleet.write("jobs/llama.yaml", JOB)
    with serving(answer(200, ["f6db88"]), answer(200, MEASURED)) as server:
        configure(fleet, "rest", f"    rest: {{url: '{server.url}'}}\n")
        monkeypatch.setenv("RECONCILER_SIZING_HOST", server.url.removeprefix("http://"))
        assert fleet.run("size", "record").code == 0
        assert all(one.headers["Authorization"] == "Bearer hunter2hunter2" for one in server.said)
    assert "hunter2" not in (fleet.root / "evidence/main/sizing.yaml").read_text()
    assert plan(fleet)["changes"]


@pytest.mark.parametrize(
    "named", ["", "127.0.0.1", "localhost:PORT", "sizing.example.com", "127.0.0.1:PORT.example.com"]
)
def test_the_token_goes_to_no_server_that_only_the_repository_names(
    fleet: Fleet, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pull request that edits the URL must not get the token of the pipeline."""
    monkeypatch.setenv("RECONCILER_SIZING_TOKEN", "hunter2hunter2")
    (fleet.root / "jobs/language/llama-lora.yaml").unlink()
    fleet.write("jobs/llama.yaml", JOB)
    with serving(answer(200, ["f6db88"]), answer(200, MEASURED)) as server:
        port = server.url.rpartition(":")[2]
        monkeypatch.setenv("RECONCILER_SIZING_HOST", named.replace("PORT", port))
        configure(fleet, "rest", f"    rest: {{url: '{server.url}'}}\n")
        ran = fleet.run("size", "record")
        assert server.said == []
    assert ran.code == 2
    assert f"is not sent to 127.0.0.1:{port}" in " ".join(ran.err.split())
    assert f"set RECONCILER_SIZING_HOST=127.0.0.1:{port}" in " ".join(ran.err.split())
    assert "hunter2" not in ran.out + ran.err


@pytest.mark.parametrize("url", ["http://user:hunter2@host/ado", "http://host/ado?token=hunter2"])
def test_a_secret_in_a_url_is_refused_unseen(fleet: Fleet, url: str) -> None:
    """`reconciler.yaml` is in Git, and errors are in logs: the value is blotted out, the hint says where it belongs."""
    configure(fleet, "rest", f"    rest: {{url: '{url}'}}\n")
    for verb in (("lint",), ("plan", "-o", "json"), ("size", "record")):
        ran = fleet.run(*verb)
        assert ran.code == 3
        assert "hunter2" not in ran.out + ran.err
    assert "RECONCILER_SIZING_TOKEN" in fleet.run("lint").err


def test_what_waits_is_counted(fleet: Fleet) -> None:
    """F-010: a request that is not answered in time is told as such, and is no failure."""
    with serving(answer(200, ["f6db88"]), answer(404)) as server:
        configure(fleet, "rest", f"    rest: {{url: '{server.url}', deadlineSeconds: 1}}\n")
        ran = fleet.run("size", "record")
    assert ran.code == 0
    assert ran.out == "evidence/main/sizing.yaml: asked 1 question, 1 pending (run the command again later)\n"


def test_a_server_that_repeats_the_token(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its words are in evidence and logs; the token is not."""
    monkeypatch.setenv("RECONCILER_SIZING_TOKEN", "hunter2")
    with serving(answer(401, {"detail": "hunter2 is no token"})) as server:
        configure(fleet, "rest", f"    rest: {{url: '{server.url}'}}\n")
        monkeypatch.setenv("RECONCILER_SIZING_HOST", server.url.removeprefix("http://"))
        ran = fleet.run("size", "record")
    assert ran.code == 6
    assert "*** is no token; check the token (RECONCILER_SIZING_TOKEN)" in ran.out
    assert "hunter2" not in ran.out + ran.err + (fleet.root / "evidence/main/sizing.yaml").read_text()


def test_what_was_written_is_compared_with_what_is_trained(fleet: Fleet) -> None:
    """A sized source whose line changes: its AUTOCONF_* are of yesterday, and the plan says so until it is sized anew."""
    configure(fleet, "analytic", "    write: source\n")
    path = fleet.write("jobs/llama.yaml", JOB)
    assert fleet.run("size", "write", str(path)).code == 0
    assert not [one for one in plan(fleet)["problems"] if one["rule"] == "sizing.outdated"]
    fleet.edit("jobs/llama.yaml", "granite-3.1-8b-instruct", "granite-20b-code-base")
    (problem,) = [one for one in plan(fleet)["problems"] if one["rule"] == "sizing.outdated"]
    assert "reconciler size write --again jobs/llama.yaml" in problem["hint"]
    shown = fleet.run("size", str(path)).out
    assert "granite-20b-code (20.1 B)" in shown.splitlines()[1]
    ran = fleet.run("size", "write", "--again")
    assert "wrote jobs/llama.yaml\n" in ran.out, ran.err
    assert "value: granite-20b" in path.read_text().partition("AUTOCONF_MODEL_NAME\n")[2].partition("- name")[0]
    assert not [one for one in plan(fleet)["problems"] if one["rule"] == "sizing.outdated"]


def test_again_sizes_what_is_chosen_and_nothing_else(fleet: Fleet) -> None:
    """`--again` without files: the jobs that the settings choose, done or not; others in the repository are left."""
    configure(fleet, "analytic", "    write: source\n")
    assert fleet.run("size", "write").out == "wrote jobs/language/llama-lora.yaml\n"
    before = fleet.files("jobs")
    ran = fleet.run("size", "write", "--again")
    assert (ran.code, ran.out) == (0, "no changes\n"), ran.err
    assert fleet.files("jobs") == before


EIGHT_B = ("size", "ask", "--model", "meta-llama/Llama-3.1-8B", "--gpu", "NVIDIA-L40S", "--method", "lora")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            (*EIGHT_B, "--goal", "throughput"),
            "no such option '--goal'; it is an option of `size FILE`, `size line` and `size write`\n",
        ),
        ((*EIGHT_B, "--nodes", "2"), "--nodes requires --gpus"),
        (("size", "JOB", "--seq", "128"), "no such option '--seq'; it is an option of `size ask`\n"),
        (("size", "JOB", "--nonsense"), "no such option '--nonsense'\n"),
        (("size", "write", "JOB", "--python", "a"), "no such option '--python'; it is an option of `size record`\n"),
    ],
)
def test_a_flag_of_another_command_is_refused_with_its_owner(
    fleet: Fleet, arguments: tuple[str, ...], message: str
) -> None:
    job = str(fleet.root / "jobs/language/llama-lora.yaml")
    ran = run_verb(fleet.capture, [job if word == "JOB" else word for word in arguments])
    assert ran.code == 2
    assert message in ran.err


def test_settings_of_the_repository_override_flags_with_a_warning(fleet: Fleet) -> None:
    job = str(fleet.root / "jobs/language/llama-lora.yaml")
    ran = run_verb(fleet.capture, ["size", job, "--safety", "0.5", "--max-gpus", "4"])
    assert ran.code == 0
    assert ran.err == "warning: --max-gpus, --safety are ignored: spec.sizing of the config repository applies\n"
    assert run_verb(fleet.capture, ["size", job, "--gpus", "4"]).err == ""


def test_nodes_share_gpus_evenly(fleet: Fleet) -> None:
    ran = run_verb(fleet.capture, [*EIGHT_B, "--nodes", "2", "--gpus", "5"])
    assert ran.code == 2
    assert "5 GPUs cannot be spread evenly over 2 nodes" in ran.err


@pytest.mark.parametrize(
    ("expression", "chosen"),
    [
        ("operator: In, values: [NVIDIA-A100-SXM4-80GB, NVIDIA-H100-80GB-HBM3]", "NVIDIA-A100-SXM4-80GB"),
        ("operator: NotIn, values: [NVIDIA-L40S]", "NVIDIA-A100-SXM4-80GB"),
        ("operator: Exists", "NVIDIA-L40S"),
        ("operator: In, values: [NVIDIA-L40S, NVIDIA-H100-80GB-HBM3]", "NVIDIA-L40S"),
    ],
)
def test_cards_that_the_affinity_forbids_are_not_offered(fleet: Fleet, expression: str, chosen: str) -> None:
    """F-005: two values name no card, but a card that is not among them would leave the pods unschedulable for ever."""
    nodes = "".join(
        f"    - name: {name}\n      labels: {{nvidia.com/gpu.product: {product}}}\n"
        f"      gpu: {{product: {product}, count: 8, memoryMiB: {memory}}}\n      cpus: 96\n"
        for name, product, memory in (("a", "NVIDIA-A100-SXM4-80GB", 81920), ("l", "NVIDIA-L40S", 46068))
    )
    inventory = fleet.root / "evidence/main/nodes.yaml"
    inventory.write_text(inventory.read_text().rstrip("\n") + f"\n{nodes}")
    affinity = f"""\
          affinity:
            nodeAffinity:
              requiredDuringSchedulingIgnoredDuringExecution:
                nodeSelectorTerms:
                  - matchExpressions: [{{key: nvidia.com/gpu.product, {expression}}}]
"""
    selector = "          nodeSelector:\n            nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3\n"
    fleet.write("jobs/llama.yaml", JOB.replace(selector, affinity).replace("size=4", "size=1"))
    change = next(one for one in plan(fleet)["changes"] if one["key"]["namespace"] == "vision")
    (found,) = [one for one in change["sizing"]["candidates"] if one["chosen"]]
    assert found["product"] == chosen
