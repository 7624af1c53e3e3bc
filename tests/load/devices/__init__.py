"""Tests of load.devices."""
