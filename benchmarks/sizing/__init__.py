"""Measurements of sizing: how accurate the predicted memory is, what its constants are fitted on, how fast it is."""
