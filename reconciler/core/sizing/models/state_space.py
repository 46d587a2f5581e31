"""The matrices of state-space layers: Mamba (arXiv 2312.00752) and Mamba-2 (arXiv 2405.21060)."""

from reconciler.core.sizing.architecture import Linear, Role
from reconciler.core.sizing.models.blocks import matrix
from reconciler.core.sizing.models.numbers import Numbers


def mamba2(config: Numbers, hidden: int, layers: int) -> tuple[tuple[Linear, ...], int]:
    """Return the matrices of Mamba-2 in `layers` layers, and one layer's small vectors (granitemoehybrid, bamba)."""
    heads = config.count("mamba_n_heads")
    expand = config.count("mamba_expand", default=2)
    inner = expand * hidden
    state = config.count("mamba_d_state")
    groups = config.count("mamba_n_groups", default=1)
    kernel = config.count("mamba_d_conv", default=4)
    convolved = inner + 2 * groups * state
    bias = config.flag("mamba_proj_bias", default=False)
    conv_bias = config.flag("mamba_conv_bias", default=True)
    linears = (
        matrix("in_proj", hidden, inner + convolved + heads, layers, Role.STATE_SPACE, bias=bias),
        matrix("out_proj", inner, hidden, layers, Role.STATE_SPACE, bias=bias),
    )
    return linears, convolved * (kernel + conv_bias) + 3 * heads + inner


def mamba1(config: Numbers, hidden: int, layers: int) -> tuple[tuple[Linear, ...], int]:
    """Return the matrices of Mamba in `layers` layers, and one layer's small vectors (jamba)."""
    inner = config.count("mamba_expand", default=2) * hidden
    state = config.count("mamba_d_state", default=16)
    kernel = config.count("mamba_d_conv", default=4)
    step = config.count("mamba_dt_rank", default=-(-hidden // 16))
    bias = config.flag("mamba_proj_bias", default=False)
    conv_bias = config.flag("mamba_conv_bias", default=True)
    linears = (
        matrix("in_proj", hidden, 2 * inner, layers, Role.STATE_SPACE, bias=bias),
        matrix("x_proj", inner, step + 2 * state, layers, Role.STATE_SPACE),
        matrix("dt_proj", step, inner, layers, Role.STATE_SPACE, bias=True),
        matrix("out_proj", inner, hidden, layers, Role.STATE_SPACE, bias=bias),
    )
    return linears, inner * (kernel + conv_bias) + inner * state + inner + step + 2 * state
