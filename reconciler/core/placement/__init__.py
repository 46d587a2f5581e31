"""GPUs over nodes: how a request is distributed, with reasons and rejected candidates."""
