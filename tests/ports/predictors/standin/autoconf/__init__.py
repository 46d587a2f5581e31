"""Stands in for ado-autoconf: its names, its manners, and models that misbehave when they are asked for."""
