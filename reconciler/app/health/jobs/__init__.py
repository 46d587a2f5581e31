"""What node health does for jobs before, during and after they run."""
