"""The models beside a policy that a launch line names."""

from collections.abc import Callable

from reconciler.core.launch import Diagnostic, FileReader
from reconciler.core.sizing.models import ModelTable
from reconciler.core.sizing.resolve import resolve_model
from reconciler.core.sizing.training import Companion, CompanionRole, Training


def find_companions(
    stated: Callable[[str], str], training: Training, table: ModelTable, files: FileReader, folder: str
) -> list[tuple[str, Companion | Diagnostic]]:
    """Return the facts that name models, each with the model or why its sizes are unknown.

    `stated` returns facts of the line. `policy` is a copy of the policy; `base` is one, too, unless the policy has
    adapters. A `config.json` beside the job is that of the policy, and of no other model.
    """

    def named(path: str) -> bytes | None:
        return None if path in {"config.json", f"{folder.strip('/')}/config.json"} else files(path)

    found: list[tuple[str, Companion | Diagnostic]] = []
    for role in CompanionRole:
        fact = f"{role}_model"
        name = stated(fact)
        if not name or (name == "base" and training.method.has_adapters):
            continue
        copies = name in {"policy", "base"}
        model = (training.architecture, "") if copies else resolve_model(table, name, named, folder)
        if isinstance(model, Diagnostic):
            found.append((fact, model))
            continue
        companion = Companion(
            role=role,
            architecture=model[0],
            bits=int(stated(f"{role}_bits") or 16),
            has_vocabulary=stated("vocabulary_heads") == "true",
            joint=role is CompanionRole.VALUE and stated("joint_value_model") == "true",
        )
        found.append((fact, companion))
    return found
