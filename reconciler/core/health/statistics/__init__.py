"""Statistics over a fleet: what equal GPUs measure, which are slower, which drift, and thresholds learned from it."""
