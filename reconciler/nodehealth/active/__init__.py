"""Tests that measure: what each profile runs, which links are tested, which errors of the driver are evidence."""
