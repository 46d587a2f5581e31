"""`spec.sizing` of `reconciler.yaml`: defaults, every setting, what is wrong with its place, clusters that differ."""

import pytest

from reconciler import resources
from reconciler.kube.problems import Problem
from reconciler.kube.schemas import Catalogue
from reconciler.kube.yaml import read
from reconciler.repo.config import Config, Labels, SizedJobs, Unanswered, Write, parse_config
from reconciler.sizing.config import Goal, SizingSettings
from reconciler.sizing.engine_registry import ANALYTIC, AUTOCONF, REST, WRAPPER, Engine, RestSettings, WrapperSettings

HEAD = "apiVersion: gpureconciler.io/v1alpha1\nkind: ReconcilerConfig\nspec:\n"
CATALOGUE = Catalogue(resources)
WATCH = {"autoconf-plugin-name": "resource-requirements-appwrapper"}


def parsed(sizing: str, cluster: str = "{name: a}") -> tuple[Config | None, tuple[Problem, ...]]:
    text = f"{HEAD}  clusters: [{cluster}]\n"
    if sizing:
        text += f"  sizing: {sizing}\n"
    (document,) = read("reconciler.yaml", text.encode()).documents
    found = tuple(CATALOGUE.validate(document))
    return (None, found) if found else parse_config(document)


def settings(sizing: str, cluster: str = "{name: a}") -> SizingSettings:
    config, problems = parsed(sizing, cluster)
    assert config is not None, [str(one) for one in problems]
    return config.clusters[0].sizing


def test_without_settings_those_of_the_autoconf_controller_hold() -> None:
    """F-015: the keys that others already read."""
    found = settings("")
    assert found == SizingSettings()
    assert found.labels == Labels(
        done_key="autoconf-plugin-done",
        done_value="yes",
        waiting_key="waiting-for-ado-request-id",
        annotation_key="ado-autoconf.ibm.com/recommendation",
    )
    assert found.selects("pytorchjob", "team", WATCH)
    assert not found.selects("pytorchjob", "team", {})


def test_every_setting() -> None:
    """F-017: each option of the autoconf controller, and those of our own."""
    found = settings(
        "{select: {label: {key: team/size, value: me}, namespaces: [a, b], all: true}, kinds: [job, rayjob],"
        " engine: rest, rest: {url: 'http://ado:8000/', timeoutSeconds: 5, deadlineSeconds: 60}, goal: avoid-oom,"
        " gpusPerWorker: 4, maxGpus: 32, safety: 0.1, allowPaged: true, allowDisagreement: true,"
        " defaultGpuModel: NVIDIA-L40S, modelVersion: 3.0.0, patchCpuRequest: false, unsuspend: true,"
        " prices: {NVIDIA-L40S: 0.5, NVIDIA-H200: 3}, write: source,"
        " labels: {done: {key: kueue.x-k8s.io/queue-name, value: real}, waiting: w, annotation: x.io/a},"
        " whenPending: pass-through, whenRefused: block}"
    )
    assert found == SizingSettings(
        select=SizedJobs(label_key="team/size", label_value="me", namespaces=("a", "b"), every=True),
        kinds=("job", "rayjob"),
        engine_name="rest",
        engine_section=(("deadlineSeconds", 60), ("timeoutSeconds", 5), ("url", "http://ado:8000/")),
        goal=Goal.AVOID_OOM,
        gpus_per_worker=4,
        max_gpus=32,
        safety=0.1,
        allow_paged=True,
        allow_disagreement=True,
        default_gpu_model="NVIDIA-L40S",
        model_version="3.0.0",
        patch_cpu_request=False,
        unsuspend=True,
        prices=(("NVIDIA-H200", 3.0), ("NVIDIA-L40S", 0.5)),
        write=Write.SOURCE,
        labels=Labels(
            done_key="kueue.x-k8s.io/queue-name", done_value="real", waiting_key="w", annotation_key="x.io/a"
        ),
        when_pending=Unanswered.PASS_THROUGH,
        when_refused=Unanswered.BLOCK,
    )


@pytest.mark.parametrize(
    ("sizing", "kind", "namespace", "labels", "selected"),
    [
        ("{kinds: [job]}", "job", "a", WATCH, True),
        ("{kinds: [job]}", "pytorchjob", "a", WATCH, False),
        ("{select: {namespaces: [a]}}", "job", "a", WATCH, True),
        ("{select: {namespaces: [a]}}", "job", "b", WATCH, False),
        ("{select: {namespaces: [a]}}", "job", "a", {}, False),
        ("{select: {namespaces: [a], all: true}}", "job", "a", {}, True),
        ("{select: {namespaces: [a], all: true}}", "job", "b", {}, False),
        ("{select: {label: {value: other}}}", "job", "a", WATCH, False),
        ("{select: {label: {value: other}}}", "job", "a", {"autoconf-plugin-name": "other"}, True),
    ],
)
def test_which_jobs_are_sized(sizing: str, kind: str, namespace: str, labels: dict[str, str], selected: bool) -> None:
    """F-017: by label, by namespace, by kind."""
    assert settings(sizing).selects(kind, namespace, labels) is selected


@pytest.mark.parametrize(
    ("sizing", "engine"),
    [
        ("{wrapper: {script: tools/size.py}}", WRAPPER),
        ("{rest: {url: 'https://ado'}}", REST),
        ("{engine: wrapper, wrapper: {script: /opt/size.py, timeoutSeconds: 9}}", WRAPPER),
        ("{engine: autoconf}", AUTOCONF),
        ("{}", ANALYTIC),
    ],
)
def test_who_is_asked(sizing: str, engine: Engine) -> None:
    found = settings(sizing)
    assert found.engine is engine
    assert type(found.engine_settings) is (engine.settings or type(None))


