"""Field-level differences: keyed lists, quantities, types, secrets, and the reason of every field."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.kube.objects import FieldPath, format_path
from reconciler.kube.reasons import Why
from reconciler.kube.secrets import is_secret_name, mask_text
from reconciler.plan.differences import differences, in_notation_of, same
from reconciler.plan.plan import FieldChange
from tests.plan.plan_cases import Body, job, plain

Shown = list[tuple[str, Any, Any]]


def shown(before: Any, after: Any, **keywords: Any) -> Shown:
    return [(one.path, one.before, one.after) for one in differences(before, after, **keywords)]


def spec(**fields: Any) -> Body:
    return plain("Thing", "x", api="example.com/v1", spec=fields)


def test_a_changed_image_is_one_field() -> None:
    before, after = job(), job()
    after["spec"]["template"]["spec"]["containers"][0]["image"] = "repo/train:2"
    path = "spec.template.spec.containers[name=trainer].image"
    assert shown(before, after) == [(path, "repo/train:1", "repo/train:2")]


def test_equal_bodies_differ_in_nothing() -> None:
    assert differences(job(), job()) == ()


def test_keyed_items_are_matched_by_key_and_a_new_order_is_shown_once() -> None:
    before = spec(env=[{"name": "A", "value": "1"}, {"name": "B", "value": "2"}])
    after = spec(env=[{"name": "B", "value": "3"}, {"name": "A", "value": "1"}])
    assert shown(before, after) == [
        ("spec.env[name=B].value", "2", "3"),
        ("spec.env (order)", ["name=A", "name=B"], ["name=B", "name=A"]),
    ]


@pytest.mark.parametrize(
    ("field", "item", "label"),
    [
        ("volumes", {"name": "data", "emptyDir": {}}, "name=data"),
        ("ports", {"containerPort": 80, "name": "http"}, "containerPort=80,protocol=TCP"),
        ("volumeMounts", {"mountPath": "/data", "name": "data"}, "mountPath=/data"),
        ("flavors", {"name": "h100", "resources": []}, "name=h100"),
        ("workerGroupSpecs", {"groupName": "gpu", "replicas": 1}, "groupName=gpu"),
        ("hostAliases", {"ip": "10.0.0.1", "hostnames": []}, "ip=10.0.0.1"),
        ("tolerations", {"key": "gpu", "effect": "NoSchedule"}, "key=gpu,effect=NoSchedule"),
    ],
)
def test_how_items_are_called(field: str, item: Body, label: str) -> None:
    found = shown(spec(**{field: []}), spec(**{field: [item]}))
    assert all(path.startswith(f"spec.{field}[{label}]") for path, _, _ in found)
    assert found


def test_an_item_put_in_front_is_the_only_change() -> None:
    other = {"name": "sidecar", "image": "s"}
    before, after = job(), job()
    after["spec"]["template"]["spec"]["containers"].insert(0, other)
    assert shown(before, after) == [("spec.template.spec.containers[name=sidecar].image", None, "s")]


def test_the_schema_decides_by_what_a_list_goes() -> None:
    before, after = spec(hosts=[{"host": "a", "up": 1}, {"host": "b", "up": 1}]), spec(hosts=[{"host": "b", "up": 2}])

    def by_host(path: FieldPath) -> tuple[str, ...] | None:
        return ("host",) if path == ("spec", "hosts") else None

    assert shown(before, after, list_keys=by_host) == [
        ("spec.hosts[host=b].up", 1, 2),
        ("spec.hosts[host=a].up", 1, None),
    ]


def test_a_list_that_goes_by_position_is_never_matched_by_names() -> None:
    before, after = spec(steps=[{"name": "a"}, {"name": "b"}]), spec(steps=[{"name": "b"}, {"name": "a"}])
    assert shown(before, after, list_keys=lambda _: ()) == [
        ("spec.steps[0].name", "a", "b"),
        ("spec.steps[1].name", "b", "a"),
    ]


def test_items_with_the_same_key_go_by_position() -> None:
    twice = [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]
    assert shown(spec(env=twice), spec(env=[twice[0], {"name": "A", "value": "3"}])) == [
        ("spec.env[1].value", "2", "3")
    ]


def test_one_inserted_argument_is_one_change() -> None:
    assert shown(spec(args=["a", "b", "c"]), spec(args=["a", "x", "b", "c"])) == [("spec.args[1]", None, "x")]
    assert shown(spec(args=["a", "b", "c"]), spec(args=["a", "c"])) == [("spec.args[1]", "b", None)]


def test_the_order_of_a_set_is_no_difference() -> None:
    assert differences(spec(accessModes=["A", "B"]), spec(accessModes=["B", "A"])) == ()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"limits": {"memory": "1Gi"}}, {"limits": {"memory": "1024Mi"}}),
        ({"limits": {"nvidia.com/gpu": 1}}, {"limits": {"nvidia.com/gpu": "1"}}),
        ({"requests": {"cpu": "500m"}}, {"requests": {"cpu": 0.5}}),
        ({"emptyDir": {"sizeLimit": "1Gi"}}, {"emptyDir": {"sizeLimit": 1073741824}}),
        ({"nominalQuota": "1e1"}, {"nominalQuota": 10}),
    ],
)
def test_equal_quantities_are_no_difference(before: Body, after: Body) -> None:
    assert differences(spec(**before), spec(**after)) == ()


def test_a_quantity_that_only_the_schema_knows() -> None:
    before, after = spec(share="1Gi"), spec(share="1024Mi")
    assert len(differences(before, after)) == 1
    assert differences(before, after, is_quantity=lambda path: path == ("spec", "share")) == ()


@pytest.mark.parametrize(
    ("before", "after"), [(True, 1), (False, 0), ("1", 1), ("true", True), (None, ""), (None, 0), ({}, [])]
)
def test_values_of_other_types_differ(before: Any, after: Any) -> None:
    assert differences(spec(x=before), spec(x=after))
    assert differences(spec(x={"y": [before]}), spec(x={"y": [after]}))


def test_absent_is_not_null() -> None:
    (change,) = differences(spec(x=None), spec())
    assert (change.has_before, change.has_after, change.before) == (True, False, None)
    (change,) = differences(spec(), spec(x=None))
    assert (change.has_before, change.has_after) == (False, True)


def test_a_created_object_gives_its_leaves_and_a_deleted_one_as_well() -> None:
    body = plain("ConfigMap", "x", data={"a": "1"}, empty={}, list=[])
    found = {one.path: one.after for one in differences(None, body)}
    assert found == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata.name": "x",
        "metadata.namespace": "ml",
        "data.a": "1",
        "empty": {},
        "list": [],
    }
    gone = differences(body, None)
    assert {one.path: one.before for one in gone} == found
    assert not any(one.has_after for one in gone)


def test_text_of_many_lines_stays_whole() -> None:
    before, after = (
        plain("ConfigMap", "x", data={"run.sh": "a\nb\n"}),
        plain("ConfigMap", "x", data={"run.sh": "a\nc\n"}),
    )
    assert shown(before, after) == [('data["run.sh"]', "a\nb\n", "a\nc\n")]


def test_odd_names_are_quoted() -> None:
    found = shown(spec(), spec(**{"a.b/c": 1, "": 2, 'q"]': 3, "x\ny": 4}))
    assert [path for path, _, _ in found] == ['spec["a.b/c"]', 'spec[""]', 'spec["q\\"]"]', 'spec["x\\ny"]']


def test_every_changed_field_says_why_and_a_removed_one_asks_its_nearest_ancestor() -> None:
    """F-141: every change carries its reason."""
    asked: list[FieldPath] = []

    def why(path: FieldPath) -> Why:
        asked.append(path)
        return Why(rule="r", text=format_path(path))

    before = spec(env=[{"name": "A", "value": "1"}, {"name": "B", "value": "1"}], gone={"x": 1})
    after = spec(env=[{"name": "B", "value": "2"}])
    found = differences(before, after, why=why)
    assert asked == [("spec", "env", 0, "value"), ("spec", "env"), ("spec",)]
    assert [(one.path, one.why.text) for one in found if one.why] == [
        ("spec.env[name=B].value", "spec.env[0].value"),
        ("spec.env[name=A].value", "not set any more"),
        ("spec.gone.x", "not set any more"),
    ]


CANARY = "c4n4ry-9f3b77"
SECRETS: dict[str, Body] = {
    "secret data": plain("Secret", "x", data={"any": CANARY}),
    "secret string data": plain("Secret", "x", stringData={"a": CANARY, "b": {"c": [CANARY]}}),
    "environment": spec(env=[{"name": "HF_TOKEN", "value": CANARY}]),
    "environment in camel case": spec(env=[{"name": "wandbApiKey", "value": CANARY}]),
    "nested environment": spec(
        template={"spec": {"containers": [{"name": "a", "env": [{"name": "PASSWORD", "value": CANARY}]}]}}
    ),
    "config map": plain("ConfigMap", "x", data={"tls.key": CANARY}),
    "last applied": plain("Job", "x")
    | {"metadata": {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": CANARY}}},
    "field": spec(auth={"password": CANARY, "apiKey": CANARY, "clientSecret": CANARY}),
    "url": spec(url=f"https://user:{CANARY}@host/path"),
    "url with a user only": spec(url=f"https://{CANARY}@host/path"),
    "signed url": spec(url=f"https://bucket/x?X-Amz-Signature={CANARY}&a=b"),
    "query": spec(url=f"https://host/x?access_token={CANARY}"),
    "flag": spec(args=[f"--token={CANARY}", f"--hf-token {CANARY}", f"run --api-key '{CANARY}'"]),
    "script": spec(command=["sh", "-c", f"export HF_TOKEN={CANARY}\nWANDB_API_KEY='{CANARY}' run"]),
    "header": spec(text=f"Authorization: Bearer {CANARY}"),
    "key": spec(text=f"-----BEGIN RSA PRIVATE KEY-----\n{CANARY}\n-----END RSA PRIVATE KEY-----"),
    "token by its looks": spec(text="x hf_c4n4ry9f3b77c4n4ry9f3b77"),
}


@pytest.mark.parametrize("body", SECRETS.values(), ids=SECRETS)
def test_no_secret_enters_a_change(body: Body) -> None:
    changed = copy.deepcopy(body)
    spoil(changed)
    for before, after in ((None, body), (body, None), (body, changed), (changed, body)):
        found = differences(before, after)
        assert found
        assert "c4n4ry" not in repr(found)


def spoil(node: Any) -> None:
    items = list(node.items() if isinstance(node, dict) else enumerate(node))
    for key, value in items:
        if isinstance(value, dict | list):
            spoil(value)
        elif isinstance(value, str) and "c4n4ry" in value:
            node[key] = value.replace("c4n4ry", "c4n4ry0")


def test_a_changed_secret_is_seen_to_change() -> None:
    before, after = plain("Secret", "x", data={"a": "1"}), plain("Secret", "x", data={"a": "2"})
    assert shown(before, after) == [("data.a", "***", "*** (changed)")]
    one, two = spec(url="https://u:1@h/"), spec(url="https://u:2@h/")
    assert shown(one, two) == [("spec.url", "https://***@h/", "https://***@h/ (changed)")]


def test_a_variable_renamed_to_a_secret_hides_both_values() -> None:
    by_position = [{"name": "A", "value": "x1"}, {"name": "A", "value": "x1"}]
    after = [{"name": "A", "value": "x1"}, {"name": "TOKEN", "value": "x2"}]
    assert "x2" not in repr(differences(spec(env=by_position), spec(env=after)))


@pytest.mark.parametrize(
    "text",
    [
        "https://host/path?page=2",
        "s3://bucket/key",
        "python train.py --max-tokens 512 --tokenizer gpt2 --key-value-heads 8",
        "HF_TOKEN=$TOKEN run",
        "--token $HF_TOKEN",
        "user@example.com",
        "the secret of the key",
        "repo/train:1",
        "git@github.com:org/repo.git",
    ],
)
def test_what_is_no_secret_stays_readable(text: str) -> None:
    assert mask_text(text) == text


@pytest.mark.parametrize(
    "name", ["MAX_TOKENS", "TOKENIZERS_PARALLELISM", "MONKEY", "KEYBOARD", "NCCL_DEBUG", "tokenizer"]
)
def test_names_of_what_is_no_secret(name: str) -> None:
    assert not is_secret_name(name)


@pytest.mark.parametrize(
    "name", ["HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "dbPassword", "api-key", "WANDB_API_KEY", "token"]
)
def test_names_of_secrets(name: str) -> None:
    assert is_secret_name(name)


def test_fields_that_only_sound_like_secrets_are_shown() -> None:
    before = spec(topologyKey="a", secretName="s", volumes=[{"name": "v", "secret": {"secretName": "old"}}], key="k")
    after = spec(topologyKey="b", secretName="t", volumes=[{"name": "v", "secret": {"secretName": "new"}}], key="l")
    assert [one.after for one in differences(before, after)] == ["b", "t", "new", "l"]


@pytest.mark.parametrize(
    "piece",
    [
        "KEY_",
        "-eyJ",
        "--token-",
        "https://",
        "a://b@",
        "?token",
        "eyJ.",
        "Bearer ",
        "-----BEGIN ",
        "hf_",
        "--key  ",
        "sk-",
    ],
)
def test_long_hostile_text_is_redacted_in_linear_time(piece: str) -> None:
    """Quadratic time would run into the test's time limit."""
    assert len(mask_text(piece * (400_000 // len(piece)))) <= 400_000 + 8


names = st.sampled_from(["name", "value", "env", "a", "b", "limits", "key", "ports"])
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 3), st.sampled_from(["", "x", "1", "1Gi", "1024Mi", "a\nb"])
)
trees = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4), max_leaves=20
)
bodies = st.dictionaries(names, trees, max_size=5)


