"""`reconciler submit` and `reconciler serve`."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from reconciler.console import options
from reconciler.console.printing import emit, emit_report
from reconciler.errors import ConfigError, OutsideError
from reconciler.kube.values import metadata_text, plural
from reconciler.kube.yaml import write
from reconciler.plan import opening
from reconciler.plan.opening import Run
from reconciler.plan.outputs.display import format_plan
from reconciler.repo.files import SUFFIXES
from reconciler.settings import Settings
from reconciler.submit.dry_run import manifests_in, manifests_outside
from reconciler.submit.go_templates import to_jinja
from reconciler.submit.proposal import (
    SubmittedChange,
    is_proposed,
    open_head,
    plan_change,
    propose,
    request_review,
    with_files,
)
from reconciler.submit.site import NODE_GPUS
from reconciler.submit.submit import Submission, SubmitRequest, submit
from reconciler.submit.user import user_settings

_GPU_LABEL = "beta.amd.com/gpu.family.AI"
_FOLDER = click.Path(file_okay=False, path_type=Path)
_READ = click.Path(exists=True, dir_okay=False, path_type=Path)
_GPUS = click.IntRange(0, 1_000_000)

_REQUESTED = (
    *("path", "overlay", "gpus", "replicas", "gpus_per_replica", "ray", "queue", "namespace", "create_namespace"),
    *("image", "pull_secret", "version", "name", "template", "custom", "storage"),
)

workload = options.stack(
    click.option("-p", "--path", metavar="DIR", type=_FOLDER, help="Folder of the workload."),
    click.option(
        "--overlay-path", "overlay", metavar="DIR", type=_FOLDER, help="Folder whose files win over --path's."
    ),
    click.option("-g", "--gpus", metavar="N", type=_GPUS, default=0, show_default=True, help="GPUs in all."),
    click.option("--replicas", metavar="N", type=_GPUS, help="Number of replicas, with --gpus-per-replica."),
    click.option("--gpus-per-replica", metavar="N", type=_GPUS, help="GPUs of each replica."),
    click.option("--ray", is_flag=True, help="Run it on Ray."),
    click.option("-q", "--queue", metavar="NAME", default="", help="Queue. [default: kaiwo, or the only one]"),
    click.option("-i", "--image", metavar="IMAGE", default="", help="Container image."),
    click.option("--imagepullsecret", "pull_secret", metavar="NAME", default="", help="Secret to pull the image with."),
    click.option("--name", metavar="NAME", default="", help="Name of the workload. [default: USER-FOLDER[-VERSION]]"),
    click.option("--version", metavar="WORD", default="", help="Version of the workload, the end of its name."),
    click.option(
        "--storage",
        metavar="SIZE[,CLASS]",
        is_flag=False,
        flag_value="100Gi",
        help="Volume for data, such as 100Gi,fast. [default: none; 100Gi without a value]",
    ),
    click.option("--no-storage", is_flag=True, help="No volume for data."),
    click.option("-t", "--template", metavar="FILE", type=_READ, help="Template of the object, Jinja2 or Go."),
    click.option(
        "-c", "--custom-config", "custom", metavar="FILE", type=_READ, help="YAML file, `Custom` in a template."
    ),
)

where = options.stack(
    click.option("-n", "--namespace", metavar="NAME", default="", help="Namespace. [default: kaiwo, or the cluster's]"),
    click.option("--create-namespace", is_flag=True, help="Add the namespace if the repository does not have it."),
    click.option("-u", "--user", metavar="NAME", default="", help="Who submits. [default: the account]"),
    click.option("--config", "user_file", metavar="FILE", default="", help="File with {user, clusterQueue}."),
    click.option("-d", "--dry-run", is_flag=True, help="Print the manifests; write nothing. Needs no repository."),
    click.option("--push", is_flag=True, help="Push the branch to origin."),
    click.option("--gpu-node-label-key", metavar="KEY", default=_GPU_LABEL, help="No effect: evidence says the nodes."),
    click.option("-v", "--verbose", count=True, help="Say more."),
    click.option("--quiet", is_flag=True, help="Print errors only."),
    options.repo,
    options.cluster,
    options.output(("text", "json")),
    options.width,
    options.date,
    options.run_options,
)


@click.command(
    "submit",
    epilog="""\b
Examples:
  reconciler submit -p workloads/pretrain -g 16 --ray
  reconciler submit -i my-registry/my_image -g 8
  reconciler submit -i my-registry/my_image -p workloads/entrypoint -g 8
  reconciler submit --queue h100-training --gpus 8 "python train.py --epochs 10"
  reconciler submit -f job.yaml -n team-a
  reconciler submit -p workloads/pretrain -g 16 --ray --dry-run
  reconciler submit --convert-template job.yaml.tmpl > job.yaml.j2
