"""Tests of questions.diff."""
