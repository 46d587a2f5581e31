"""Create a config repository."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from reconciler import resources
from reconciler.kinds.kind import Kinds
from reconciler.kube.schemas import Catalogue
from reconciler.repo import checkout, checkout_files
from reconciler.submit.requirements import PACKAGE, REQUIREMENTS, installed_source, requirements
from reconciler.version import __version__, engine_version

if TYPE_CHECKING:
    from reconciler.repo.checkout import InitResult

from reconciler.plan.opening import catalogue, engine_digest, kinds, rule_paths

# Files of the user.


def init(folder: Path, source: str) -> "InitResult":
    """Create a config repository in a folder, with its first commit. Its pipelines install this version from `source`.

    An empty `source` is where this installation came from, if that is known, else the package index.
    """
    origin = None if source else resources.direct_url(PACKAGE)
    pinned = requirements(__version__, source := source or installed_source(origin))
    prefix = "gitops-repo-template/"
    template = {path.removeprefix(prefix): resources.read(path) for path in resources.walk(prefix.rstrip("/"))}
    registry = kinds()
    contents = repository_files(template, registry, catalogue(), pinned)
    checkout_files.write_folder(folder, contents)
    engine = engine_version(engine_digest(registry, rule_paths()))
    made = checkout.commit_new_folder(folder, files=len(contents), engine=engine)
    return replace(made, unpublished=f"{PACKAGE}=={__version__}") if origin and not source else made


def repository_files(
    template: Mapping[str, bytes], kinds: Kinds, catalogue: Catalogue, pinned: str
) -> dict[str, bytes]:
    """Return the files of a new config repository: the template, the requirements, the schemas its files refer to."""
    contents = {**template, REQUIREMENTS: pinned.encode()}
    for name in catalogue.kinds():
        if name.group in kinds.own_groups:
            text = json.dumps(catalogue.json_schema(name.kind), indent=2) + "\n"
            contents[f".schemas/{name.kind.lower()}.json"] = text.encode()
    return contents
