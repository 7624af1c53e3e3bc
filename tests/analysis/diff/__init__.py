"""Tests of the diff."""
