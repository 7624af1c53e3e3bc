"""Tests of load.jax."""
