"""A plan in, its JSON form out: what `show` reads back, and what `schemas/gpureconciler.io/v1alpha1/plan.json` says."""

import json

from reconciler.core.plan import Plan
from reconciler.core.plan.codec import to_json
from reconciler.outputs.registry import DEFAULTS, RenderOptions


def render_json(plan: Plan, _: RenderOptions = DEFAULTS) -> str:
    """Write the plan as indented JSON, keys in the order of the schema."""
    return json.dumps(to_json(plan), indent=2, ensure_ascii=False) + "\n"
