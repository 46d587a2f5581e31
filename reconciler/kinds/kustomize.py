"""Kustomize (`kustomize.config.k8s.io`): overlays, which are not accepted among the sources."""

from reconciler.kinds.aspects import Source
from reconciler.kinds.facts import Refusal
from reconciler.kinds.kind import ANY_KIND, Kind

KINDS = (
    Kind(
        group="kustomize.config.k8s.io",
        kind=ANY_KIND,
        source=Source(
            refusal=Refusal(
                rule="layout.kustomize",
                message="sources are not built with Kustomize",
                hint="commit the output of `kustomize build`, or keep the overlay outside the source folders",
            )
        ),
    ),
)
