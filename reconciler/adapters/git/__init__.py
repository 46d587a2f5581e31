"""Git through its plumbing commands: reading revisions and the working tree, and making commits."""

from reconciler.adapters.git.conflicts import GitConflicts
from reconciler.adapters.git.repository import GitRepository

__all__ = ["GitConflicts", "GitRepository"]
