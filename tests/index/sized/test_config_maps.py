"""Configurations, scripts and variables that a job gets from ConfigMaps of the repository."""

import base64
import json
from typing import Any

import pytest
import yaml

from reconciler.index.sized.job import SizedJob, SizingContext, size_job
from reconciler.kinds.registry import BUILT_IN
from reconciler.sizing.answers import Answers
from reconciler.sizing.config import SizingSettings
from tests.index.sized.sized_cases import document
from tests.sizing.tables import TABLES

TRAINED = {
    "model_name_or_path": "ibm-granite/granite-3.1-2b-instruct",
    "per_device_train_batch_size": 4,
    "max_seq_length": 2048,
    "peft_method": "lora",
}
ENCODED = base64.b64encode(json.dumps(TRAINED).encode()).decode()
MAP = {"data": {"tune.json": json.dumps(TRAINED), "encoded": ENCODED, "SFT_TRAINER_CONFIG_JSON_ENV_VAR": ENCODED}}
PATH = {"name": "SFT_TRAINER_CONFIG_JSON_PATH", "value": "/etc/tune/tune.json"}
MOUNT = {"name": "tune", "mountPath": "/etc/tune"}
VOLUME = {"name": "tune", "configMap": {"name": "tuning"}}


def job(
    container: dict[str, Any], *volumes: dict[str, Any], line: str = "python -m tuning.sft_trainer"
) -> dict[str, Any]:
    resources = {"limits": {"nvidia.com/gpu": 1}}
    main = {"name": "main", "image": "tuning", "command": ["bash", "-c", line], "resources": resources, **container}
    spec = {"restartPolicy": "Never", "containers": [main], "volumes": list(volumes)}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "tune"},
        "spec": {"template": {"spec": spec}},
    }


def size(body: dict[str, Any], maps: dict[str, dict[str, Any]], files: dict[str, bytes] | None = None) -> SizedJob:
    context = SizingContext(
        settings=SizingSettings(default_gpu_model="NVIDIA-A100-SXM4-80GB"),
        kinds=BUILT_IN,
        tables=TABLES,
        answers=Answers(),
        paths=tuple(files or ()),
        file=(files or {}).get,
        config_map=maps.get,
    )
    found = size_job(document(yaml.safe_dump(body, sort_keys=False)), context, named=True)
    assert found is not None
    return found


def trained(found: SizedJob) -> tuple[str, str, int, int]:
    assert found.questions, found.problems
    question = found.questions[0]
    return (question.training.model, question.training.method.value, question.training.sequence, question.batch)


EXPECTED = ("ibm-granite/granite-3.1-2b-instruct", "lora", 2048, 4)
ITEMS = {"name": "tuning", "items": [{"key": "tune.json", "path": "deep/trainer.json"}]}


@pytest.mark.parametrize(
    ("container", "volume"),
    [
        ({"env": [PATH], "volumeMounts": [MOUNT]}, VOLUME),
        ({"env": [PATH], "volumeMounts": [{**MOUNT, "mountPath": "/etc/tune/"}]}, VOLUME),
        (
            {
                "env": [{**PATH, "value": "/app/config.json"}],
                "volumeMounts": [{"name": "tune", "mountPath": "/app/config.json", "subPath": "tune.json"}],
            },
            VOLUME,
        ),
        (
            {"env": [{**PATH, "value": "/etc/tune/deep/trainer.json"}], "volumeMounts": [MOUNT]},
            {"name": "tune", "configMap": ITEMS},
        ),
        (
            {"env": [{**PATH, "value": "/etc/tune/deep/trainer.json"}], "volumeMounts": [MOUNT]},
            {"name": "tune", "projected": {"sources": [{"configMap": ITEMS}]}},
        ),
        (
            {
                "env": [
                    {
                        "name": "SFT_TRAINER_CONFIG_JSON_ENV_VAR",
                        "valueFrom": {"configMapKeyRef": {"name": "tuning", "key": "encoded"}},
                    }
                ]
            },
            VOLUME,
        ),
        ({"envFrom": [{"configMapRef": {"name": "tuning"}}]}, VOLUME),
    ],
)
def test_the_configuration_of_fms_in_a_config_map(container: dict[str, Any], volume: dict[str, Any]) -> None:
    assert trained(size(job(container, volume), {"tuning": MAP})) == EXPECTED


def test_binary_data_and_scripts() -> None:
    script = "exec python -m tuning.sft_trainer"
    held = {
        "data": {"run.sh": script},
        "binaryData": {"tune.json": base64.b64encode(json.dumps(TRAINED).encode()).decode()},
    }
    body = job({"env": [PATH], "volumeMounts": [MOUNT]}, VOLUME, line="bash /etc/tune/run.sh")
    assert trained(size(body, {"tuning": held})) == EXPECTED


@pytest.mark.parametrize("maps", [{}, {"tuning": {"data": {"other.json": "{}"}}}])
def test_a_configuration_that_is_missing_is_refused_at_its_variable(maps: dict[str, Any]) -> None:
    (problem,) = [
        one
        for one in size(
            job({"env": [{"name": "A", "value": "b"}, PATH], "volumeMounts": [MOUNT]}, VOLUME), maps
        ).problems
        if one.rule == "launch.file"
    ]
    assert problem.field == "spec.template.spec.containers[0].env[1]"
    assert problem.place.line > 1
    assert "`/etc/tune/tune.json` was not found" in problem.message


def test_a_value_of_an_unknown_config_map_is_refused_at_its_variable() -> None:
    reference = {"configMapKeyRef": {"name": "other", "key": "encoded"}}
    body = job({"env": [{"name": "SFT_TRAINER_CONFIG_JSON_ENV_VAR", "valueFrom": reference}]})
    (problem,) = [one for one in size(body, {"tuning": MAP}).problems if one.rule == "launch.file"]
    assert problem.field == "spec.template.spec.containers[0].env[0]"
    assert "the value of SFT_TRAINER_CONFIG_JSON_ENV_VAR is not in the repository" in problem.message


def test_a_config_map_of_the_repository_wins_over_a_file_of_the_same_name() -> None:
    files = {"jobs/tune.json": json.dumps(TRAINED | {"max_seq_length": 512}).encode()}
    body = job({"env": [PATH], "volumeMounts": [MOUNT]}, VOLUME)
    assert trained(size(body, {"tuning": MAP}, files)) == EXPECTED
    assert trained(size(body, {}, files))[2] == 512  # a ConfigMap that is made of the file
