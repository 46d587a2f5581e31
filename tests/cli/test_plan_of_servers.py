"""A plan warns of servers of models that do not fit the GPUs of the cluster."""

import json

from tests.cli.fleet import Fleet
from tests.sizing.serving.test_judge import manifest

_H100 = "NVIDIA-H100-80GB-HBM3"
_PATH = "jobs/language/serve.yaml"


def warnings(fleet: Fleet) -> list[str]:
    problems = json.loads(fleet.run("plan", "-o", "json").out)["problems"]
    return [one["message"] for one in problems if one["rule"] == "serving.memory"]


def test_a_plan_warns_of_a_server_that_does_not_fit(fleet: Fleet) -> None:
    """F-005: a second plan takes the warning from the saved index."""
    fleet.write(_PATH, manifest("--model=Qwen/Qwen2.5-72B-Instruct", "--max-model-len=32768", product=_H100))
    (message,) = warnings(fleet)
    assert message.startswith("qwen2.5-72b does not fit 1 GPU (NVIDIA-H100-80GB-HBM3): of 71.7 GiB, weights 135.")
    assert warnings(fleet) == [message]
    assert f"{_PATH}:" in fleet.run("plan").out
    fleet.edit(_PATH, "--max-model-len=32768", "--tensor-parallel-size=4")
    assert not warnings(fleet)


def test_a_changed_config_map_changes_what_is_known_of_a_server(fleet: Fleet) -> None:
    """Its variables are read from the repository, as for training jobs."""
    server = manifest("--model=$(MODEL)", "--max-model-len=32768", product=_H100)
    fleet.write(_PATH, server.replace("name: vllm\n", "name: vllm\n        envFrom: [{configMapRef: {name: m}}]\n"))
    settings = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata: {MODEL: Qwen/Qwen2.5-7B-Instruct}\n"
    fleet.write("jobs/language/settings.yaml", settings)
    assert not warnings(fleet)
    fleet.edit("jobs/language/settings.yaml", "7B", "72B")
    (message,) = warnings(fleet)
    assert message.startswith("qwen2.5-72b does not fit 1 GPU")
