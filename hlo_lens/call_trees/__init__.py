"""Readers of drawn call trees and CommDebugMode tables."""
