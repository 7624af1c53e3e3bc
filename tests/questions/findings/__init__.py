"""Tests of questions.findings."""
