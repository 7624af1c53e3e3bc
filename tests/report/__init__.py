"""Tests of tables and renderers."""
