"""Live objects: which manager set which field, and what of an object a change would really change."""
