"""fms-hf-tuning (`tuning.sft_trainer`): https://github.com/foundation-model-stack/fms-hf-tuning."""

import base64
import binascii

import msgspec
from msgspec.structs import replace

from reconciler.launch.facts import Diagnostic
from reconciler.launch.framework import Extraction
from reconciler.launch.settings import flatten, parse_boolean, read_file, setting_from_env
from reconciler.launch.shell.expansion import UNKNOWN

_NAME = "fms-hf-tuning"
_LAUNCH_SCRIPT = "accelerate_launch.py"
_JSON_PATH = "SFT_TRAINER_CONFIG_JSON_PATH"
_JSON_BASE64 = "SFT_TRAINER_CONFIG_JSON_ENV_VAR"
_LAUNCHER_PREFIX = "accelerate_launch_args."
_MAX_BASE64 = 1 << 17


def read_environment(extraction: Extraction) -> None:
    """Read the base64 of a JSON object, or the JSON file, that a variable holds; it sets the launcher's flags too.

    The trainer then ignores the flags of the line (tuning.sft_trainer.parse_arguments).
    """
    env = extraction.line.env
    if (encoded := setting_from_env(env, _JSON_BASE64)) is not None and encoded.text:
        variable, origin = _JSON_BASE64, f"env {_JSON_BASE64}"
        values, diagnostic = _decode(encoded.text)
    elif (path := setting_from_env(env, _JSON_PATH)) is not None and path.text:
        variable, origin = _JSON_PATH, f"file {path.text}"
        values, diagnostic = read_file(path.text, extraction.read_bytes, f"{_NAME} configuration")
    else:
        return
    if values:
        _reject_flags(extraction, values, origin)
    if diagnostic is not None:
        extraction.diagnostics.append(replace(diagnostic, variable=variable))
    extraction.launcher.add_file(
        {
            name.removeprefix(_LAUNCHER_PREFIX): value
            for name, value in values.items()
            if name.startswith(_LAUNCHER_PREFIX)
        },
        origin,
    )
    extraction.script.add_file(values, origin)


def _reject_flags(extraction: Extraction, values: dict[str, str], origin: str) -> None:
    """Reject flags of the line that say something else than the JSON, because they have no effect."""
    for option in extraction.arguments.options:
        setting = extraction.script.find((option.name,))
        if setting is not None and values.get(option.name) not in {setting.text, ",".join(setting.texts)}:
            message = f"`{setting.fact.snippet}` has no effect: the trainer reads only the {origin}"
            hint = "set the value there, or remove the variable"
            diagnostic = Diagnostic(rule="launch.value", message=message, hint=hint, span=setting.fact.span)
            extraction.diagnostics.append(diagnostic)


def _decode(text: str) -> tuple[dict[str, str], Diagnostic | None]:
    if UNKNOWN in text:
        message = f"the value of {_JSON_BASE64} is not in the repository, so what it sets is unknown"
        hint = "write the value out, or take it from a ConfigMap of the repository"
        return {}, Diagnostic(rule="launch.file", message=message, hint=hint)
    try:
        data = msgspec.json.decode(base64.b64decode(text[:_MAX_BASE64].encode("ascii"), validate=True))
    except (binascii.Error, msgspec.DecodeError, UnicodeError, RecursionError):
        message = f"{_JSON_BASE64} is not base64 of JSON (pickled objects are not loaded)"
        return {}, Diagnostic(rule="launch.file", message=message, hint=f"encode JSON, or set {_JSON_PATH} to a file")
    if not isinstance(data, dict):
        message = f"{_JSON_BASE64} does not hold a JSON object"
        return {}, Diagnostic(rule="launch.file", message=message, hint="encode a JSON object")
    return flatten(data), None


def read_sharding(extraction: Extraction) -> None:
    """Shard fully under its own launch script. Under other launchers, each GPU holds the whole model."""
    if extraction.invocation.name.rpartition("/")[2] == _LAUNCH_SCRIPT:
        origin = f"default of {_NAME}'s {_LAUNCH_SCRIPT} (accelerate_fsdp_defaults.yaml)"
        extraction.set_default("strategy", "fsdp-full", origin)


def complete(extraction: Extraction) -> None:
    """Read `--fast_kernels LOSS NORM ROPE` (`FastKernelsConfig` of 3.2.2): whether the loss works in place."""
    kernels = extraction.resolve("fast_loss", extraction.script.find(("fast_kernels",)))
    if kernels is None:
        return
    loss = parse_boolean((kernels.texts or kernels.text.split(","))[0].strip())
    if loss is None:
        message = f"`{kernels.fact.snippet}`: expected three values, each true or false"
        extraction.reject("fast_loss", message, kernels.fact.span)
    else:
        extraction.add("fast_loss", kernels, "true" if loss else "false")
        extraction.mark_uncertain(kernels, "replaces kernels with ones that keep different tensors")
