"""Everything worth knowing about the GPUs of a machine, in one run of less than ten minutes."""
