"""Frameworks for reinforcement learning, with their own supervised and preference training."""
