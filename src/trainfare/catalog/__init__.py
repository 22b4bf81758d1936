"""Offers and GPU facts: the bundled dated table, imported price tables, the user's own machines."""
