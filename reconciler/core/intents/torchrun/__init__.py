"""`TorchrunQueue` and `TorchrunJob` (`torchrun.ai/v1alpha1`): documents in, typed intents or problems out."""
