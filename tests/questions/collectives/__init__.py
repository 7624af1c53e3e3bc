"""Tests of questions.collectives."""
