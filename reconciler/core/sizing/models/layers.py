"""Which layers of a decoder are attention or state space, dense or a mixture of experts."""

from reconciler.core.sizing.models.blocks import Mixture
from reconciler.core.sizing.models.numbers import Numbers, UnreadableError
from reconciler.core.sizing.models.traits import Traits

_STEPS = ("moe_layer_freq", "decoder_sparse_step", "interleave_moe_layer_step", "expert_layer_period")
_STATE_SPACE = frozenset({"mamba", "mamba2"})
_ATTENTION = frozenset({"attention", "full_attention", "sliding_attention", "chunked_attention"})


def depth_of(config: Numbers) -> int:
    """Return the number of layers."""
    return config.count("num_hidden_layers", "n_layer", "num_layers", "n_layers", most=10_000)


def state_space_layers(config: Numbers, layers: int) -> int:
    """Return how many layers are state-space layers; raise UnreadableError where no layer has attention."""
    found = _state_space_layers(config, layers)
    if found == layers:
        raise UnreadableError("no layer has attention")
    return found


def _state_space_layers(config: Numbers, layers: int) -> int:
    """Count them by a list of kinds, of attention's places, or by its period, as each family tells it."""
    kinds = config.items("layer_types", "layers_block_type")
    if kinds:
        if len(kinds) != layers:
            raise UnreadableError(f"{len(kinds)} layer types for {layers} layers")
        strange = [kind for kind in kinds if not isinstance(kind, str) or kind not in _ATTENTION | _STATE_SPACE]
        if strange:
            raise UnreadableError(f"layers of type {str(strange[0])[:40]!r} are not known")
        return sum(kind in _STATE_SPACE for kind in kinds)
    places = config.items("attn_layer_indices")
    if places:
        return layers - len(_indices(places, layers))
    if config.find("attn_layer_period")[1] is None:
        return 0
    period = config.count("attn_layer_period", most=10_000)
    offset = config.count("attn_layer_offset", default=0, least=0, most=10_000)
    return sum(layer % period != offset for layer in range(layers))


def mixture_of(config: Numbers, layers: int, traits: Traits) -> Mixture:
    """Return the numbers of the experts; zero of everything for a dense model."""
    experts = config.count("num_local_experts", "num_experts", "n_routed_experts", default=0, least=0, most=100_000)
    if not experts:
        return Mixture(experts=0, chosen=0, width=0, shared=0, layers=0)
    chosen = config.count("num_experts_per_tok", "num_experts_per_token", "experts_per_token", most=100_000)
    if chosen > experts:
        raise UnreadableError(f"{chosen} of {experts} experts cannot be chosen")
    width = config.count("moe_intermediate_size", "intermediate_size")
    shared = config.count("shared_expert_intermediate_size", "shared_intermediate_size", default=0, least=0)
    shared = shared or width * config.count("n_shared_experts", default=0, least=0, most=1000)
    shared = width if traits.shared_like else shared
    return Mixture(experts=experts, chosen=chosen, width=width, shared=shared, layers=_sparse(config, layers))


def _sparse(config: Numbers, layers: int) -> int:
    """Count the layers that hold experts, as each family tells it."""
    listed = config.items("moe_layers")
    if listed:
        return len(_indices(listed, layers))
    first = config.count("first_k_dense_replace", default=0, least=0, most=10_000)
    step = config.count(
        "moe_layer_freq",
        "decoder_sparse_step",
        "interleave_moe_layer_step",
        "expert_layer_period",
        default=1,
        most=10_000,
    )
    dense = _indices(config.items("mlp_only_layers"), layers)
    if config.find("expert_layer_period")[1] is not None:
        offset = config.count("expert_layer_offset", default=0, least=0, most=10_000)
        return sum(layer % step == offset for layer in range(layers))
    if config.find("moe_layer_freq")[1] is not None:
        return sum(layer >= first and layer % step == 0 for layer in range(layers))
    return sum(layer >= first and (layer + 1) % step == 0 and layer not in dense for layer in range(layers))


def _indices(values: list[object], layers: int) -> frozenset[int]:
    found = frozenset(value for value in values if isinstance(value, int) and 0 <= value < layers)
    if len(found) != len(values):
        raise UnreadableError("a list of layers names layers that are not there")
    return found
