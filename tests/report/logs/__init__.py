"""Tests of the pages on logs."""
