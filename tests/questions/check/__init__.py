"""Tests of questions.check."""
