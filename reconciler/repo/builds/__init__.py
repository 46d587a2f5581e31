"""Builds of sources: Kustomize overlays and Helm charts of the repository, made by the user's own programs.

In: the entries of `spec.sources` that are built, and the files of a revision. Out: a file of documents for each, which
stands among the sources. Read `inputs` (what a build reads) first, then `build` (from the cache or a program),
`programs` (the limited child process) and `variables` (Flux's substitution).
"""

from reconciler.repo.builds.build import Built, build_all, sources_with

__all__ = ["Built", "build_all", "sources_with"]
