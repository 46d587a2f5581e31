"""Xids, the errors that NVIDIA's driver tells: events, what codes mean, and which link and pod they are about."""
