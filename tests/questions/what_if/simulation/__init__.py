"""Tests of questions.what_if.simulation."""
