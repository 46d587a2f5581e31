"""CodeFlare's AppWrapper (`workload.codeflare.dev`): objects that are queued together."""

from collections.abc import Iterator

from reconciler.core.kinds.kind import Body, Kind
from reconciler.core.objects import FieldPath
from reconciler.core.values import mapping, sequence


def _components(body: Body) -> Iterator[tuple[FieldPath, Body]]:
    for index, component in enumerate(sequence(mapping(body.get("spec")).get("components"))):
        template = mapping(component).get("template")
        if type(template) is dict:
            yield ("spec", "components", index, "template"), template


KINDS = (Kind(group="workload.codeflare.dev", kind="AppWrapper", components=_components),)
