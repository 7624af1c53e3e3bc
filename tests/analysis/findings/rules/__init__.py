"""Tests of the rules, each with a program that has the fault and one without it."""
