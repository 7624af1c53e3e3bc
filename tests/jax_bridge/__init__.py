"""Tests of the front door from JAX; they run in whatever jax is installed."""
