"""Tests of hlo."""
