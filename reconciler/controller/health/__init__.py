"""The lanes of node health in the controller: marks on nodes at once, files in Git within a minute."""
