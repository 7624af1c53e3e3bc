"""Tests of questions.report."""
