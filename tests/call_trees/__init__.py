"""Tests of call_trees."""
