"""Options of a search for a size, shared by the commands of `reconciler size`."""

import click

from reconciler.cli import options

_MAX_GPUS = 65_536

gpu = click.option(
    "--gpu", metavar="PRODUCT", default="", help="GPU product, as in the node label nvidia.com/gpu.product."
)
gpus = click.option("--gpus", metavar="N", type=click.IntRange(1, _MAX_GPUS), help="Number of GPUs to check as well.")
max_gpus = click.option(
    "--max-gpus",
    metavar="N",
    type=click.IntRange(1, _MAX_GPUS),
    default=64,
    show_default=True,
    help="Maximum number of GPUs to try.",
)
goal = click.option(
    "--goal",
    type=click.Choice(("min-gpu", "avoid-oom", "throughput")),
    default="min-gpu",
    show_default=True,
    help="Sizing goal.",
)
safety = click.option(
    "--safety",
    metavar="FRACTION",
    type=options.FiniteRange(0, 1),
    default=0.08,
    show_default=True,
    help="Memory to keep free, as a fraction of the estimate.",
)
allow_paged = click.option(
    "--allow-paged", is_flag=True, help="Accept sizes that fit only if the optimizer is paged to host memory."
)
