"""`reconciler size serve`: the servers of language models in files."""

import json
from pathlib import Path
from typing import Any

import click

from reconciler.cli import options
from reconciler.cli.console import emit_report


@click.command(
    "serve",
    short_help="Check whether servers of models fit their GPUs.",
    epilog="""\b
Examples:
  reconciler size serve deployment.yaml --gpu NVIDIA-L40S
  kubectl get kaiwoservice,deployment -o yaml | reconciler size serve - --gpu AMD-Instinct-MI300X
""",
)
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path, allow_dash=True), metavar="FILE|-...")
@click.option("--gpu", metavar="PRODUCT", default="", help="GPU product of pods that select none, such as NVIDIA-L40S.")
@options.output(("text", "json"))
@options.width
@options.color
def serve(files: tuple[Path, ...], gpu: str, **flags: Any) -> int:
    """Show for each vLLM or SGLang server in FILE whether it fits its GPUs, and what its cache holds.

    The pods can belong to any kind: Deployment, StatefulSet, KaiwoService, LeaderWorkerSet and others. Only the
    commands and arguments of their containers count; the projects' own images need no command.
    """
    from reconciler import wiring  # noqa: PLC0415 - imported late so that --help stays fast
    from reconciler.app.size.serve import check_servers  # noqa: PLC0415
    from reconciler.cli.display import terminal  # noqa: PLC0415
    from reconciler.outputs.sections.servers import render_server, server_json  # noqa: PLC0415

    settings = wiring.resolve_settings(options.setting_flags(flags), options.environment())
    answers = check_servers([wiring.input_file(path, None) for path in files], wiring.sizing_tables(), gpu=gpu)
    if settings.output == "json":
        indent = 2 if len(answers) == 1 else None
        text = "".join(json.dumps(server_json(one), indent=indent, ensure_ascii=False) + "\n" for one in answers)
    else:
        text = "\n".join(render_server(one, **terminal(settings)) for one in answers)
    emit_report(text, settings)
    return 0
