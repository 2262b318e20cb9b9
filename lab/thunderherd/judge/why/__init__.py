"""Explanations: counts times prices, profiles, flame graphs."""
