"""The `torchrun.ai` family: queues and distributed jobs."""