""",
)
@click.argument("command_line", metavar="[COMMAND]", required=False, default="")
@workload
@click.option(
    "-f",
    "--file",
    metavar="FILE|DIR|-",
    default="",
    help="Submit the workloads of a file, or of a folder, as they are.",
)
@click.option("--convert-template", "convert", metavar="FILE", type=_READ, help="Print a Go template as Jinja2.")
@where
def command(*, convert: Path | None, **flags: Any) -> int:
    """Submit a job: commit it on a branch submit/NAME, and show its plan.

    Nothing of the working tree changes. Once the branch is merged, the job waits in its queue.
    """
    if convert is not None:
        emit(to_jinja(str(convert), convert.read_text("utf-8", "replace")), form="yaml", nl=False)
        return 0
    return run(serves=False, **flags)


def run(
    *,
    serves: bool,
    repo: str,
    user: str,
    user_file: str,
    dry_run: bool,
    push: bool,
    verbose: int,
    quiet: bool,
    **flags: Any,
) -> int:
    """Submit or serve a workload as the flags say."""
    if verbose and quiet:
        raise click.UsageError("--verbose and --quiet contradict each other")
    environ = options.environment()
    settings = options.setting_flags(flags)
    head = _open(repo, settings, environ, needs_repository=not dry_run)
    kinds = opening.kinds() if head is None else head.workspace.runtime.engine.kinds
    index = None if head is None else head.workspace.compile()
    request = _request(flags, head, serves=serves)
    submitter = user_settings(user, user_file, environ)
    submission = submit(request, submitter, kinds, index)
    if not quiet:
        _say(submission, request, verbose)
    if dry_run:
        return _print_manifests(head, submission, settings, environ)
    assert head is not None  # noqa: S101 - required unless nothing is written
    proposal = SubmittedChange(
        branch=f"submit/{submission.name}",
        subject=f"Submit {submission.kind} {submission.namespace}/{submission.name}",
        user=submitter.user,
        files=submission.files,
    )
    return propose_and_show(head, proposal, settings, push=push, quiet=quiet, nothing="nothing to submit")


def _open(repo: str, flags: Mapping[str, Any], environ: Mapping[str, str], *, needs_repository: bool) -> Run | None:
    try:
        return open_head(repo, flags, environ)
    except (OutsideError, ConfigError) as error:
        if needs_repository:
            hint = f"{error.hint + '; or ' if error.hint else ''}print the manifests with --dry-run"
            if "reconciler init" not in hint:
                hint = f"create a config repository with `reconciler init DIR`, or {hint}"
            raise ConfigError(f"{error.message}, so there is nowhere to submit to", hint=hint) from error
        return None


def _request(flags: Mapping[str, Any], head: Run | None, *, serves: bool) -> SubmitRequest:
    file, line = flags.get("file", ""), flags.get("command_line", "")
    given = [name for name in ("path", "gpus", "image", "template", "ray") if flags[name]] + ([line] if line else [])
    if file and given:
        raise click.UsageError("--file is a whole workload: give its values there")
    if flags["no_storage"] and flags["storage"]:
        raise click.UsageError("--storage and --no-storage contradict each other")
    here = Path.cwd()
    is_root = head is not None and head.workspace.repository.root.resolve() == here.resolve()
    return SubmitRequest(
        **{name: flags[name] for name in _REQUESTED},
        command=line,
        code=None if is_root else here,
        serves=serves,
        file=file,
        contents=_contents(file) if file else {},
    )


def _contents(file: str) -> dict[str, bytes]:
    """Return what a file holds, or the YAML files of a folder, by path."""
    folder = Path(file)
    if not folder.is_dir():
        return {file: opening.read_input(folder)}
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.suffix in SUFFIXES}


def _say(submission: Submission, request: SubmitRequest, verbose: int) -> None:
    for warning in submission.warnings:
        emit(f"warning: {warning}", err=True)
    for note in submission.notes:
        emit(f"note: {note}", err=True)
    if verbose and request.path is None and not request.file:
        emit("note: no folder is named, so no file of the current folder is read (env, entrypoint)", err=True)


def _print_manifests(
    head: Run | None, submission: Submission, flags: Mapping[str, Any], environ: Mapping[str, str]
) -> int:
    if head is None:
        emit(f"note: there is no config repository: one cluster with nodes of {NODE_GPUS} GPUs is assumed", err=True)
        bodies = manifests_outside(submission.files)
    else:
        bodies = manifests_in(with_files(head, submission.files, flags, environ), submission.files)
    if flags.get("output") == "json":
        listed = {"apiVersion": "v1", "kind": "List", "items": bodies}
        emit(json.dumps(listed, indent=2, ensure_ascii=False), form="json")
        return 0
    for body in sorted(bodies, key=lambda one: metadata_text(one, "namespace") != ""):
        emit(f"{write(body).decode()}---\n", form="yaml", nl=False)
    return 0


def propose_and_show(
    head: Run, proposal: SubmittedChange, flags: Mapping[str, Any], *, push: bool, quiet: bool, nothing: str
) -> int:
    """Show the plan of a change, commit it on its branch, and say what is next."""
    if is_proposed(head, proposal):
        if not quiet:
            message = f"{nothing}: {proposal.branch} or the checked-out commit has it already"
            emit(message, err=head.settings.output != "text")
        if push and head.workspace.repository.branch(proposal.branch) is not None:
            following = request_review(head, proposal, options.environment(), push=True)
            if not quiet:
                emit(following, err=head.settings.output != "text")
        return 0
    changed = with_files(head, proposal.files, flags, options.environment())
    planned = plan_change(changed)
    settings: Settings = changed.settings
    if not quiet:
        emit_report(format_plan(planned.plan, settings), settings)
    commit = propose(head, planned, proposal)
    following = request_review(head, proposal, options.environment(), push=push)
    if settings.output == "text" and not quiet:
        emit(f"\nbranch {proposal.branch}: {commit[:12]}, {plural(len(proposal.files), 'file')}")
        emit(following)
    return 0
