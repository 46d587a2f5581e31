"""Rules in, verdicts out: admission policies in CEL, and rules over all objects together."""
