"""Git through its plumbing commands: reading revisions and the working tree, and making commits."""

from reconciler.repo.git.conflicts import GitConflicts
from reconciler.repo.git.repository import GitRepository

__all__ = ["GitConflicts", "GitRepository"]
