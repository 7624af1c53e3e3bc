"""Tests of questions.memory."""
