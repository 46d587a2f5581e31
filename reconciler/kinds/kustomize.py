"""Kustomize (`kustomize.config.k8s.io`): overlays, which are built and are not manifests themselves."""

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
                message="the folder is a Kustomize overlay, but spec.sources reads its files as they are",
                hint="build it: write {path: FOLDER, build: kustomize} in spec.sources of reconciler.yaml",
            )
        ),
    ),
)
