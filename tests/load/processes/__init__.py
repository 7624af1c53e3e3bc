"""Tests of load.processes."""
