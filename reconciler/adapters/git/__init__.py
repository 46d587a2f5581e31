"""Git through its plumbing commands: reading revisions and the working tree, and making commits."""

from reconciler.adapters.git.repository import GitRepository

__all__ = ["GitRepository"]
