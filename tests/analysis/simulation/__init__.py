"""Tests of simulated changes."""
