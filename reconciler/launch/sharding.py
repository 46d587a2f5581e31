"""The sharding and offloading of a model: DeepSpeed ZeRO and FSDP, by flags and configuration files."""

from msgspec.structs import replace

from reconciler.launch.framework import Extraction
from reconciler.launch.settings import Setting, is_true, parse_boolean, setting_from_env
from reconciler.launch.shell.expansion import UNKNOWN

_FSDP = {
    "1": "fsdp-full",
    "fsdp2": "fsdp-full",
    "full_shard": "fsdp-full",
    "fully_shard": "fsdp-full",
    "true": "fsdp-full",
    "2": "fsdp-grad-op",
    "shard_grad_op": "fsdp-grad-op",
    "false": "fsdp-grad-op",
    "3": "ddp",
    "no_shard": "ddp",
    "4": "fsdp-hybrid",
    "hybrid_shard": "fsdp-hybrid",
    "5": "fsdp-hybrid",
    "hybrid_shard_zero2": "fsdp-hybrid",
}
"""Values of accelerate's `--fsdp_sharding_strategy` and `--fsdp_reshard_after_forward`, of transformers' `--fsdp`."""

_FSDP_OPTIONS = frozenset({"offload", "auto_wrap"})
"""Words of transformers' `--fsdp` that are not strategies."""

_SHARDING_VARIABLES = ("ACCELERATE_USE_FSDP", "ACCELERATE_USE_DEEPSPEED")
_ADAM = frozenset({"adam", "adamw"})
_HOST_DEVICES = frozenset({"cpu", "nvme"})


def read_sharding(extraction: Extraction) -> None:
    """Read `strategy` and `offload`."""
    _load_fsdp_file(extraction)
    _read_zero(extraction)
    if "strategy" not in extraction.facts:
        _read_fsdp(extraction)
    if extraction.framework.read_sharding is not None:
        extraction.framework.read_sharding(extraction)
    offload = extraction.script.find(
        (
            *("fsdp_cpu_offload", "fsdp_config.fsdp_cpu_offload"),
            *("fsdp_config.fsdp_offload_params", "fsdp_config.offload_params"),
        )
    )
    if offload is not None and is_true(offload):
        extraction.add("offload", offload, "all")
    _reject_variables(extraction)
    extraction.set_default("strategy", "ddp", "no sharding on the line")
    extraction.set_default("offload", "none", "no offload on the line")


def _reject_variables(extraction: Extraction) -> None:
    """Reject variables of accelerate that shard where the line says nothing of it."""
    for name in _SHARDING_VARIABLES:
        setting = setting_from_env(extraction.line.env, name)
        if is_true(setting) and setting is not None and "strategy" not in {*extraction.facts, *extraction.unresolved}:
            message = f"`{setting.fact.snippet}` shards the model, by variables that are not read"
            extraction.reject("strategy", message, None, "shard by flags of the line or of the launcher")


def _load_fsdp_file(extraction: Extraction) -> None:
    """Read the file that transformers' `--fsdp_config` names; it may offload, or keep weights unsharded."""
    config = extraction.script.find(("fsdp_config",))
    if config is not None and config.text.startswith("{"):
        if not extraction.script.add_json(config, "fsdp_config."):
            message = f"`{config.fact.snippet}` is not a JSON object"
            extraction.reject("strategy", message, config.fact.span)
    elif config is not None and config.text:
        diagnostic = extraction.load(extraction.script, config, "FSDP configuration", "fsdp_config.")
        if diagnostic is not None:
            extraction.unresolved |= dict.fromkeys(("strategy", "offload"), diagnostic)


def _read_zero(extraction: Extraction) -> None:
    script, launcher = extraction.script, extraction.launcher
    places = (
        *((script, name) for name in ("deepspeed", "deepspeed_config")),
        *((launcher, name) for name in ("deepspeed_config_file", "deepspeed_config.deepspeed_config_file")),
    )
    # A bare `--deepspeed` only enables DeepSpeed; another flag then names the file.
    named = (setting for table, name in places if (setting := table.find((name,))) is not None and setting.text)
    config = next(named, None)
    enabled = launcher.find(("use_deepspeed", "distributed_type"))
    if config is not None and UNKNOWN in config.text:
        extraction.resolve("strategy", config)
        return
    if config is not None and parse_boolean(config.text) is None:
        stage = _zero_from_file(extraction, config)
    elif enabled is not None and (enabled.text.upper() == "DEEPSPEED" or is_true(enabled)):
        stage = _zero_from_flags(extraction, enabled)
    else:
        stage = launcher.find(("zero_stage",)) if enabled is not None else None
    add_stage(extraction, stage)


def add_stage(extraction: Extraction, stage: Setting | None) -> Setting | None:
    """Add the strategy of a stage of ZeRO, and return the stage if it is known."""
    stage = extraction.resolve("strategy", stage)
    if stage is not None and stage.text in {"0", "1", "2", "3"}:
        extraction.add("strategy", stage, f"zero-{stage.text}" if stage.text != "0" else "ddp")
    elif stage is not None:
        message = f"`{stage.fact.snippet}`: expected a ZeRO stage from 0 to 3"
        extraction.reject("strategy", message, stage.fact.span)
    return stage


