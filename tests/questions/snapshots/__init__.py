"""Tests of questions.snapshots."""
