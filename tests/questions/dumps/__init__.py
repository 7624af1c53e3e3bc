"""Tests of questions.dumps."""
