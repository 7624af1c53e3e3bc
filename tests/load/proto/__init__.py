"""Tests of load.proto."""
