"""Templates of users: KA-10, their limits, and the conversion of Go's syntax."""

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.errors import InvalidInput
from reconciler.submit import templates
from reconciler.submit.go_templates import is_go_template, to_jinja
from reconciler.submit.templates import TemplateInput, render_template

GIVEN = TemplateInput(
    meta={
        "Name": "alice-train",
        "Namespace": "team-a",
        "Image": "example.com/train:1",
        "ImagePullSecret": "",
        "EnvVars": [
            {"Name": "A", "Value": "1"},
            {"Name": "B", "ValueFrom": {"SecretKeyRef": {"Name": "s", "Key": "k"}}},
        ],
        "SecretVolumes": [{"Name": "v", "SecretName": "s", "Key": "k", "SubPath": "p", "MountPath": "/p"}],
        "HasConfigMap": False,
    },
    scheduling={"TotalRequestedGPUs": 8, "CalculatedNumReplicas": 2, "CalculatedGPUsPerReplica": 4, "Storage": None},
    entrypoint='"python main.py"',
    serve_config="applications:\n- name: llm",
    queue="kaiwo",
    custom={"parent": {"child": "value"}},
)

GO = """\
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ .Meta.Name }}
  labels: {queue: {{ .WorkloadMeta.Queue }}, custom: "{{ .Custom.parent.child }}"}
spec:
  {{- /* the pods */}}
  template:
    spec:
      {{- if .Meta.ImagePullSecret }}
      imagePullSecrets: [{name: {{ .Meta.ImagePullSecret }}}]
      {{- else if not .Meta.HasConfigMap }}
      hostNetwork: false
      {{- end }}
      {{- with .Scheduling.Storage }}
      storage: {{ .Quantity }}
      {{- end }}
      containers:
      - name: main
        image: {{ .Meta.Image | quote }}
        command: [sh, -c, {{ .Workload.Entrypoint }}]
        env:
        {{- range .Meta.EnvVars }}
        {{- if .Value }}
        - {name: {{ .Name }}, value: "{{ .Value }}"}
        {{- else }}
        - {name: {{ .Name }}, valueFrom: {secretKeyRef: {name: {{ .ValueFrom.SecretKeyRef.Name }}, key: {{ .ValueFrom.SecretKeyRef.Key }}}}}
        {{- end }}
        {{- end }}
        resources:
          limits:
            memory: "{{ mul .Scheduling.TotalRequestedGPUs 32 }}Gi"
            cpu: "{{ mul (add .Scheduling.CalculatedNumReplicas 1) 4 }}"
        config: |
{{ .Workload.Serveconfig | indent 10 }}
        volumes:
        {{- range $i, $volume := .Meta.SecretVolumes }}
        - {name: {{ $volume.Name }}-{{ $i }}-{{ $.Meta.Name }}, path: {{ .MountPath }}}
        {{- end }}
"""


def _rendered(template: str) -> Mapping[str, Any]:
    return render_template("my.tmpl", template.encode(), GIVEN).data


def test_ka_10_values_of_a_file_are_rendered() -> None:
    head = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: x, labels: {a: %s}}\n"
    for expression in ("{{ Custom.parent.child }}", "{{ .Custom.parent.child }}"):
        assert _rendered(head % expression)["metadata"]["labels"] == {"a": "value"}


