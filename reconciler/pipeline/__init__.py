"""The stages in order: takes ports, returns a plan."""
