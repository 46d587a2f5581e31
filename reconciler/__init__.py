"""GPU clusters run from Git: declarative YAML in, reviewed diffs and rendered manifests out."""
