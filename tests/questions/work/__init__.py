"""Tests of questions.work."""
