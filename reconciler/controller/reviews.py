"""Open change requests of a source: a round plans them, comments the plans and answers people (`forge.rounds`)."""

from pathlib import Path

import msgspec
from msgspec.structs import replace

from reconciler.controller.outcome import PassOutcome, failure
from reconciler.controller.reconcile import Request, author_of, open_remote, require_folder, source_flags, source_forge
from reconciler.errors import ConfigError
from reconciler.forge import Forge
from reconciler.forge.checkouts import reopener
from reconciler.forge.rounds import RequestRound, Seen, SeenRequest
from reconciler.plan import opening
from reconciler.repo.checkout_files import write_file

_MAX_LINES = 20


def review_round(request: Request, environ: dict[str, str]) -> PassOutcome:
    """Make one round. Settings, rules and code owners are those of the branch that the source reads."""
    source, state = request.source, Path(request.folder) / "reviews.json"
    outcome = PassOutcome()
    try:
        remote = open_remote(request, environ, "reviews")
        remote.fetch([source.ref])
        repository = remote.repository(source.path, identity=author_of(source))
        base = repository.resolve(source.ref).oid
        outcome = PassOutcome(revision=source.revision(base), commit=base)
        require_folder(repository, base, source)
        flags = source_flags(request)
        run = opening.open_repository(repository, {**flags, "revision": base}, environ)
        done = RequestRound(
            _forge(request, run, environ),
            remote,
            run,
            target=source.ref.removeprefix("refs/heads/"),
            reopen=reopener(run, flags, environ, base),
            scope="-".join(filter(None, (source.path.strip("/").replace("/", "-"), source.cluster))) or "default",
            is_mirror=True,
            keep=lambda seen: write_file(state, msgspec.json.encode(seen)),
        ).make(_seen(state))
    except Exception as error:  # noqa: BLE001 - every failure is part of the outcome
        return replace(outcome, failure=failure(error))
    message = "; ".join(done.lines[:_MAX_LINES])
    return replace(outcome, message=message, failure=None if done.error is None else failure(done.error))


def _forge(request: Request, run: opening.Run, environ: dict[str, str]) -> Forge:
    forge = source_forge(request, run, environ)
    if forge is None:
        hint = "set spec.forge in reconciler.yaml, and forgeToken in the Secret of the source"
        raise ConfigError("spec.reviews needs a forge and a token for it", hint=hint)
    return forge


def _seen(state: Path) -> Seen:
    """Return what earlier rounds saw; nothing if that is lost: then all is planned, and no comment is written twice."""
    try:
        return msgspec.json.decode(state.read_bytes(), type=dict[int, SeenRequest])
    except (OSError, msgspec.MsgspecError):
        return {}
