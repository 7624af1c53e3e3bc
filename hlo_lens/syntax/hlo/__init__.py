"""Readers of HLO text: scanner, grammar, attributes."""
