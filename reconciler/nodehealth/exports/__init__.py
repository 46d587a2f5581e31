"""Views of a report for those who depend on other names: labels and a gauge. Never read back, each can be off."""
