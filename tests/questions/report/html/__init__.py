"""Tests of questions.report.html."""
