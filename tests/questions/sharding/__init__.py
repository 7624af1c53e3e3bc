"""Tests of questions.sharding."""
