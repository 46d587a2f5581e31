"""The one place that picks adapters and outputs from settings. Imports each of them only where it is used."""

# ruff: noqa: PLC0415 - late imports are the point of this module: small verbs must not pay for all

import atexit
import gc
import json
import os
import sys
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reconciler.errors import ConfigError, InvalidInput
from reconciler.outputs.logs import Log
from reconciler.settings import Settings, resolve
from reconciler.version import __version__
from reconciler.wiring.shipped import Shipped

if TYPE_CHECKING:
    from reconciler.adapters.cache import DiskCache
    from reconciler.adapters.checkout import Made
    from reconciler.adapters.git import GitRepository
    from reconciler.core.config import Config
    from reconciler.core.plan import Plan
    from reconciler.index.head import Head, Tools
    from reconciler.outputs.explain import Explanation
    from reconciler.outputs.sizes import SizeAnswer
    from reconciler.planning.planning import Planned
    from reconciler.revision.sides import Side

_log = Log(__name__)
# The newest, kept to the end: to take it apart costs more than a quick plan may.
_open: list[tuple["Session", "GitRepository"]] = []


class Session:
    """One run: settings, repository, tools."""

    def __init__(self, settings: Settings, tools: "Tools", side: "Side", config: "Config") -> None:
        self.settings = settings
        self.tools = tools
        self._side = side
        self._config = config
        self._writes = False  # whether the bytes of rendered objects will be asked for

    @cached_property
    def head(self) -> "Head":
        """The compiled revision of the settings."""
        from reconciler.index.head import Head

        return Head(self.tools, self._side, self._config, writes=self._writes)

    def plan(self, *, against_head: bool = False) -> "Planned":
        """Plan the revision of the settings."""
        from reconciler.planning import planning

        self._writes = against_head
        planned = planning.plan(
            self.head,
            base=self.settings.base,
            date=self.settings.date,
            acknowledge=self.settings.acknowledge,
            against_head=against_head,
        )
        _log.info(
            "plan %s: %d changes, %d errors", planned.plan.digest, len(planned.plan.changes), len(planned.plan.errors)
        )
        return planned

    def lint(self) -> "Plan":
        """Check the revision of the settings."""
        from reconciler.planning import planning

        return planning.lint(self.head, date=self.settings.date)

    def render(self) -> dict[str, bytes]:
        """Return every rendered file by path below the repository; raises `InvalidInput` where any source is wrong."""
        self._writes = True
        head = self.head
        errors = [problem for problem in head.problems() if problem.severity.value == "error"]
        if errors:
            raise InvalidInput(errors)
        contents = head.contents(sorted(head.rows))
        return {f"{head.config.rendered}/{path}": content for path, content in contents.items()}

    def commit(self, planned: "Planned", *, branch: str | None, message: str | None) -> str | None:
        """Carry a plan out as one commit; None where there is nothing to do."""
        from reconciler.outputs.commit import ACKNOWLEDGED, EVIDENCE_DIGEST, PLAN_DIGEST, SOURCE_COMMIT, commit
        from reconciler.outputs.summary import description

        plan, head = planned.plan, planned.head
        if head.side.commit is None:
            raise ConfigError("a commit is made from a revision, not from the working tree")
        made = commit(
            self.tools.repository,
            files=planned.contents(),
            message=message or description(plan),
            trailers={
                PLAN_DIGEST: plan.digest,
                SOURCE_COMMIT: head.side.commit.oid,
                EVIDENCE_DIGEST: plan.evidence,
                **({ACKNOWLEDGED: self.settings.acknowledge} if plan.breaches and plan.acknowledged else {}),
            },
            branch=branch,
            expected_head=head.side.commit.oid,
        )
        _log.info("commit %s of plan %s", made.oid if made else "none", plan.digest)
        return made.oid if made else None

    def uncommitted_sources(self) -> tuple[str, ...]:
        """Name the source files whose edits are not committed."""
        from reconciler.revision.layout import folders

        head = self.head
        changed = self.tools.repository.changed_since(head.side.commit.oid if head.side.commit else None)
        roots = tuple(root for root in folders(head.config) if root != head.config.rendered)
        return tuple(sorted(path for path in changed if path.startswith(roots)))

    def explain(self, wanted: str, field: str) -> "Explanation":
        """Say why an object, or one of its fields, is what it is."""
        from reconciler.planning.explaining import explain

        return explain(self.head, wanted, field)


