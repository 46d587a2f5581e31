"""Create a config repository."""

import json
import re
from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from reconciler import resources
from reconciler.errors import ConfigError
from reconciler.kinds.kind import Kinds
from reconciler.kube.schemas import Catalogue
from reconciler.plan.opening import catalogue, engine_digest, kinds, rule_paths
from reconciler.repo import checkout, checkout_files
from reconciler.repo.checkout import InitResult
from reconciler.repo.files import CONFIG_PATH
from reconciler.repo.git import GitRepository
from reconciler.submit.existing import Survey, configuration, survey
from reconciler.version import __version__, engine_version

# The requirements file of a config repository: the exact version that its pipelines install, and from where.


REQUIREMENTS = "requirements.txt"

PACKAGE = "gpu-reconciler"

_HEADER = f"""\
# The version of gpu-reconciler that renders this repository. Pipelines run: pip install -r {REQUIREMENTS}
# To upgrade, change it, run `reconciler commit` with the new version, and review what renders differently.
"""

_CREDENTIALS = re.compile(r"//[^/]*@")

_HINT = "name a git URL with a tag or commit, a wheel, or a package index; see `reconciler init --help`"


def requirements(version: str, source: str = "") -> str:
    """Return the file, which pins `version`.

    source: `git+URL@REVISION`, the path or URL of a wheel, or the URL of a package index (empty: the default index).
    Raises `ConfigError` for anything else, for one without an exact version, and for credentials in a URL.
    """
    if not source.isprintable() or " " in source:
        raise ConfigError("--source: contains spaces or control characters", hint=_HINT)
    if _CREDENTIALS.search(source):
        raise ConfigError(
            "--source: the URL contains credentials, which would be committed",
            hint="leave them out; pip reads them from ~/.netrc, and git from its credential helper",
        )
    return _HEADER + "".join(f"{line}\n" for line in _lines(version, source))


def _lines(version: str, source: str) -> tuple[str, ...]:
    if not source:
        return (f"{PACKAGE}=={version}",)
    if source.startswith("git+"):
        repository, _, revision = source.partition("#")[0].rpartition("@")
        if "/" not in repository or "/" in revision or not revision:
            hint = f"add a tag or a commit: --source {source}@v{version}"
            raise ConfigError(f"--source: {source} names no exact version", hint=hint)
        return (f"{PACKAGE} @ {source}",)
    if source.partition("#")[0].endswith(".whl"):
        return (f"{PACKAGE} @ {source}",) if "://" in source else (source if "/" in source else f"./{source}",)
    if source.endswith(".git"):
        raise ConfigError(f"--source: {source} names no exact version", hint=f"write git+{source}@v{version}")
    if source.startswith(("https://", "http://")):
        return (f"--index-url {source}", f"{PACKAGE}=={version}")
    raise ConfigError(f"--source: {source!r} is not a package source", hint=_HINT)


def installed_source(record: object) -> str:
    """Return the source that an installation recorded (PEP 610): a git commit or a wheel's URL, empty for any other."""
    if not isinstance(record, dict) or not isinstance(url := record.get("url"), str) or url.startswith("file:"):
        return ""
    if _CREDENTIALS.search(url):
        return ""
    git, archive = record.get("vcs_info"), record.get("archive_info")
    if isinstance(git, dict) and git.get("vcs") == "git" and isinstance(commit := git.get("commit_id"), str):
        return f"git+{url}@{commit}"
    return url if isinstance(archive, dict) and url.endswith(".whl") else ""


# Files of the user.


_STEPS = {
    ".github/actions/reconciler/action.yml": "action.yml",
    ".gitea/actions/reconciler/action.yml": "action.yml",
    ".gitlab/reconciler.yml": "templates/plan/template.yml",
}
"""The steps of the pipelines: copies of the action and of the component, which a change of the repository pins."""


def init(folder: Path, source: str) -> InitResult:
    """Create a config repository in a folder, with its first commit. Its pipelines install this version from `source`.

    An empty `source` is where this installation came from, if that is known, else the package index.
    """
    origin = None if source else resources.direct_url()
    pinned = requirements(__version__, source := source or installed_source(origin))
    prefix = "gitops-repo-template/"
    template = {path.removeprefix(prefix): resources.read(path) for path in resources.walk(prefix.rstrip("/"))}
    template |= {path: resources.read(shipped) for path, shipped in _STEPS.items()}
    registry = kinds()
    contents = repository_files(template, registry, catalogue(), pinned)
    checkout_files.write_folder(folder, contents)
    engine = engine_version(engine_digest(registry, rule_paths()))
    made = checkout.commit_new_folder(folder, files=len(contents), engine=engine)
    return replace(made, unpublished=f"{PACKAGE}=={__version__}") if origin and not source else made


def init_existing(folder: str, environ: Mapping[str, str]) -> tuple[Survey, Path, bool]:
    """Write `reconciler.yaml` for the repository around a folder.

    Returns what was found, the root, and whether the file is new.
    """
    if not Path(folder).is_dir():
        raise ConfigError(f"{folder} is not a folder", hint="name a folder of a Git repository")
    repository = GitRepository.open(Path(folder), environ=environ)
    root = repository.root
    found, target = survey(repository, kinds(), checkout.remote_urls(root)), root / CONFIG_PATH
    content = configuration(found, root.name.lower())
    if not target.exists():
        checkout_files.write_new(root, CONFIG_PATH, content)
        return found, root, True
    if checkout_files.read_file(target) != content:
        raise ConfigError(
            f"{CONFIG_PATH} exists, and differs from what would be written",
            hint="edit it, or remove it to write it again",
        )
    return found, root, False


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
