"""The JAX programs whose dumps are kept in `sample_dumps/`."""