@pytest.mark.parametrize(
    ("template", "line", "words"),
    [
        ("a: 1\nb: {{ range(10**9) }}\n", 2, "Range too big"),
        ("a: {{ 'x' * 10**11 }}\n", 1, "MemoryError"),
        ("a: 1\n\nb: {{ ''.__class__ }}\n", 3, "unsafe"),
        ("a: 1\nb: {{ Custom.absent.child }}\n", 2, "has no attribute"),
        ("a: {{ Meta.Name\n", 1, "unexpected"),
        ("a: {{ open('/etc/passwd') }}\n", 1, "undefined"),
        ("a: {% include 'x' %}\n", 1, "no loader"),
        ("a: 1\n---\nb: 1\n", 1, "renders 2 documents"),
    ],
)
def test_ka_10_what_a_template_must_not_do_is_an_error_with_its_line(template: str, line: int, words: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        _rendered(template)
    problem = raised.value.problems[0]
    assert (problem.place.path, problem.place.line) == ("my.tmpl", line)
    assert words in problem.message


def test_ka_10_a_template_that_takes_too_long_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(templates, "SECONDS", 2.0)
    loops = "".join(f"{{% for x{number} in range(99999) %}}" for number in range(4))
    with pytest.raises(InvalidInput, match="1 error in my"):
        _rendered(f"a: {loops}{'{% endfor %}' * 4}\n")


def test_go_templates_are_converted_with_their_meaning() -> None:
    assert is_go_template(GO)
    assert not is_go_template(to_jinja("my.tmpl", GO))
    made = _rendered(GO)
    assert made["metadata"] == {"name": "alice-train", "labels": {"queue": "kaiwo", "custom": "value"}}
    pod = made["spec"]["template"]["spec"]
    assert pod["hostNetwork"] is False
    assert "storage" not in pod
    container = pod["containers"][0]
    assert container["command"] == ["sh", "-c", "python main.py"]
    assert container["env"][0] == {"name": "A", "value": "1"}
    assert container["env"][1]["valueFrom"]["secretKeyRef"] == {"name": "s", "key": "k"}
    assert container["resources"]["limits"] == {"memory": "256Gi", "cpu": "12"}
    assert container["config"] == "applications:\n- name: llm\n"
    assert container["volumes"] == [{"name": "v-0-alice-train", "path": "/p"}]


def test_what_is_not_converted_is_named_with_its_line() -> None:
    template = 'a: {{ .Meta.Name }}\nb: {{ template "x" . }}\nc: {{ printf "%d" 3 }}\nd: {{ range .A }}\n'
    with pytest.raises(InvalidInput) as raised:
        to_jinja("my.tmpl", template)
    found = [(problem.place.line, problem.message) for problem in raised.value.problems]
    assert [line for line, _ in found] == [2, 3, 4]
    assert "'template' is not converted" in found[0][1]
    assert found[2][1] == "is not closed by {{ end }}"


def test_d_05_a_name_that_does_not_exist_in_a_loop_is_an_error_with_its_line() -> None:
    with pytest.raises(InvalidInput) as raised:
        _rendered("a: 1\n{{- range .SecretVolumes }}\nb: {{ .Name }}\n{{- end }}\n")
    assert raised.value.problems[0].place.line == 2
    assert "SecretVolumes" in raised.value.problems[0].message


@pytest.mark.parametrize(
    ("template", "rendered"),
    [
        ("{{ with .Custom.parent }}{{ .child }}{{ else }}{{ .Meta.Name }}{{ end }}", "value"),
        ("{{ with .Scheduling.Storage }}{{ .Quantity }}{{ else }}{{ .Meta.Name }}{{ end }}", "alice-train"),
        ("{{ range $key, $one := .Custom.parent }}{{ $key }}-{{ $one }}{{ end }}", "child-value"),
        ("{{ range $one := .Custom.parent }}{{ $one }}{{ end }}", "value"),
        ("{{ range .Custom.parent }}{{ . }}{{ end }}", "value"),
        ("{{ range .Scheduling.Storage }}{{ . }}{{ else }}none{{ end }}", "none"),
        ("{{ .Custom.items.values }}", "of a map"),
        ("{{ if eq 1 1 }}${#files[@]}{{ end }}", "${#files[@]}"),
    ],
)
def test_what_go_means_by_a_template_is_rendered(template: str, rendered: str) -> None:
    given = replace(GIVEN, custom={"parent": {"child": "value"}, "items": {"values": "of a map"}})
    made = render_template("my.tmpl", f"a: '{template}'\n".encode(), given)
    assert made.data["a"] == rendered


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("{{ $x := 1 }}{{ range .A }}{{ $x = 2 }}{{ end }}{{ $x }}", "of before the loop"),
        ("{{ if eq .A 1 2 }}x{{ end }}", "'eq' has other arguments"),
        ("{{ else }}", "no block is open"),
    ],
)
def test_what_jinja_would_do_otherwise_is_refused(template: str, words: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        to_jinja("my.tmpl", template)
    assert words in raised.value.problems[0].message