@pytest.mark.parametrize(
    ("sizing", "place", "words"),
    [
        ("{wrapper: {script: a}, rest: {url: 'http://x'}}", "5:40", "wrapper.script and rest.url are both set"),
        ("{engine: rest, wrapper: {script: a}, rest: {url: 'http://x'}}", "5:54", "both set"),
        ("{engine: wrapper}", "5:20", "engine is wrapper, but wrapper.script is not set"),
        ("{engine: rest}", "5:20", "engine is rest, but rest.url is not set"),
        ("{engine: rest, wrapper: {script: a}}", "5:20", "rest.url is not set"),
        ("{engine: analytic, rest: {url: 'http://x'}}", "5:36", "is not used: engine is analytic"),
        ("{engine: autoconf, wrapper: {script: a}}", "5:39", "is not used: engine is autoconf"),
    ],
)
def test_exactly_one_script_or_service(sizing: str, place: str, words: str) -> None:
    """F-018: none or both is an error with its place."""
    config, problems = parsed(sizing)
    assert config is None
    assert any(str(one).startswith(f"reconciler.yaml:{place}: spec.sizing.") and words in str(one) for one in problems)


@pytest.mark.parametrize(
    ("sizing", "words"),
    [
        ("{goals: min-gpu}", "did you mean goal?"),
        ("{goal: fastest}", "min-gpu, avoid-oom, throughput"),
        ("{engine: oracle}", "spec.sizing.engine"),
        ("{kinds: []}", "spec.sizing.kinds"),
        ("{kinds: [job, job]}", "spec.sizing.kinds"),
        ("{kinds: [cronjob]}", "spec.sizing.kinds[0]"),
        ("{maxGpus: 0}", "spec.sizing.maxGpus"),
        ("{gpusPerWorker: 0}", "spec.sizing.gpusPerWorker"),
        ("{safety: -0.1}", "spec.sizing.safety"),
        ("{safety: 1.5}", "spec.sizing.safety"),
        ("{prices: {NVIDIA-L40S: 0}}", "spec.sizing.prices.NVIDIA-L40S"),
        ("{modelVersion: latest}", "spec.sizing.modelVersion"),
        ("{modelVersion: 3.1}", "spec.sizing.modelVersion"),
        ("{rest: {url: 'ftp://ado'}}", "spec.sizing.rest.url"),
        ("{rest: {url: 'http://me:secret@ado'}}", "spec.sizing.rest.url"),
        ("{rest: {}}", "spec.sizing.rest"),
        ("{wrapper: {script: ''}}", "spec.sizing.wrapper.script"),
        ("{whenPending: wait}", "spec.sizing.whenPending"),
        ("{labels: {waiting: ''}}", "spec.sizing.labels.waiting: is empty"),
        ("{labels: {annotation: 'a b'}}", "is not a valid label key"),
        ("{labels: {annotation: /a}}", "is not a valid label key"),
        ("{labels: {done: {key: -x}}}", "spec.sizing.labels.done.key: '-x' is not a valid label key"),
        ("{labels: {done: {key: Up.io/x}}}", "is not a valid label key"),
        ("{labels: {done: {value: 'not done'}}}", "is not a valid label value"),
        ("{select: {label: {key: ''}}}", "spec.sizing.select.label.key: is empty"),
        ("{select: {label: {value: 'a b'}}}", "is not a valid label value"),
        ("{labels: {done: {key: waiting-for-ado-request-id}}}", "both the key for done and the key for waiting"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(sizing: str, words: str) -> None:
    config, problems = parsed(sizing)
    assert config is None
    assert any(words in str(one) for one in problems), [str(one) for one in problems]
    assert all(one.place.line == 5 for one in problems)


def test_all_problems_at_once() -> None:
    _, problems = parsed("{engine: rest, labels: {waiting: '', annotation: 'a b'}}")
    assert [one.field.rpartition(".")[2] for one in problems] == ["engine", "waiting", "annotation"]


def test_a_cluster_lays_its_own_over_that_of_the_repository() -> None:
    found = settings(
        "{goal: throughput, maxGpus: 32, labels: {done: {key: x, value: v}}, wrapper: {script: a}}",
        "{name: a, sizing: {maxGpus: 8, labels: {done: {value: z}}}}",
    )
    assert (found.goal, found.max_gpus, found.labels.done_key, found.labels.done_value) == (
        Goal.THROUGHPUT,
        8,
        "x",
        "z",
    )
    assert found.engine_settings == WrapperSettings(script="a")


def test_a_cluster_that_chooses_an_engine_chooses_anew() -> None:
    """F-018: the repository's script does not clash with a cluster's service."""
    found = settings("{wrapper: {script: a}}", "{name: a, sizing: {rest: {url: 'http://x'}}}")
    assert (found.engine, found.engine_settings) == (REST, RestSettings(url="http://x"))
    assert settings("{wrapper: {script: a}}", "{name: a, sizing: {engine: analytic}}").engine == ANALYTIC


def test_what_is_wrong_in_a_cluster_is_said_there_and_once() -> None:
    _, problems = parsed("{labels: {waiting: w}}", "{name: a, sizing: {engine: rest, labels: {done: {key: w}}}}")
    assert [(one.field, one.place.line) for one in problems] == [
        ("spec.clusters[0].sizing.engine", 4),
        ("spec.clusters[0].sizing.labels", 4),
    ]