def _zero_from_file(extraction: Extraction, config: Setting) -> Setting | None:
    script = extraction.script
    if (preset := extraction.framework.deepspeed_presets.get(config.text)) is not None:
        stage, offload = preset
        extraction.add("offload", config, offload)
        return replace(config, text=stage)
    is_inline = config.text.startswith("{") and script.add_json(config, "deepspeed.")
    diagnostic = None if is_inline else extraction.load(script, config, "DeepSpeed configuration", "deepspeed.")
    if diagnostic is not None:
        extraction.unresolved |= dict.fromkeys(("strategy", "offload"), diagnostic)
    prefix = "deepspeed.zero_optimization."
    optimizer, parameters = (script.text(f"{prefix}offload_{name}.device") for name in ("optimizer", "param"))
    if is_true(script.find((f"{prefix}cpu_offload",))):
        optimizer = "cpu"  # the setting's name before DeepSpeed 0.3.16
    if "strategy" not in extraction.unresolved:
        _add_offload(extraction, config, optimizer, parameters)
    return script.find((f"{prefix}stage",))


def read_deepspeed_optimizer(extraction: Extraction) -> None:
    """Read the optimizer of a DeepSpeed file, which wins over the script's own; others than Adam are warned about."""
    kind = extraction.script.find(("deepspeed.optimizer.type",))
    if kind is not None and kind.text.lower() in _ADAM:
        extraction.script.under("deepspeed.optimizer.params.")
        if "optimizer" in extraction.facts:
            extraction.add("optimizer", kind, "adamw_torch")
    elif kind is not None:
        extraction.mark_uncertain(kind, "is an optimizer of DeepSpeed whose states are not modelled")


def _zero_from_flags(extraction: Extraction, enabled: Setting) -> Setting:
    launcher, prefix = extraction.launcher, "deepspeed_config."
    names = ("offload_optimizer_device", "offload_param_device")
    _add_offload(extraction, enabled, *(launcher.text(name, prefix + name) for name in names))
    stage = launcher.find(("zero_stage", f"{prefix}zero_stage"))
    return stage if stage is not None else replace(enabled, text="2")  # accelerate's default stage


def _add_offload(extraction: Extraction, setting: Setting, optimizer: str, parameters: str) -> None:
    value = "all" if parameters in _HOST_DEVICES else "optimizer" if optimizer in _HOST_DEVICES else "none"
    extraction.add("offload", setting, value)


def _read_fsdp(extraction: Extraction) -> None:
    script = extraction.script
    enabled = script.find(("enable_fsdp",))
    if enabled is not None and is_true(enabled):
        named = script.find(("sharding_strategy", "fsdp_config.sharding_strategy"))
        hybrid = is_true(script.find(("hsdp", "fsdp_config.hsdp")))
        value = "" if named is None else _FSDP.get(named.text.rpartition(".")[2].lower(), "")
        extraction.add("strategy", enabled, "fsdp-hybrid" if hybrid else value or "fsdp-full")
        return
    version = script.find(("fsdp_version",))
    if version is not None:
        resharding = script.find(("fsdp_config.reshard_after_forward", "fsdp_config.fsdp_reshard_after_forward"))
        setting = extraction.resolve("strategy", resharding or version)
        if setting is not None:
            value = "fsdp-full" if resharding is None else _FSDP.get(resharding.text.lower(), "fsdp-full")
            extraction.add("strategy", setting, value)
        return
    words = script.find(("fsdp",))
    if words is not None and words.text:
        _read_fsdp_words(extraction, words)
        return
    enabled = extraction.launcher.find(("use_fsdp", "distributed_type"))
    if enabled is not None and (enabled.text.upper() == "FSDP" or is_true(enabled)):
        _read_accelerate_fsdp(extraction, enabled)


def _read_fsdp_words(extraction: Extraction, setting: Setting) -> None:
    """Read `--fsdp "full_shard auto_wrap offload"` of transformers, or axolotl's list."""
    if extraction.resolve("strategy", setting) is None or parse_boolean(setting.text) is False:
        return
    words = " ".join((*setting.texts, setting.text)).lower().replace(",", " ").split()
    value = next((_FSDP[word] for word in words if word in _FSDP), None)
    if value is None and not set(words) <= _FSDP_OPTIONS:
        extraction.reject("strategy", f"`{setting.fact.snippet}` is not a sharding strategy", setting.fact.span)
    named = extraction.script.find(("fsdp_config.fsdp_sharding_strategy", "fsdp_config.sharding_strategy"))
    if named is not None and extraction.resolve("strategy", named) is not None:
        value = _FSDP.get(named.text.lower(), value)
    if value is not None:
        extraction.add("strategy", setting, value)
    if "offload" in words:
        extraction.add("offload", setting, "all")


def _read_accelerate_fsdp(extraction: Extraction, enabled: Setting) -> None:
    launcher, prefix = extraction.launcher, "fsdp_config."
    names = ("fsdp_sharding_strategy", "fsdp_reshard_after_forward")
    sharding = launcher.find((*names, *(prefix + name for name in names)))
    launcher.find(("fsdp_version", f"{prefix}fsdp_version"))  # both shard alike
    if sharding is None:
        extraction.add("strategy", enabled, "fsdp-full")
    elif extraction.resolve("strategy", sharding) is not None:
        if value := _FSDP.get(sharding.text.lower()):
            extraction.add("strategy", sharding, value)
        else:
            message = f"`{sharding.fact.snippet}` is not a sharding strategy"
            extraction.reject("strategy", message, sharding.fact.span)
    offload = launcher.find(("fsdp_offload_params", f"{prefix}fsdp_offload_params"))
    if offload is not None:
        extraction.add("offload", offload, "all" if is_true(offload) else "none")
