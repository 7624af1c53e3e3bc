"""Tests of the readers of protos."""
