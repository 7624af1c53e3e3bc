"""Tests of questions.findings.rules."""
