"""Tests of changes of a program's text."""
