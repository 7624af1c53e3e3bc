"""Tests of questions.plans."""
