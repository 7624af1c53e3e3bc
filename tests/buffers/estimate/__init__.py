"""Tests of buffers.estimate."""
