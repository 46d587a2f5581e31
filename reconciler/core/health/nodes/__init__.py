"""What node objects say about health: our own condition, taint, label and annotations, and nothing of anybody else."""
