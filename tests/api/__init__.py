"""Tests of what compares and judges compiles."""
