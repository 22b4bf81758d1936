"""The accuracy of predicted epochs, on public curves and on small programs that train here."""
