"""The JSON output, as `schemas/gpureconciler.io/v1alpha1/plan.json` defines it. `reconciler show` reads it back."""

import json

from reconciler.core.plan import Plan
from reconciler.core.plan.codec import to_json
from reconciler.outputs.registry import DEFAULTS, RenderOptions


def render_json(plan: Plan, _: RenderOptions = DEFAULTS) -> str:
    """Render the plan as indented JSON with keys in the order of the schema."""
    return json.dumps(to_json(plan), indent=2, ensure_ascii=False) + "\n"
