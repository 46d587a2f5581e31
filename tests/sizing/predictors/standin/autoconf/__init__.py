"""Stands in for ado-autoconf: its names, its manners, and models that misbehave when they are asked for."""

import sys
from importlib import import_module

sys.modules["autoconf.utils.config_mapper"] = import_module("autoconf.model_names")  # where the library has these names
