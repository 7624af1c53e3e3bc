"""Tests of questions.matching."""
