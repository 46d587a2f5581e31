"""CodeFlare's AppWrapper (`workload.codeflare.dev`): objects that are queued together."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from reconciler.core.kinds.kind import Body, Kind
from reconciler.core.objects import FieldPath
from reconciler.core.values import mapping, sequence

if TYPE_CHECKING:
    from reconciler.core.kinds.progress import Progress


def _components(body: Body) -> Iterator[tuple[FieldPath, Body]]:
    for index, component in enumerate(sequence(mapping(body.get("spec")).get("components"))):
        template = mapping(component).get("template")
        if type(template) is dict:
            yield ("spec", "components", index, "template"), template


def _app_wrapper_progress(body: Body) -> "Progress":
    from reconciler.core.kinds.appwrapper.progress import app_wrapper_progress  # noqa: PLC0415 - few commands need it

    return app_wrapper_progress(body)


KINDS = (
    Kind(group="workload.codeflare.dev", kind="AppWrapper", components=_components, progress=_app_wrapper_progress),
)
