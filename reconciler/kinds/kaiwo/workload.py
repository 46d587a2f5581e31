"""`KaiwoJob` and `KaiwoService`: what they become, and what contradicts itself in them whatever the cluster is."""

from collections.abc import Iterator

from msgspec import Struct

from reconciler.kinds.fields import Fields
from reconciler.kinds.kaiwo.config import FAMILY
from reconciler.kinds.kaiwo.storage import storage_problems
from reconciler.kinds.kueue.labels import QUEUE_LABEL
from reconciler.kinds.rendered import has_errors
from reconciler.kube.objects import FieldPath
from reconciler.kube.problems import Parsed, Problem
from reconciler.kube.values import mapping, sequence
from reconciler.kube.yaml import Document
from reconciler.sizing.devices import is_gpu


class WorkloadForm(Struct, frozen=True, kw_only=True):
    """A kind of object that a workload becomes, and the field with the object to start from."""

    api: str
    kind: str
    field: str
    has_ray: bool = False
    is_service: bool = False


JOB = WorkloadForm(api="batch/v1", kind="Job", field="job")
RAY_JOB = WorkloadForm(api="ray.io/v1", kind="RayJob", field="rayJob", has_ray=True)
DEPLOYMENT = WorkloadForm(api="apps/v1", kind="Deployment", field="deployment", is_service=True)
RAY_SERVICE = WorkloadForm(api="ray.io/v1", kind="RayService", field="rayService", has_ray=True, is_service=True)


class Workload(Struct, frozen=True, kw_only=True, eq=False):
    """The intent: the document, and what it becomes."""

    document: Document
    form: WorkloadForm

    @property
    def fields(self) -> Fields:
        """The fields of the document."""
        return Fields(self.document, FAMILY)

    @property
    def inner(self) -> FieldPath:
        """The spec of the object to start from, written or not."""
        return ("spec", self.form.field, "spec")


def job_intent(document: Document) -> Parsed[Workload]:
    """Read a KaiwoJob."""
    return _read(document, JOB, RAY_JOB)


def service_intent(document: Document) -> Parsed[Workload]:
    """Read a KaiwoService."""
    return _read(document, DEPLOYMENT, RAY_SERVICE)


def _read(document: Document, plain: WorkloadForm, ray: WorkloadForm) -> Parsed[Workload]:
    fields = Fields(document, FAMILY)
    has_ray = fields.plain("spec", "ray") is True or fields.plain("spec", ray.field) is not None
    work = Workload(document=document, form=ray if has_ray else plain)
    problems = [
        *_other_form(fields, plain, has_ray=has_ray),
        *_programs(work),
        *_inner_names(work),
        *_lists(fields),
        *_ignored(fields),
        *storage_problems(fields),
    ]
    return Parsed(intent=None if has_errors(problems) else work, problems=tuple(problems))


def _other_form(fields: Fields, plain: WorkloadForm, *, has_ray: bool) -> Iterator[Problem]:
    if has_ray and fields.plain("spec", plain.field) is not None:
        message = f"has no effect, because the workload runs in Ray and is no {plain.kind}"
        yield fields.problem("contradiction", ("spec", plain.field), message, "remove it, or ray and the other object")
    if has_ray and fields.plain("spec", "ray") is False:
        message = "has no effect: what is written beside it runs in Ray"
        yield fields.warning("ignored", ("spec", "ray"), message, "remove it")


def _programs(work: Workload) -> Iterator[Problem]:
    """Check that a workload in Ray says what runs, where Ray reads it."""
    fields, form = work.fields, work.form
    if form is RAY_JOB and not (fields.plain("spec", "entrypoint") or fields.plain(*work.inner, "entrypoint")):
        yield fields.problem("entrypoint", ("spec",), "a RayJob needs an entrypoint", "add spec.entrypoint")
    if form is RAY_SERVICE and not (
        fields.plain("spec", "serveConfigV2") or fields.plain(*work.inner, "serveConfigV2")
    ):
        message = "a RayService needs its applications"
        yield fields.problem("entrypoint", ("spec",), message, "add spec.serveConfigV2")
    if form is RAY_SERVICE and fields.plain("spec", "entrypoint"):
        message = "has no effect: a RayService runs the applications of serveConfigV2"
        yield fields.warning("ignored", ("spec", "entrypoint"), message, "remove it")
    if form is DEPLOYMENT and fields.plain("spec", "serveConfigV2"):
        hint = "set `ray: true`, or remove it"
        yield fields.warning("ignored", ("spec", "serveConfigV2"), "has no effect without Ray", hint)


def _inner_names(work: Workload) -> Iterator[Problem]:
    fields = work.fields
    for name in ("name", "namespace"):
        path = ("spec", work.form.field, "metadata", name)
        written = fields.plain(*path)
        if written is not None and written != fields.plain("metadata", name):
            message = f"is ignored: the {work.form.kind} has the {name} of the {work.document.kind}"
            yield fields.warning("ignored", path, message, "remove it")


def _lists(fields: Fields) -> Iterator[Problem]:
    for section in ("env", "secretVolumes"):
        seen: set[str] = set()
        for index, item in enumerate(map(mapping, sequence(fields.plain("spec", section)))):
            if item.get("name") in seen:
                message = f"{item.get('name')!r} is there already"
                yield fields.problem("repeated", ("spec", section, index, "name"), message, "remove one of them")
            seen.add(item.get("name", ""))


def _ignored(fields: Fields) -> Iterator[Problem]:
    for part in ("requests", "limits"):
        for name in mapping(fields.plain("spec", "resources", part)):
            if is_gpu(name):
                message = f"{name} is ignored: `gpus` and `gpusPerReplica` say it"
                yield fields.warning("ignored", ("spec", "resources", part, name), message, "remove it")
    if fields.plain("spec", "requiredTopologyLabel") and fields.plain("spec", "preferredTopologyLabel"):
        path: FieldPath = ("spec", "preferredTopologyLabel")
        yield fields.warning("ignored", path, "has no effect beside requiredTopologyLabel", "remove one of them")
    label: FieldPath = ("metadata", "labels", QUEUE_LABEL)
    if fields.plain(*label) is not None:
        message = "the label would be on every object, also on those that no queue may hold back"
        yield fields.problem("contradiction", label, message, "remove it, and set spec.clusterQueue")