def open_session(repo: str, flags: Mapping[str, Any], environ: Mapping[str, str]) -> Session:
    """Find the repository and settle all settings, of which `reconciler.yaml` gives the lowest."""
    from reconciler.adapters.git import GitRepository
    from reconciler.revision.layout import folders
    from reconciler.revision.sides import head_side, read_config
    from reconciler.wiring import ahead

    gc.disable()  # one short run over many small objects: the collector would cost more than the run
    early = resolve(flags, environ, {})
    folder = Path(repo)
    if not folder.is_dir():
        raise ConfigError(f"--repo {repo} is not a folder", hint="name a config repository")
    looked = ahead.taken_up(repo, environ)
    repository = looked.repository if looked else GitRepository.open(folder, environ=environ)
    shipped = Shipped()
    side = looked.side if looked and not early.revision else head_side(repository, early.revision)
    cache = _cache(early, environ)
    config = read_config(repository, side, lambda: shipped.catalogue, cache)
    if side.commit is None and side.checked_out is not None:  # git looks while we import the rest
        repository.anticipate(folders(config), head=side.checked_out.oid)
    settings = resolve(flags, environ, config.defaults)
    _set_up_logging(settings)
    if settings.cache != early.cache:
        cache = _cache(settings, environ)
    _log.debug("repository %s at %s", repository.root, side.commit.oid if side.commit else "the working tree")
    session = Session(settings, _tools(repository, cache, shipped, settings), side, config)
    _open[:] = [(session, repository)]
    return session


def let_go() -> None:
    """End every git that nobody waits for any more."""
    from reconciler.wiring import ahead

    ahead.let_go()
    for _, repository in _open:
        repository.let_go()


atexit.register(let_go)


def _tools(repository: "GitRepository", cache: "DiskCache", shipped: "Shipped", settings: Settings) -> "Tools":
    from reconciler.index.head import Tools
    from reconciler.outputs.progress import progress

    return Tools(
        repository=repository,
        cache=cache,
        catalogue=shipped.catalogue,
        shipped=shipped.policies,
        read_shipped=shipped.read,
        bundle_digest=shipped.digest,
        processes=settings.processes or _processors(),
        cluster=settings.cluster,
        progress=lambda title, total: progress(title, total=total),
    )


def resolve_settings(flags: Mapping[str, Any], environ: Mapping[str, str]) -> Settings:
    """Settle the settings of a verb that needs no repository."""
    return resolve(flags, environ, {})


def render_plan(plan: "Plan", settings: Settings, *, full: bool = False, lint: bool = False) -> str:
    """Write a plan in the format that the settings name."""
    from reconciler.outputs.registry import RenderOptions, render

    options = RenderOptions(width=_width(settings), colour=_colour(settings), unicode=_unicode(), full=full, lint=lint)
    return render(plan, settings.output, options)


def render_lint(plan: "Plan", settings: Settings) -> str:
    """Write what was found, without a comparison."""
    return render_plan(plan, settings, lint=True)


def render_explanation(explanation: "Explanation", settings: Settings) -> str:
    """Write the chain of reasons of an object or a field."""
    from reconciler.outputs.explain import render_explain, render_explain_json

    if settings.output == "json":
        return render_explain_json(explanation)
    return render_explain(explanation, width=_width(settings), colour=_colour(settings), unicode=_unicode())


def render_sizes(answers: Sequence["SizeAnswer"], settings: Settings) -> str:
    """Write the answers to sizing questions; as JSON one object, or one a line where there are several."""
    from reconciler.outputs.sizes import render_size, size_json

    if settings.output == "json":
        indent = 2 if len(answers) == 1 else None
        return "".join(json.dumps(size_json(one), indent=indent, ensure_ascii=False) + "\n" for one in answers)
    colour = _colour(settings)
    return "\n".join(render_size(one, width=_width(settings), colour=colour, unicode=_unicode()) for one in answers)