@given(bodies)
def test_nothing_differs_from_itself(body: Body) -> None:
    assert differences(body, copy.deepcopy(body)) == ()


@given(bodies, bodies)
def test_no_difference_means_the_same_and_both_ways_tell_the_same_fields(before: Body, after: Body) -> None:
    there, back = differences(before, after), differences(after, before)
    assert sorted(one.path for one in there) == sorted(one.path for one in back)
    if not there:
        assert meaning(before) == meaning(after)


@given(bodies)
def test_leaves_of_a_created_object_are_all_of_them(body: Body) -> None:
    found = differences(None, body)
    assert {one.has_before for one in found} <= {False}
    assert len(found) >= len(set(leaf_paths(body)) - keyed_leaves(body))


def meaning(node: Any) -> Any:
    """Forget what is allowed to differ unseen: how a quantity is written."""
    if isinstance(node, dict):
        return {key: meaning(value) for key, value in node.items()}
    if isinstance(node, list):
        return [meaning(value) for value in node]
    return (type(node).__name__, node) if not isinstance(node, str | int) or isinstance(node, bool) else quantity(node)


def quantity(value: str | int) -> Any:
    return {"1Gi": 2**30, "1024Mi": 2**30, "1": 1}.get(str(value), value) if isinstance(value, str) else value


