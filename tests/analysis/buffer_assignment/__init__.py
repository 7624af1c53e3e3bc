"""Tests of the steps of the buffer assignment."""
