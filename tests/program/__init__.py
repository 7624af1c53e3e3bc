"""Tests of program."""
