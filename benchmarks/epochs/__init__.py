"""How well epochs are foretold, on public curves and on small programs that train here."""