def leaf_paths(node: Any, path: FieldPath = ()) -> list[FieldPath]:
    if isinstance(node, dict) and node:
        return [leaf for key, value in node.items() for leaf in leaf_paths(value, (*path, key))]
    if isinstance(node, list) and node:
        return [leaf for index, value in enumerate(node) for leaf in leaf_paths(value, (*path, index))]
    return [path]


def keyed_leaves(node: Any) -> set[FieldPath]:
    """Leaves that the name of their item may tell already."""
    return {path for path in leaf_paths(node) if len(path) > 1 and isinstance(path[-2], int)}


@given(scalars, scalars)
def test_sameness_is_symmetric(one: Any, other: Any) -> None:
    for quantities in (False, True):
        assert same(one, other, quantity=quantities) == same(other, one, quantity=quantities)


def test_field_changes_are_values() -> None:
    assert differences(spec(x=1), spec(x=2)) == (FieldChange(path="spec.x", before=1, after=2),)


def test_equal_quantities_are_written_as_in_another_object() -> None:
    """Items of lists have their keys, or their positions; what differs, or is no quantity, stays as it is."""
    stored = spec(
        containers=[{"name": "b", "resources": {"limits": {"memory": "1Gi", "cpu": "1", "nvidia.com/gpu": "2"}}}],
        replicas=1,
    )
    wanted = spec(
        containers=[
            {"name": "a", "resources": {"limits": {"memory": "1024Mi"}}},
            {"name": "b", "resources": {"limits": {"memory": "1024Mi", "cpu": 1, "nvidia.com/gpu": 1}}},
        ],
        replicas="1",
    )
    found = in_notation_of(stored, wanted, lambda _: None, lambda _: False)
    (other, own), replicas = found["spec"]["containers"], found["spec"]["replicas"]
    assert other["resources"]["limits"] == {"memory": "1024Mi"}
    assert own["resources"]["limits"] == {"memory": "1Gi", "cpu": "1", "nvidia.com/gpu": 1}
    assert replicas == "1"
