"""Tests of shapes."""
