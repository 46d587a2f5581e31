"""A guess, before anything is parsed, at the folder whose working tree a command line will look at. Imports nothing."""

from collections.abc import Mapping, Sequence

_LOOKING = ("plan", "lint", "render", "explain")
_OTHERWISE = ("-h", "--help", "--revision", "--cache")
_VARIABLES = ("RECONCILER_REVISION", "RECONCILER_CACHE")


def looked_at(arguments: Sequence[str], environ: Mapping[str, str]) -> str | None:
    """Return what `--repo` will be, if the verb looks at a working tree; None where it will not, or nobody can tell.

    A wrong guess costs time and nothing else: what git was asked is taken up only by who asks the same.
    """
    if not arguments or arguments[0] not in _LOOKING or any(environ.get(name) for name in _VARIABLES):
        return None
    folder = environ.get("RECONCILER_REPO") or "."
    for word, value in zip(arguments, (*arguments[1:], ""), strict=True):
        if word.startswith(_OTHERWISE):
            return None
        if word == "--repo":
            folder = value
        elif word.startswith("--repo="):
            folder = word.removeprefix("--repo=")
    return folder