def raise_if_refused(plan: "Plan", *, budgets: bool = True) -> None:
    """Turn what was shown into the documented exit."""
    from reconciler.planning.gate import refuse

    refuse(plan, budgets=budgets)


def raise_if_stale(plan: "Plan") -> None:
    """Refuse a rendered folder that is not what the sources mean."""
    from reconciler.planning.gate import refuse_stale

    refuse_stale(plan)


def save_plan(plan: "Plan", path: Path) -> None:
    """Write a plan as JSON, whole or not at all."""
    from reconciler.adapters.files import write_file
    from reconciler.outputs.json_report import render_json

    write_file(path, render_json(plan))


def load_plan(path: Path) -> "Plan":
    """Read a plan that `save_plan` wrote; `ConfigError` where it is none."""
    from reconciler.adapters.files import read_file
    from reconciler.core.plan.codec import from_json

    return from_json(read_file(path))


def write_folder(contents: Mapping[str, bytes], folder: Path) -> None:
    """Write files below an empty or absent folder."""
    from reconciler.adapters import files

    files.write_folder(folder, contents)


def schema(kind: str) -> str:
    """Return the JSON Schema of a kind, or the list of kinds."""
    from difflib import get_close_matches

    catalogue = Shipped().catalogue
    names = [f"{name.kind}  {f'{name.group}/{name.version}'.lstrip('/')}" for name in catalogue.kinds()]
    if not kind:
        return "\n".join(names) + "\n"
    found = catalogue.json_schema(kind)
    if found is None:
        near = get_close_matches(kind, [name.split()[0] for name in names], n=1)
        hint = f"did you mean {near[0]}?" if near else "`reconciler schema` lists the kinds"
        raise ConfigError(f"no kind {kind!r} is known", hint=hint)
    return json.dumps(found, indent=2) + "\n"


def versions() -> dict[str, str]:
    """Return the versions of the engine and of what it knows."""
    from reconciler.adapters import bundle

    known: dict[str, str] = json.loads(bundle.read("schemas/kubernetes/versions.json"))
    return {"reconciler": __version__, **known}


def init(folder: Path) -> "Made":
    """Make a config repository from the template, with the schemas that its files name for editors."""
    from reconciler.adapters import bundle, checkout, files

    prefix = "gitops-repo-template/"
    contents = {path.removeprefix(prefix): bundle.read(path) for path in bundle.walk(prefix.rstrip("/"))}
    catalogue = Shipped().catalogue
    for name in catalogue.kinds():
        if name.group in _OWN_GROUPS:
            text = json.dumps(catalogue.json_schema(name.kind), indent=2) + "\n"
            contents[f".schemas/{name.kind.lower()}.json"] = text.encode()
    files.write_folder(folder, contents)
    return checkout.adopt(folder, files=len(contents))


_OWN_GROUPS = ("gpureconciler.io", "torchrun.ai")


def _cache(settings: Settings, environ: Mapping[str, str]) -> "DiskCache":
    from reconciler.adapters import bundle
    from reconciler.adapters.cache import DiskCache, cache_folder

    if settings.cache == "off":
        return DiskCache(None)
    folder = Path(settings.cache_dir).absolute() if settings.cache_dir else cache_folder(environ)
    return DiskCache(folder, stamp=bundle.stamp())


def _processors() -> int:
    from reconciler.index.workers import usable_processors

    return usable_processors()


def _colour(settings: Settings) -> bool:
    if settings.color != "auto":
        return settings.color == "always"
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _width(settings: Settings) -> int:
    if settings.width:
        return max(settings.width, _LEAST_WIDTH)
    if not sys.stdout.isatty():
        return _PIPE_WIDTH
    import shutil  # brings all kinds of archives with it

    return max(shutil.get_terminal_size().columns, _LEAST_WIDTH)


_LEAST_WIDTH = 40
_PIPE_WIDTH = 100


def _unicode() -> bool:
    return (sys.stdout.encoding or "").lower().replace("-", "") in {"utf8", "utf16"}


def _set_up_logging(settings: Settings) -> None:
    from reconciler.outputs.logs import set_up

    set_up(level=settings.log_level, form=settings.log_format)
