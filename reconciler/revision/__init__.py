"""What is compared: tree references, files by role, configuration."""
